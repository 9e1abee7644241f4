"""The map of factorised heads: its action from the definition, its minima and jumps, and free minimisation over G."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.heads import Adam, train
from phasekit.model import Model
from phasekit.theory.action import LinearNuclear, SoftmaxNuclear, action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table

LINEAR = Model(V=5, L=8, score="linear", sigma_w=0.9, sigma_g=1.2, kappa=0.8, key_dim=8)
SOFTMAX = LINEAR.at(score="softmax", L=10, key_dim=10)


def energy_of(model, A, G):
    """S of an attention matrix and its logits, by numpy from the definition: averages, evidence, nuclear norm."""
    V, L, P = model.V, model.L, model.P
    t, half = P * model.sigma_w**2 / (model.kappa * V), P / (2 * model.kappa * V)
    sums, back = A.sum(1), np.roll(np.eye(L), 1, axis=1).T
    s, s2, g, q = sums.mean(), (sums**2).mean(), (A * back).sum() / L, (A**2).sum() / L
    data = half * (1 - t * s**2 / (1 + t * s2)) + half * (V - 1) * (1 - t * g**2 / (1 + t * q))
    return data + np.sqrt(model.key_dim) / model.sigma_g * np.linalg.norm(G, "nuc")


def linear_energy(model, s, c):
    """S of a row sum and r − 1 equal singular values along Fourier modes of the shift."""
    L, r = model.L, min(model.key_dim, model.L)
    modes = np.fft.fft(np.eye(L)) / np.sqrt(L)
    phases = np.exp(-2j * np.pi * np.arange(L) / L)
    # Real matrices need modes in conjugate pairs; theory doesn't mind which modes are used.
    order = [0, *itertools.chain(*((k, L - k) for k in range(1, L // 2 + 1)))][:r]
    singular = np.zeros(L)
    singular[order] = c
    singular[0] = s
    A = (modes.conj().T * (phases * singular)) @ modes
    return energy_of(model, A.real, L * A.real), A


def softmax_energy(model, gap):
    G = gap * (np.roll(np.eye(model.L), 1, axis=1).T - 1 / model.L)
    A = np.exp(G)
    return energy_of(model, A / A.sum(1, keepdims=True), G)


def values_at(model, *x):
    action = action_for(model)
    p = model.parameters()
    x = tuple(np.asarray(v, dtype=float) for v in x)
    z = action.whitened(x, p) if len(x) == 2 else action.price.place(x[0], p).point
    return action, p, z


@pytest.mark.parametrize("d", [3, 5, 7, 8, 20])  # odd ranks below L: pairs of modes and the uniform one
@pytest.mark.parametrize(("s", "c"), [(0.3, 0.2), (0.5, 0.0), (0.2, -0.3)])
def test_linear_action_is_the_definition(d, s, c):
    model = LINEAR.at(P=300, key_dim=d)
    action, p, z = values_at(model, s, c)
    expected, A = linear_energy(model, s, c)
    assert np.abs(A.imag).max() < 1e-12
    assert float(action.jet(z, p).value) == pytest.approx(expected, rel=1e-12)
    assert float(action.averages(z, p).g) == pytest.approx((A.real * np.roll(np.eye(8), 1, axis=1).T).sum() / 8)


@pytest.mark.parametrize("gap", [0.0, 0.7, 3.1])
def test_softmax_action_is_the_definition(gap):
    model = SOFTMAX.at(P=300)
    action, p, z = values_at(model, gap)
    assert float(action.jet(z, p).value) == pytest.approx(softmax_energy(model, gap), rel=1e-12)


@pytest.mark.parametrize("model", [LINEAR.at(P=300), LINEAR.at(P=300, key_dim=3), SOFTMAX.at(P=300),
                                   LINEAR.at(P=300, inputs="token+position")])  # fmt: skip
def test_derivatives_are_those_of_the_value(model):
    action, p = action_for(model), model.parameters()
    random, h = np.random.default_rng(0), 1e-5
    n = len(action.coordinates)
    for z in random.uniform(0.3, 3.0, (20, n)) * random.choice([-1, 1], (20, n)):
        jet = action.jet(tuple(z), p)
        for i in range(n):
            step = h * np.eye(n)[i]
            up, down = (action.jet(tuple(z + e * step), p) for e in (1, -1))
            assert float(jet.gradient[i]) == pytest.approx(float(up.value - down.value) / (2 * h), rel=1e-6, abs=1e-6)
            for j in range(n):
                slope = float(up.gradient[j] - down.gradient[j]) / (2 * h)
                assert float(jet.hessian[i, j]) == pytest.approx(slope, rel=1e-5, abs=1e-5)


def brute_minima(model, action, p):
    """All minima from many starts of a quasi-Newton search on the value alone."""
    random, found = np.random.default_rng(1), []
    n = len(action.coordinates)
    starts = [np.zeros(n), *random.uniform(-1, 1, (150, n)) * np.array([25.0, 40.0][:n])]
    for start in starts:
        res = minimize(lambda z: float(action.jet(tuple(z), p).value), start, method="Nelder-Mead",
                       options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000})  # fmt: skip
        found.append(res.fun)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        *(LINEAR.at(P=P) for P in (160, 240)),
        LINEAR.at(P=260, key_dim=3),
        SOFTMAX.at(P=500),
        *(pytest.param(m, marks=pytest.mark.nightly) for m in (LINEAR.at(P=60), LINEAR.at(P=700), SOFTMAX.at(P=200))),
    ],
)
def test_every_minimum_is_found(model):
    """None lies below or beside those returned: each end of a search over the value is one of them."""
    minima = find_minima(model)
    assert minima.converged.all()
    for value in brute_minima(model, action_for(model), model.parameters()):
        assert np.abs(minima.action - value).min() < 1e-5 * value
    assert (np.diff(minima.action) >= 0).all()


def free_energies(model, starts):
    """Lowest energies over all factors, attention whatever they make of it (autograd, no pattern assumed)."""
    V, L, P, d = model.V, model.L, model.P, model.key_dim
    r, back = min(d, L), torch.roll(torch.eye(L, dtype=torch.float64), 1, dims=1).T
    t, half = P * model.sigma_w**2 / (model.kappa * V), P / (2 * model.kappa * V)
    random, found = np.random.default_rng(0), []

    def action(x):
        factors = torch.from_numpy(x).requires_grad_()
        G = factors.view(2, r, L)[0].T @ factors.view(2, r, L)[1]
        A = torch.softmax(G, 1) if model.score.normalised else G / L
        sums = A.sum(1)
        s, s2, g, q = sums.mean(), sums.square().mean(), (A * back).sum() / L, A.square().sum() / L
        value = half * (1 - t * s**2 / (1 + t * s2)) + half * (V - 1) * (1 - t * g**2 / (1 + t * q))
        value = value + factors.square().sum() * d**0.5 / (2 * model.sigma_g)
        value.backward()
        return value.item(), factors.grad.numpy()

    copy = np.sqrt(2.0) * np.eye(L)[:r]
    for k in range(starts):
        x = random.standard_normal((2, r, L)) * (0.3, 1.0, 2.0)[k % 3]
        if k % 2:  # near the copying pattern, or what r dimensions hold of it
            rotation = np.linalg.qr(random.standard_normal((L, L)))[0]
            x = 0.1 * x + np.stack([copy @ rotation @ back.numpy().T, copy @ rotation])
        res = minimize(action, x.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14})
        found.append(res.fun)
    return np.sort(found)


@pytest.mark.parametrize(
    "model",
    [
        LINEAR.at(P=180),
        LINEAR.at(P=260),
        LINEAR.at(P=260, key_dim=3),
        LINEAR.at(P=300, key_dim=30),
        LINEAR.at(P=300, V=40),
        SOFTMAX.at(P=150),
        SOFTMAX.at(P=600),
        SOFTMAX.at(P=900, key_dim=40),
    ],
)
def test_free_minimisation_finds_the_same_lowest_energy(model):
    """No attention matrix beats the two-pattern ansatz, and the lowest minimum is reached without assuming it."""
    theory = float(find_minima(model).action[0])
    free = free_energies(model, 24)
    assert free[0] == pytest.approx(theory, rel=1e-7)


@pytest.mark.slow
def test_fewer_dimensions_than_copying_needs():
    """Softmax logits of rank below L − 1 cost no less than the full pattern's theory at the same d says."""
    model = SOFTMAX.at(P=600, key_dim=4)
    with pytest.raises(InputError, match="copying softmax logits have rank L − 1 = 9"):
        find_minima(model)
    action, p = SoftmaxNuclear(4), model.parameters().ravel()
    gaps = np.linspace(0, 6, 4001)
    bound = min(action.jet(action.price.place(gaps, p).point, p).value)
    free = free_energies(model, 24)[0]
    assert bound < free < 1.3 * bound


