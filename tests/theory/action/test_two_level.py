"""Map actions of SSA, temperature, sparsemax and entmax: against free minimisation, and known thresholds."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize

from phasekit import InputError, Model, find_minima, find_transitions
from phasekit.theory.action import EntmaxMap, SmoothMap, action_for
from phasekit.theory.transitions.curve import StationaryCurves

SSA = {"name": "ssa", "n": 2.5, "b": 1.0}
MIXTURE = {"name": "mixture", "scores": ["softmax", SSA], "shares": [0.3, 0.7]}
SCORES = [SSA, {"name": "temperature", "T": 0.7}, {"name": "entmax", "alpha": 1.5}, {"name": "sparsemax"}, MIXTURE]


def free_energy(model):
    """Return S over one free row of logits (all rows alike up to a shift), with its gradient by autograd."""
    L, V, P, t = model.L, model.V, model.P, model.P / model.V

    def value(h):
        logits = torch.tensor(h, requires_grad=True)
        A = model.score.rows(logits[None])[0]
        g, q = A[0], (A * A).sum()
        data = P / (2 * V) * ((1 - t / (1 + t)) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
        S = data + L * (logits**2).sum() / 2
        (gradient,) = torch.autograd.grad(S, logits)
        return S.item(), gradient.numpy()

    return value


@pytest.mark.parametrize("described", SCORES, ids=lambda d: d["name"])
@pytest.mark.parametrize("P", [30.0, 90.0, 400.0])
def test_lowest_minimum_is_that_of_free_logits(described, P):
    """Unit variances; starts from zero, from one raised logit, and at random, over all L logits of a row."""
    model = Model(V=6, L=20, P=P, score=described)
    rng = np.random.default_rng(0)
    raised = np.eye(20)[0]
    starts = [np.zeros(20) + 1e-3 * raised, 1.0 * raised, 4.0 * raised, *(rng.normal(size=(3, 20)) + 2 * raised)]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 3000}
    lowest = min(minimize(free_energy(model), x, jac=True, method="L-BFGS-B", options=options).fun for x in starts)
    found = find_minima(model)
    assert found.converged[: int(found.count)].all()
    assert float(found.action[0]) == pytest.approx(lowest, rel=1e-7)


def energy_of_all_rows(model):
    """Return S over all of G, rows free to differ, with its gradient (positional inputs, unit variances)."""
    L, V, P, t = model.L, model.V, model.P, model.P / model.V

    def value(flat):
        G = torch.tensor(flat.reshape(L, L), requires_grad=True)
        A = model.score.rows(G)
        g, q = A.diagonal().mean(), (A * A).sum() / L  # the copy position may as well be the diagonal
        S = P / (2 * V) * (1 / (1 + t) + (V - 1) * (1 - t * g**2 / (1 + t * q))) + (G**2).sum() / 2
        (gradient,) = torch.autograd.grad(S, G)
        return S.item(), gradient.numpy().ravel()

    return value


@pytest.mark.slow
@pytest.mark.parametrize("described", SCORES, ids=lambda d: d["name"])
def test_no_attention_matrix_has_less_energy_than_two_levels(described):
    """From six kinds of starts, at several P around the transition: rows could switch one after another, but don't."""
    L = 10
    values = find_transitions(Model(V=4, L=L, score=described)).values
    threshold = values.get("P_star") or values["P_x"]
    rng, one = np.random.default_rng(1), np.eye(L)
    depth = 2.0 if described["name"] in ("sparsemax", "entmax") else 4.0
    some = one * (np.arange(L) % 2)
    starts = [1e-3 * one, depth * one, depth * some, depth * one - depth / L, *(rng.normal(size=(2, L, L)) + one)]
    for factor in (0.7, 1.03, 1.5):
        model = Model(V=4, L=L, P=factor * threshold, score=described)
        options = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 2000}
        runs = [
            minimize(energy_of_all_rows(model), x.ravel(), jac=True, method="L-BFGS-B", options=options) for x in starts
        ]
        found = find_minima(model)
        assert float(found.action[0]) == pytest.approx(min(run.fun for run in runs), rel=1e-7)


@pytest.mark.parametrize("described", SCORES, ids=lambda d: d["name"])
@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_derivatives(described, inputs):
    model = Model(V=6, L=20, P=90.0, score=described, inputs=inputs)
    action, p = action_for(model), model.parameters()
    z = tuple(np.array([2.0, 3.5, 5.0]) for _ in action.coordinates)
    jet = action.jet(z, p)
    for k in range(len(z)):
        ends = [tuple(x + sign * 1e-5 * (j == k) for j, x in enumerate(z)) for sign in (1, -1)]
        whitened = [action.price.state(end, p).z[k] for end in ends]  # points of entmax are labelled by log odds
        h = (whitened[0] - whitened[1]) / 2
        slope = (action.jet(ends[0], p).value - action.jet(ends[1], p).value) / (2 * h)
        np.testing.assert_allclose(jet.gradient[..., k], slope, atol=1e-7)
        for i in range(len(z)):
            curvature = (action.jet(ends[0], p).gradient[..., i] - action.jet(ends[1], p).gradient[..., i]) / (2 * h)
            np.testing.assert_allclose(jet.hessian[..., k, i], curvature, atol=1e-7)


