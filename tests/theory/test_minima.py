"""Minima: the numbers of docs/theory.md, and an exhaustive search that shares nothing with the solver but the model."""

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.diagram import phase_diagram
from phasekit.theory.minima import TOLERANCE, find_minima
from phasekit.theory.scaling import scaling_law
from phasekit.theory.transitions import Family, critical_endpoint, find_transitions, transition_table

# Positional inputs, V = 8, L = 16: score, P, S, order parameters (and the loss for softmax) of the global minimum.
POSITIONAL = [
    ("linear", 128, 63.996, {"c1": 0.0369, "cG": 0.0018}, None),
    ("linear", 256, 113.987, {"c1": 0.1083, "cG": 0.1015}, None),
    ("linear", 512, 146.236, {"c1": 0.0718, "cG": 0.1609}, None),
    ("softmax", 64, 27.815, {"aG": 0.0055}, 0.841),
    ("softmax", 128, 54.000, {"aG": 0.0417}, 0.769),
    ("softmax", 256, 68.975, {"aG": 0.3524}, 0.137),
    ("softmax", 512, 80.834, {"aG": 0.4427}, 0.0676),
]
# Token+position inputs, V = 8, L = 24.
TOKEN_POSITION = [
    ("linear", 96, 46.423, {"c1": 0.2948, "cG": 0.0009}),
    ("linear", 192, 88.702, {"c1": 0.3732, "cG": 0.0053}),
    ("linear", 384, 166.62, {"c1": 0.3778, "cG": 0.0440}),
    ("linear", 768, 240.88, {"c1": 0.1550, "cG": 0.1102}),
    ("softmax", 96, 41.848, {"aG": 0.0023}),
    ("softmax", 192, 82.377, {"aG": 0.0100}),
]


def digits(value: float) -> float:
    """Half a unit in the last printed place of a reference number."""
    text = f"{value!r}"
    return 0.5 * 10.0 ** -len(text.split(".")[1]) + 1e-12


@pytest.mark.parametrize(("score", "P", "action", "orders", "loss"), POSITIONAL)
def test_positional_reference_table(score, P, action, orders, loss):
    minima = find_minima(Model(V=8, L=16, P=P, score=score))
    assert minima.action[0] == pytest.approx(action, abs=digits(action))
    for name, value in orders.items():
        assert minima.order_parameters[name][0] == pytest.approx(value, abs=digits(value))
    if loss is not None:
        assert minima.loss[0] == pytest.approx(loss, abs=digits(loss))


@pytest.mark.parametrize(("score", "P", "action", "orders"), TOKEN_POSITION)
def test_token_position_reference_table(score, P, action, orders):
    minima = find_minima(Model(V=8, L=24, P=P, score=score, inputs="token+position"))
    assert minima.action[0] == pytest.approx(action, abs=digits(action))
    for name, value in orders.items():
        assert minima.order_parameters[name][0] == pytest.approx(value, abs=digits(value))


def test_metastable_branch_of_linear_attention_is_reported_and_not_global():
    minima = find_minima(Model(V=8, L=16, P=512, score="linear"))
    assert minima.count == 2
    assert minima.action[0] < minima.action[1]
    assert minima.order_parameters["c1"][1] > 0 > minima.order_parameters["cG"][1]


def test_linear_attention_below_onset_is_the_origin():
    minima = find_minima(Model(V=8, L=16, P=100, score="linear"))
    assert minima.count == 1
    assert minima.order_parameters["c1"][0] == minima.order_parameters["cG"][0] == 0
    assert minima.action[0] == pytest.approx(100 / 2)  # P/(2κV) · V: every target is missed by all of its length
    assert minima.loss[0] == pytest.approx(1)


def test_two_patterns_cover_all_of_a_minimum_unless_its_rank_is_too_small():
    linear = Model(V=8, L=16, score="linear", P=64)
    below, above = find_minima(linear), find_minima(linear.at(P=600))
    assert np.isnan(below.coverage[0])
    assert below.describe()["branches"][0]["coverage"] is None
    assert above.describe()["branches"][0]["coverage"] == pytest.approx(1.0, abs=1e-12)
    # d = 4: A copies with three of the shift's fifteen modes, each of singular value c, as well as cG = 3c/15 for all.
    narrow = find_minima(linear.at(P=800, key_dim=4))
    s, c = (float(x[0]) for x in narrow.coordinates.values())
    assert float(narrow.coverage[0]) == pytest.approx((s**2 + 9 * c**2 / 15) / (s**2 + 3 * c**2))


# --- exhaustive search -------------------------------------------------------------------------------------------


