"""Encodings in the theory and in networks."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit.encodings import Matrix, Sinusoidal
from phasekit.errors import InputError
from phasekit.heads import Adam, build_energy, train
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


@pytest.mark.parametrize("score", ["linear", "softmax", "ssa", "entmax", "sparsemax"])
def test_a_bias_for_each_distance_is_one_hot_positions_with_a_wider_prior(score):
    relative = Model(V=8, L=64, P=120, score=score, encoding="relative", sigma_g=0.7)
    wide = Model(V=8, L=64, P=120, score=score, sigma_g=0.7 * 8)
    one, other = find_minima(relative), find_minima(wide)
    assert one.action == pytest.approx(other.action, rel=1e-12)
    assert list(one.loss) == pytest.approx(list(other.loss), rel=1e-12)


def test_the_threshold_is_the_squared_logarithm_of_the_length():
    for L, ratio in (64, 1.85), (256, 1.57), (1024, 1.41):
        P = find_transitions(Model(V=8, L=L, encoding="relative")).threshold("P_star")
        assert P * 7 / 8 / np.log(L) ** 2 == pytest.approx(ratio, abs=0.006)
    assert find_transitions(Model(V=8, L=64, encoding="relative")).threshold("P_star") == pytest.approx(36.58, abs=6e-3)


@pytest.mark.parametrize("mask", ["none", "causal", "window:4"])
@pytest.mark.parametrize("path", ["moments", "sequences"])
def test_gradients_are_those_of_the_energy(mask, path):
    model = Model(V=3, L=6, P=20, encoding="relative", mask=mask)
    energy = build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu", path=path)
    random = torch.Generator().manual_seed(0)
    W, G = (torch.randn(1, 2, *shape, generator=random, dtype=torch.float64) for shape in energy.shapes.values())
    _, dW, dG = energy.energy_and_gradient(W, G)
    for name, gradient in ("W", dW), ("G", dG):
        direction = torch.randn(gradient.shape, generator=random, dtype=torch.float64)
        h = 1e-6
        ends = [
            energy.energy_and_gradient(
                *(W + s * direction if name == "W" else W, G if name == "W" else G + s * direction)
            )[0]
            for s in (h, -h)
        ]
        assert torch.allclose((ends[0] - ends[1]) / (2 * h), (gradient * direction).sum((2, 3)), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_networks_at_both_ends_have_the_theory_s_energy():
    models = [Model(V=8, L=64, P=P, encoding="relative") for P in (36, 48, 72)]
    found = train(
        models, starts=("uniform", "copy"), members=1, settings=Adam(steps=800), device="cpu", dtype="float64"
    ).data
    for k, model in enumerate(models):
        theory = find_minima(model)
        ends = np.argsort(theory.averages["g"])
        assert found.converged[k].all()
        assert found.U.values[k] == pytest.approx(theory.action[ends], rel=5e-3)
        assert found.g.values[k] == pytest.approx(theory.averages["g"][ends], rel=5e-3, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_free_biases_find_nothing_lower(seed):
    """U on expected data as a function of all L biases; W is eliminated as a function of g and q."""
    random = np.random.default_rng(seed)
    V, L = int(random.integers(2, 30)), int(random.integers(6, 20))
    model = Model(V=V, L=L, P=float(random.uniform(5, 60)), encoding="relative")
    t = model.P / V

    def energy(b):
        a = np.exp(b - b.max())
        a /= a.sum()
        data = model.P / (2 * V) * (1 / (1 + t) + (V - 1) * (1 - t * a[1] ** 2 / (1 + t * (a**2).sum())))
        return data + (b**2).sum() / 2

    ends = [minimize(energy, random.normal(size=L) * scale, tol=1e-12).fun for scale in (0.01, 1, 3) for _ in range(8)]
    raised = minimize(energy, 4.0 * (np.arange(L) == 1), tol=1e-12).fun
    assert min(*ends, raised) == pytest.approx(find_minima(model).action[0], rel=1e-6)


def test_the_posterior_is_refused():
    with pytest.raises(InputError, match="share their logits"):
        action_for(Model(V=8, L=16, encoding="relative"), "posterior")


def pattern_energy(b, model):
    """Φ of softmax attention over the logits b by distance, written without derivatives."""
    a = np.exp(b - b.max())
    a /= a.sum()
    t = model.P * model.sigma_w**2 / (model.kappa * model.V)
    share = model.P / (2 * model.kappa * model.V)
    return share * (1 / (1 + t) + (model.V - 1) * (1 - t * a[1] ** 2 / (1 + t * (a**2).sum())))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["rotary:1", "rotary:3", "rotary:8:base=100", "sinusoidal:1", "sinusoidal:3"])
@pytest.mark.parametrize("seed", range(1))
def test_no_pattern_that_an_encoding_can_make_is_lower(encoding, seed):
    """Free minimisation over all its weights, gradients by differences, from random starts."""
    random = np.random.default_rng(seed)
    encoding = encoding.replace(":8:base", ":frequencies=8:base")
    model = Model(V=int(random.integers(2, 30)), L=int(random.integers(7, 20)), P=float(np.exp(random.uniform(2, 6))))
    model = model.at(encoding=encoding, sigma_g=float(np.exp(random.uniform(-0.5, 0.5))))
    basis = model.sigma_g * model.encoding.basis(model.L)
    found = find_minima(model)
    assert found.converged.all()

    def energy(theta):
        return pattern_energy(basis @ theta, model) + theta @ theta / 2

    starts = [random.normal(size=basis.shape[1]) * scale for scale in (0.1, 1, 3, 6) for _ in range(2)]
    ends = [minimize(energy, start, tol=1e-10).fun for start in starts]
    assert found.action[0] <= min(ends) + 1e-7 * abs(min(ends))


@pytest.mark.slow
def test_one_frequency_is_sharp_at_the_price_of_a_power_of_the_length():
    """V = 8: the copy weight passes a half at P = 1484 and 22 800 for L = 16 and 32, about 0.022 L⁴, without a jump."""
    for L, P in (16, 1484), (32, 22800):
        found = find_minima(Model(V=8, L=L, P=P, encoding="sinusoidal:1"))
        assert found.count == 1
        assert found.averages["g"][0] == pytest.approx(0.5, abs=0.002)
    assert find_transitions(Model(V=8, L=16, encoding="sinusoidal:1")).order == "crossover"


def test_all_frequencies_are_one_hot_positions():
    """Up to the mean of logits, which softmax ignores, and the length of positions, √(2F/L) times one-hot ones'."""
    L = 33
    model = Model(V=8, L=L, P=500, encoding="sinusoidal:16")
    same = Model(V=8, L=L, P=500, sigma_g=L / 32)
    assert find_minima(model).action == pytest.approx(find_minima(same).action, rel=1e-9)