@pytest.mark.slow
def test_jumps_are_where_actions_cross():
    values = find_transitions(LINEAR).values
    for jump in values["jumps"]:
        minima = find_minima(LINEAR.at(P=jump["P"]))
        assert minima.action[1] == pytest.approx(minima.action[0], rel=1e-9)
        assert jump["action"] == pytest.approx(minima.action[0])
        (low, high), loss = jump["spinodals"], jump["jump"]["loss"]
        assert low < jump["P"]
        assert high is None or high > jump["P"]
        assert loss[1] < loss[0] - 0.02
    assert [jump["to"] for jump in values["jumps"]] == ["pooling", "copying"]
    assert (values["P1"], values["P2"]) == tuple(jump["P"] for jump in values["jumps"])
    assert values["jumps"][0]["spinodals"][1] is None  # no pattern: a minimum for ever


@pytest.mark.slow
def test_softmax_jump_and_its_window():
    values = find_transitions(SOFTMAX).values
    (jump,) = values["jumps"]
    assert jump["P"] == values["P_star"]
    low, high = jump["spinodals"]
    for P, count in ((0.999 * low, 1), (1.001 * low, 2), (0.999 * high, 2), (1.001 * high, 1)):
        assert int(find_minima(SOFTMAX.at(P=P)).count) == count
    assert jump["jump"]["aG"][0] == 0
    # by brute force: the lowest point of the definition leaves gap 0 exactly there
    gaps = np.linspace(0, 6, 1501)
    for P, lowest in ((jump["P"] * 0.9999, True), (jump["P"] * 1.0001, False)):
        energies = [softmax_energy(SOFTMAX.at(P=P), gap) for gap in gaps]
        assert (np.argmin(energies) == 0) == lowest