def action_from_averages(s, s2, g, q, cost, m):
    """Return Φ + prior cost in the form in which the evidence gives it, not the one that the package evaluates."""
    t = m.P * m.sigma_w**2 / (m.kappa * m.V)
    data = m.P / (2 * m.kappa * m.V) * ((1 - t * s**2 / (1 + t * s2)) + (m.V - 1) * (1 - t * g**2 / (1 + t * q)))
    return data + cost / (2 * m.sigma_g**2)


def softmax_action(gap, m):
    weights = np.exp(gap - np.logaddexp(gap, np.log(m.L - 1)))
    others = (1 - weights) / (m.L - 1)
    return action_from_averages(1, 1, weights, weights**2 + (m.L - 1) * others**2, (m.L - 1) * gap**2, m)


def linear_action(c1, cG, m):
    s, g, q = c1 + cG, cG + c1 / m.L, cG**2 + 2 * c1 * cG / m.L + c1**2 / m.L
    lam = m.L**2 if m.inputs == "positional" else (m.V * m.L / (m.V + m.L)) ** 2
    return action_from_averages(s, s**2, g, q, lam * s**2 + m.L**2 * (m.L - 1) * cG**2, m)


def random_models(score, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        P, L, V = np.exp(rng.uniform(0, np.log([1e7, 1e5, 1e4])))
        sigma_w, sigma_g, kappa = np.exp(rng.uniform(-2, 2, 3))
        inputs = rng.choice(["positional", "token+position"])
        yield Model(
            V=max(2, round(V)), L=max(2, round(L)), P=P, score=score, inputs=inputs,
            sigma_w=sigma_w, sigma_g=sigma_g, kappa=kappa,
        )  # fmt: skip


def lowest(function, grid_points):
    """Evaluate on a grid, polish the best grid point with a derivative-free simplex, return the lowest value."""
    values = function(*grid_points)
    best = values.argmin()
    start = np.array([axis[best] for axis in grid_points])
    scale = np.where(start == 0, 1e-8, np.abs(start))
    simplex = np.vstack([np.ones(start.size), 1 + 0.02 * np.eye(start.size)]) * np.where(start == 0, 0, 1)
    options = {"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-12 * abs(values[best]), "maxfev": 2000}
    result = minimize(lambda x: function(*(x * scale)), simplex[0], method="Nelder-Mead", options=options)
    return min(values[best], result.fun)


def check_global(model, found, exhaustive):
    # The data's part of S is a sum of terms near P/2κ; its rounding bounds how well two evaluations can agree.
    rounding = 1e-10 * max(abs(exhaustive), 1e-3 * model.P / model.kappa)
    assert found <= exhaustive + rounding, model
    assert found >= exhaustive - 1e-5 * abs(exhaustive) - rounding, model


@pytest.mark.slow
def test_softmax_global_minimum_agrees_with_exhaustive_search_on_1000_models():
    for model in random_models("softmax", 1000, seed=1):
        minima = find_minima(model)
        assert minima.converged[: minima.count].all()
        gaps = np.concatenate([np.geomspace(1e-8, 1e-2, 300), np.linspace(1e-2, 60, 6000)])
        check_global(model, minima.action[0], lowest(lambda gap, m=model: softmax_action(gap, m), [gaps]))


@pytest.mark.slow
def test_linear_global_minimum_agrees_with_exhaustive_search_on_1000_models():
    angles = np.concatenate([sign * np.geomspace(1e-6, np.pi / 2, 60) for sign in (-1, 1)])
    angles = np.concatenate([angles, np.pi / 2 - np.geomspace(1e-6, 0.5, 30), -np.pi / 2 + np.geomspace(1e-6, 0.5, 30)])
    for model in random_models("linear", 1000, seed=2):
        minima = find_minima(model)
        assert minima.converged[: minima.count].all()
        lam = model.L**2 if model.inputs == "positional" else (model.V * model.L / (model.V + model.L)) ** 2
        largest = np.sqrt(model.P / model.kappa)  # ‖z‖²/2 ≤ S(0) = P/2κ at the global minimum
        radii = np.concatenate([[0], np.geomspace(1e-4 * largest, largest, 150)])
        z0, z1 = (np.outer(radii, f(angles)).ravel() * model.sigma_g for f in (np.cos, np.sin))
        cG = z1 / (model.L * np.sqrt(model.L - 1))
        c1 = z0 / np.sqrt(lam) - cG
        check_global(model, minima.action[0], lowest(lambda a, b, m=model: linear_action(a, b, m), [c1, cG]))


# --- local minima ------------------------------------------------------------------------------------------------


def test_all_local_minima_of_softmax_are_found_on_a_dense_line():
    """Count the local minima on a very dense line, over the window where there are two."""
    grid = Model(V=8, L=64, score="softmax").grid(P=np.linspace(650, 1320, 68))
    count = find_minima(grid).count
    gaps = np.linspace(0, 12, 200_001)
    for P, found in zip(grid.axes["P"], count, strict=True):
        values = softmax_action(gaps, Model(V=8, L=64, P=P))
        assert found == np.sum((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))
    assert set(count) == {1, 2}


def test_grid_and_single_models_agree():
    base = Model(V=8, L=64, score="softmax")
    grid = base.grid(P=[400.0, 800.0, 900.0], L=[16, 64])
    together = find_minima(grid)
    for i, P in enumerate(grid.axes["P"]):
        for j, L in enumerate(grid.axes["L"]):
            alone = find_minima(base.at(P=P, L=int(L)))
            assert together.count[i, j] == alone.count
            np.testing.assert_allclose(together.action[i, j, : alone.count], alone.action, rtol=1e-13)


def test_reported_gradient_norm_and_curvatures_are_those_of_the_action():
    """Finite differences of the independent action in units of the prior's standard deviation."""
    model = Model(V=8, L=16, P=256, score="softmax")
    minima = find_minima(model)
    gap, unit, h = minima.coordinates["gap"][0], 1 / np.sqrt(model.L - 1), 1e-4
    second = sum(w * softmax_action(gap + k * h * unit, model) for k, w in ((-1, 1), (0, -2), (1, 1))) / h**2
    assert minima.curvatures[0, 0] == pytest.approx(second, rel=1e-4)
    assert minima.gradient_norm[0] < TOLERANCE


def test_a_singular_hessian_leaves_the_other_models_alone():
    grid = Model(V=8, L=16, P=1e20, score="linear").grid(kappa=[1e-9, 1.0], sigma_w=[1e-9, 1.0, 1e9])
    minima = find_minima(grid)
    lone = find_minima(Model(V=8, L=16, P=1e20, score="linear", sigma_w=1e-9))
    assert minima.converged[1, 0, 0] == lone.converged[0]
    assert minima.action[1, 0, 0] == pytest.approx(lone.action[0], rel=1e-12)
    assert not minima.converged.all()


def test_missing_P_is_refused():
    with pytest.raises(InputError, match="P"):
        find_minima(Model(V=8, L=16))


@pytest.mark.parametrize("estimator", ["map", "posterior"])
def test_a_score_that_is_no_function_of_logits_has_no_theory(estimator):
    with pytest.raises(InputError, match="no theory"):
        find_minima(Model(V=8, L=16, P=10, score="cosformer"), estimator)


@pytest.mark.parametrize("word", ["Posterior", "MAP", "mean", None, 1, True])
def test_an_estimator_that_is_none_is_refused_wherever_one_is_asked_for(word):
    grid = Model(V=8, L=16, score="linear").grid(L=[12, 16])
    family = Family("L", (8.0, 64.0))
    for call in (
        lambda: find_minima(Model(V=8, L=16, P=9), word),
        lambda: find_transitions(grid.base, word),
        lambda: transition_table(grid, word),
        lambda: phase_diagram(Model(V=8, L=16).grid(P=[9, 10], L=[12, 16]), word),
        lambda: scaling_law(grid.base, "P1", "L", [12, 14, 16, 18, 20], word),
        lambda: critical_endpoint(Model(V=8, L=16), family, word),
    ):
        with pytest.raises(InputError, match=r"estimator = .*: must be one of map, posterior"):
            call()


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "count"), [("map", 12), ("posterior", 3)])
def test_exactly_at_its_onset_a_model_has_one_minimum(estimator, count):
    """There the origin's softest curvature is zero, to which rounding gives a sign."""
    rng = np.random.default_rng(7)
    models = [Model(score="linear", V=4, L=16)]
    for _ in range(count):
        sizes = {"V": int(rng.integers(2, 100)), "L": int(rng.integers(4, 300))}
        scales = {"sigma_w": rng.uniform(0.3, 3), "sigma_g": rng.uniform(0.3, 3), "kappa": np.exp(rng.uniform(-2, 2))}
        models.append(Model(score="linear", **sizes, **scales))
    for model in models:
        onset = find_transitions(model, estimator).values["P1"]
        for factor in (1 - 1e-15, 1, 1 + 1e-15, 1 + 1e-12):
            found = find_minima(model.at(P=onset * factor), estimator)
            assert found.converged.any(), (model, factor)
            lowest = found.action[found.action <= found.action[0] + 1e-9]
            assert estimator == "posterior" or lowest.size == 1, (model, factor)