@pytest.mark.parametrize("T", [0.5, 2.0])
def test_temperature_rescales_the_prior(T):
    hot = find_transitions(Model(V=8, L=64, score={"name": "temperature", "T": T})).values
    assert hot["P_star"] == pytest.approx(find_transitions(Model(V=8, L=64, sigma_g=1 / T)).values["P_star"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("described", "L", "P_star", "digits"),
    [
        ({"name": "ssa", "n": 2.0, "b": 1.0}, 64, 658.9, 0.05),
        ({"name": "ssa", "n": 4.0, "b": 1.0}, 1024, 6279, 0.5),
        ({"name": "entmax", "alpha": 1.5}, 64, 103.75, 0.005),
    ],
)
def test_jumps(described, L, P_star, digits):
    found = find_transitions(Model(V=8, L=L, score=described))
    assert found.order == "first"
    assert found.values["P_star"] == pytest.approx(P_star, abs=digits)


@pytest.mark.slow
@pytest.mark.parametrize("described", [{"name": "sparsemax"}, {"name": "entmax", "alpha": 2.5}])
def test_a_minimum_in_the_kink(described):
    """With a large vocabulary the data still pull when the copy entry has all the weight: the minimum sits there."""
    model = Model(V=200, L=16, score=described)
    found = {P: find_minima(model.at(P=P)) for P in (30.0, 1e5)}
    for P, minima in found.items():
        assert minima.converged.all()
        value = free_energy(model.at(P=P))
        brute = min(value(np.eye(16)[0] * gap - gap / 16)[0] for gap in np.append(np.linspace(0, 1.5, 201), 2 / 3))
        assert float(minima.action[0]) == pytest.approx(brute, rel=2e-3)
        assert minima.action[0] <= brute * (1 + 1e-12)
    assert found[1e5].order_parameters["aG"][0] == pytest.approx(1, abs=1e-12)
    assert found[30.0].order_parameters["aG"][0] < 0.9


@pytest.mark.parametrize(
    ("described", "kink"), [({"name": "sparsemax"}, 1.0), ({"name": "entmax", "alpha": 2.5}, 2 / 3)]
)
def test_the_kink_holds_the_minimum_from_where_the_data_pull_harder_than_the_prior(described, kink):
    """Their forces just before the kink, by finite differences of one free row."""

    def slope(log_P):
        value, raised = free_energy(Model(V=200, L=16, P=float(np.exp(log_P)), score=described)), np.eye(16)[0] - 1 / 16
        ends = [value(raised * (kink - h))[0] for h in (1e-5, 2e-5, 3e-5)]
        return (2.5 * ends[0] - 4 * ends[1] + 1.5 * ends[2]) / 1e-5  # one-sided, of second order

    from_here = np.exp(brentq(slope, np.log(50), np.log(1e5)))
    for factor, sits in ((0.99, False), (1.01, True)):
        found = find_minima(Model(V=200, L=16, P=factor * from_here, score=described))
        assert (found.order_parameters["aG"][0] > 1 - 1e-12) == sits


@pytest.mark.parametrize("described", SCORES, ids=lambda d: d["name"])
@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_the_curve_is_stationary(described, inputs):
    model = Model(V=6, L=20, score=described, inputs=inputs)
    action, p = action_for(model), model.at(P=1.0).parameters().ravel()
    curve = StationaryCurves(action, p.replace(P=np.ones(1)))
    u = curve.nodes[:, ::40].reshape(1, -1)
    there = curve.at(u, curve.p.expand())
    z = curve.point(u, there)
    size = np.sqrt(sum(x**2 for x in z))
    for slope in np.moveaxis(action.jet(z, there).gradient, -1, 0):
        assert np.all(np.abs(slope) < 1e-9 * np.maximum(size, 1))


def test_close_to_the_kink():
    """For α < 2 it is never reached, however many the data, but approached beyond what the gap resolves."""
    found = find_minima(Model(V=8, L=64, P=1e12, score={"name": "entmax", "alpha": 1.9}))
    assert found.converged.all()
    assert found.coordinates["gap"][0] <= 1 / 0.9
    assert found.order_parameters["aG"][0] <= 1


@pytest.mark.slow
def test_mixture_of_one_score_with_itself_is_that_score():
    alone = find_transitions(Model(V=8, L=64, score=SSA)).values
    twice = find_transitions(Model(V=8, L=64, score={"name": "mixture", "scores": [SSA, SSA]})).values
    assert twice["P_star"] == pytest.approx(alone["P_star"], rel=1e-9)
    np.testing.assert_allclose(twice["spinodals"], alone["spinodals"], rtol=1e-9)


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"name": "per-head"}, "one of the scores"),
        ({"name": "sa-softmax"}, "don't sum to one"),
        ({"name": "cosformer"}, "no function of the logits"),
        ({"name": "mixture", "scores": ["softmax", "sparsemax"]}, "softmax family"),
    ],
)
def test_scores_without_a_theory_say_why(described, why):
    with pytest.raises(InputError, match=why):
        find_transitions(Model(V=8, L=64, score=described))


@pytest.mark.slow
def test_smooth_scores():
    assert find_transitions(Model(V=8, L=64, score={"name": "ssa", "n": 1.5, "b": 1.0})).order == "crossover"
    sparse = find_transitions(Model(V=8, L=64, score="sparsemax"))
    assert sparse.order == "crossover"
    assert sparse.values["P_x"] == pytest.approx(23.34, abs=0.01)


def test_actions_are_chosen_by_kind_of_score():
    assert isinstance(action_for(Model(V=8, L=64, score=SSA)), SmoothMap)
    assert isinstance(action_for(Model(V=8, L=64, score="sparsemax")), EntmaxMap)