def test_alibi_cannot_copy():
    with pytest.raises(InputError, match="can't represent the copy pattern"):
        find_minima(Model(V=8, L=16, P=10, encoding="alibi"))


def own(E):
    return Matrix(width=E.shape[1], entries=tuple(E.ravel().tolist()))


def test_the_theory_of_a_matrix_is_that_of_the_positions_in_it():
    waves = Model(V=8, L=15, P=400, encoding="sinusoidal:5")
    same = waves.at(encoding=own(Sinusoidal(frequencies=5).positions(15)))
    assert find_minima(same).action == pytest.approx(find_minima(waves).action, rel=1e-9)
    one_hot = Model(V=8, L=70, P=900)
    assert find_minima(one_hot.at(encoding=own(np.eye(70)))).action == pytest.approx(
        find_minima(one_hot).action, rel=1e-9
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_matrix_between_own_positions_is_lower(seed):
    """Free minimisation over all of G, whose logits may differ from row to row, from random starts and a raised copy.

    Positions are those of a random circulant matrix, turned at random; one wave may be missing.
    """
    random = np.random.default_rng(seed)
    L, V, P = 6 + seed, int(random.integers(2, 20)), float(np.exp(random.uniform(3.5, 5)))
    first = np.fft.fft(random.normal(size=L))
    first[[1, -1]] *= seed % 2
    circulant = np.fft.ifft(first).real[(np.arange(L)[:, None] - np.arange(L)) % L]
    E = circulant @ np.linalg.qr(random.normal(size=(L, L)))[0]
    model = Model(V=V, L=L, P=P, sigma_g=1.3, encoding=own(E))
    t, places, vectors = P / V, torch.arange(L), torch.from_numpy(E)

    def energy(flat):
        G = torch.tensor(flat.reshape(L, L), requires_grad=True)
        A = torch.softmax(vectors @ G @ vectors.T, -1)
        g, q = A[places, places - 1].mean(), A.square().sum(-1).mean()
        U = P / (2 * V) * (1 / (1 + t) + (V - 1) * (1 - t * g**2 / (1 + t * q))) + G.square().sum() / (2 * 1.3**2)
        U.backward()
        return U.item(), G.grad.numpy().ravel()

    back = np.linalg.pinv(E)
    copy = back @ np.roll(np.eye(L), 1, axis=0) @ back.T
    starts = [scale * random.normal(size=L * L) for scale in (0.01, 0.3, 1, 2) for _ in range(3)]
    starts += [scale * copy.ravel() for scale in (1, 2, 4, 8)]
    lowest = min(minimize(energy, start, jac=True, method="BFGS", tol=1e-9).fun for start in starts)
    assert find_minima(model).action[0] == pytest.approx(lowest, rel=1e-7)


def test_a_matrix_whose_kernel_is_no_function_of_the_distance_has_networks_but_no_theory():
    model = Model(V=8, L=6, P=60, encoding=own(np.random.default_rng(0).normal(size=(6, 4))))
    with pytest.raises(InputError, match="depends on the distance"):
        find_minima(model)
    found = train([model], starts=("copy",), members=1, settings=Adam(steps=500), device="cpu", dtype="float64").data
    assert found.converged.all()
    even = model.P / 16 * (1 + 7)  # of a readout that is zero
    assert float(found.U.max()) < even


def test_a_matrix_that_cannot_tell_positions_apart_cannot_copy():
    with pytest.raises(InputError, match="can't represent the copy pattern"):
        find_minima(Model(V=8, L=6, P=10, encoding=own(np.tile([[1.0], [-1.0]], (3, 1)))))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["rotary:6", "sinusoidal:5"])
def test_networks_with_waves_have_the_theory_s_energy(encoding):
    P = {"rotary:6": 80, "sinusoidal:5": 400}[encoding]
    model = Model(V=8, L=16, P=P, encoding=encoding)
    found = train(model, starts=("copy",), members=1, data_seeds=range(4), settings=Adam(steps=800), device="cpu").data
    theory = find_minima(model)
    assert found.converged.all()
    assert float(found.U.mean()) == pytest.approx(theory.action[0], rel=0.01)
    assert float(found.g.mean()) == pytest.approx(theory.averages["g"][0], rel=0.05)
