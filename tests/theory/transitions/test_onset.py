"""Onset and crossover of linear attention, against determinants, dense minimisation, and closed forms."""

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.model import Model
from phasekit.theory import closed_forms
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table
from phasekit.theory.transitions.table import parameters_without_P


def action(c1, cG, P, V, L, lam):
    """Return S at unit variances, from the averages."""
    t, s, g, q = P / V, c1 + cG, cG + c1 / L, cG**2 + 2 * c1 * cG / L + c1**2 / L
    data = P / (2 * V) * (1 - t * s**2 / (1 + t * s**2) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
    return data + (lam * s**2 + L**2 * (L - 1) * cG**2) / 2


MODELS = [
    (8, 16, "positional"),
    (64, 16, "positional"),
    (8, 1024, "positional"),
    (8, 24, "token+position"),
    (32, 512, "token+position"),
]


def cost(V, L, inputs):
    return L**2 if inputs == "positional" else (V * L / (V + L)) ** 2


@pytest.mark.parametrize(("V", "L", "inputs"), MODELS)
def test_onset_is_where_the_origin_turns_from_minimum_to_saddle(V, L, inputs):
    """By a dense look around the origin at P₁(1 ± 1e-4): S rises in every direction below, falls in one above."""
    P1 = find_transitions(Model(V=V, L=L, score="linear", inputs=inputs)).values["P1"]
    lam = cost(V, L, inputs)
    angles = np.linspace(0, np.pi, 20001)
    for factor, falls in ((1 - 1e-4, False), (1 + 1e-4, True)):
        P = P1 * factor
        # Small enough a step that the quartic term can't hide the quadratic one.
        step = 1e-3 * np.sqrt(V / P)
        cG = step * np.sin(angles) * np.sqrt(lam) / (L * np.sqrt(L - 1))
        c1 = step * np.cos(angles) - cG
        change = action(c1, cG, P, V, L, lam) - action(0.0, 0.0, P, V, L, lam)
        assert (change.min() < 0) == falls


@pytest.mark.parametrize(("V", "L", "inputs"), MODELS)
def test_onset_agrees_with_the_closed_root(V, L, inputs):
    model = Model(V=V, L=L, score="linear", inputs=inputs, sigma_w=0.7, sigma_g=1.9, kappa=2.3)
    exact = closed_forms.onset(parameters_without_P(model))
    assert find_transitions(model).values["P1"] == pytest.approx(float(exact), rel=1e-9)


def test_onset_reference_value():
    found = find_transitions(Model(V=8, L=24, score="linear", inputs="token+position"))
    assert found.values["P1"] == pytest.approx(47.7, abs=0.05)
    assert found.order == "second"


@pytest.mark.parametrize(("V", "L", "inputs"), [m for m in MODELS if m[0] != 64])
def test_crossover_is_where_half_of_the_attention_copies(V, L, inputs):
    """Minimise S by L-BFGS-B from several starts just below and above P₂ and look at g²/q of the lowest minimum."""
    P2 = find_transitions(Model(V=V, L=L, score="linear", inputs=inputs)).values["P2"]
    lam = cost(V, L, inputs)
    scale = np.array([1 / np.sqrt(lam), 1 / (L * np.sqrt(L - 1))])

    def share(P):
        results = []
        for start in ([1, 0], [1, 1], [3, 3], [5, 1], [1, 5], [10, 10]):
            results.append(
                minimize(
                    lambda x: action(x[0] * scale[0] - x[1] * scale[1], x[1] * scale[1], P, V, L, lam), start, tol=1e-12
                )
            )
        best = min(results, key=lambda r: r.fun).x * scale
        c1, cG = best[0] - best[1], best[1]
        return (cG + c1 / L) ** 2 / (cG**2 + 2 * c1 * cG / L + c1**2 / L)

    assert share(P2 * 0.995) < 0.5 < share(P2 * 1.005)


def test_no_crossover_where_copying_comes_first():
    found = find_transitions(Model(V=64, L=16, score="linear"))
    assert found.values["P2"] is None
    assert "copying already" in found.evidence["P2"]
    mode = find_minima(Model(V=64, L=16, score="linear", P=found.values["P1"] * (1 + 1e-6))).order_parameters
    assert mode["cG"][0] / (mode["c1"][0] + mode["cG"][0]) == pytest.approx(0.75, abs=0.005)


@pytest.mark.parametrize(("V", "L", "inputs"), MODELS)
def test_growth_is_continuous_with_the_mean_field_exponent(V, L, inputs):
    found = find_transitions(Model(V=V, L=L, score="linear", inputs=inputs))
    assert found.order == "second"
    assert found.evidence["beta"] == pytest.approx(0.5, abs=2e-3)


@pytest.mark.parametrize(("V", "L"), [(15, 16), (1022, 1024), (63, 64), (65, 64)])
def test_onset_is_second_order_where_both_modes_soften_at_once(V, L):
    """The exponent is 1/2 only very close to P₁ there, but the order parameter still grows from zero."""
    found = find_transitions(Model(V=V, L=L, score="linear"))
    assert found.order == "second"
    P1 = found.values["P1"]
    sizes = [
        np.hypot(*(x[0] for x in find_minima(Model(V=V, L=L, score="linear", P=P1 * (1 + d))).coordinates.values()))
        for d in (1e-8, 1e-6, 1e-4)
    ]
    assert sizes[0] < 0.2 * sizes[1]
    assert sizes[1] < 0.2 * sizes[2]


def test_quartic_term_is_that_of_the_action():
    """Fit S along the critical mode by a polynomial."""
    model = Model(V=8, L=16, score="linear")
    found = find_transitions(model)
    P1 = found.values["P1"]
    near = find_minima(model.at(P=P1 * (1 + 1e-7)))
    c1, cG = near.coordinates["c1"][0], near.coordinates["cG"][0]
    z = np.hypot(16 * (c1 + cG), 16 * np.sqrt(15) * cG)  # whitened length
    lengths = np.linspace(0.02, 0.3, 40)
    values = np.array([action(c1 * a / z, cG * a / z, P1, 8, 16, 16**2) for a in lengths]) - P1 / 2
    quartic = np.linalg.lstsq(np.stack([lengths**k for k in (2, 4, 6, 8)], axis=1), values, rcond=None)[0][1]
    assert found.evidence["quartic"] == pytest.approx(quartic, rel=1e-3)


def test_leading_form_of_the_crossover():
    """Within 6 % from L = 33 on for positional inputs, 4 to 21 % below for token+position (V = 8)."""
    lengths = [33, 100, 1000, 10_000]
    ratios = {}
    for inputs in ("positional", "token+position"):
        model = Model(V=8, L=2, score="linear", inputs=inputs)
        grid = model.grid(L=lengths)
        ratios[inputs] = transition_table(grid)["P2"].to_numpy() / closed_forms.crossover_leading(
            parameters_without_P(grid)
        )
    assert np.all(np.abs(ratios["positional"] - 1) < 0.06)
    assert np.all((ratios["token+position"] > 1.03) & (ratios["token+position"] < 1.21))


def test_crossover_agrees_with_the_exact_closed_form():
    """The numeric P₂ follows the global minimum; the closed form solves a balance equation."""
    for inputs in ("positional", "token+position"):
        grid = Model(V=8, L=2, score="linear", inputs=inputs, sigma_w=0.7, sigma_g=1.9, kappa=2.3).grid(
            V=[2, 8, 64, 500], L=[8, 33, 300, 10_000]
        )
        numeric = transition_table(grid)["P2"].to_numpy()
        exact = closed_forms.crossover(parameters_without_P(grid))
        assert np.isfinite(numeric).sum() >= 10  # copying comes with the onset for V well above L
        np.testing.assert_array_equal(np.isfinite(numeric), np.isfinite(exact))
        np.testing.assert_allclose(numeric, exact, rtol=1e-8)