@pytest.mark.slow
def test_vocabulary_beyond_the_context_copies_at_once():
    values = find_transitions(LINEAR.at(V=40)).values
    assert values["P2"] is None
    assert [jump["to"] for jump in values["jumps"]] == ["copying"]


@pytest.mark.slow
def test_a_grid_has_the_jumps_of_its_models():
    """Two models that differ in κ alone have the same theory at the same P/κ."""
    table = transition_table(LINEAR.grid(kappa=[0.8, 1.6]))
    values = find_transitions(LINEAR).values
    for name in ("P1", "P2"):
        assert table[name].values == pytest.approx(np.array([1, 2]) * values[name])
    star = transition_table(SOFTMAX.grid(L=[10])).P_star
    assert float(star[0]) == pytest.approx(find_transitions(SOFTMAX).values["P_star"])


@pytest.mark.slow
def test_linear_jumps_grow_as_the_cube_root_of_the_key_dimension():
    """Exactly, from d = L on: all that depends on d is √d/σ_g against P^(3/2)."""
    one, eight = (find_transitions(LINEAR.at(key_dim=d)).values for d in (8, 64))
    assert eight["P1"] == pytest.approx(2 * one["P1"], rel=1e-9)
    assert eight["P2"] == pytest.approx(2 * one["P2"], rel=1e-9)


@pytest.mark.parametrize("score", ["linear", "softmax"])
def test_networks_agree(score):
    model = Model(V=8, L=12, P=900, score=score, key_dim=12)
    data = train(model, starts=("copy",), members=2, data_seeds=(0, 1), settings=Adam(steps=1500)).data
    minima = find_minima(model)
    assert data.converged.all()
    assert data.U.values == pytest.approx(float(minima.action[0]), rel=0.005)
    name = "cG" if score == "linear" else "aG"
    assert data[name].values == pytest.approx(float(minima.order_parameters[name][0]), rel=0.03)


@pytest.mark.slow
def test_one_dimension_pools_only():
    values = find_transitions(LINEAR.at(key_dim=1)).values
    assert values["P2"] is None
    assert [jump["to"] for jump in values["jumps"]] == ["pooling"]
    minima = find_minima(LINEAR.at(P=300, key_dim=1))
    assert (minima.coordinates["c"] == 0).all()
    assert free_energies(LINEAR.at(P=300, key_dim=1), 12)[0] == pytest.approx(float(minima.action[0]), rel=1e-7)


@pytest.mark.parametrize(("score", "estimator"), [("ssa", "map"), ("linear", "posterior")])
def test_what_has_no_theory(score, estimator):
    with pytest.raises(InputError, match="has no theory for factorised heads"):
        action_for(LINEAR.at(score=score), estimator)


def test_actions_know_their_kind():
    assert isinstance(action_for(LINEAR), LinearNuclear)
    assert action_for(LINEAR).course == "jumps"
    assert action_for(LINEAR.at(key_dim=None)).course == "onset"
