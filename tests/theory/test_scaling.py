"""Scaling laws: exponents of known functions, the laws of docs/theory.md, and the fits."""

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory import closed_forms
from phasekit.theory.action import action_for
from phasekit.theory.scaling import compare_laws, exponent, local_exponent, scaling_law
from phasekit.theory.transitions import find_transitions, transition_table
from phasekit.theory.transitions.table import parameters_without_P


def synthetic(x, y, form):
    return xr.Dataset(
        {"P_star": ("L", y), "closed_form": ("L", form)}, coords={"L": x}, attrs={"quantity": "P_star", "axis": "L"}
    )


def test_exponents_of_a_power_law_with_a_correction():
    """P = x^1.5 (1 + 10/x): the local exponent is 1.5 − 10/(x + 10)."""
    x = np.geomspace(10, 1e5, 81)
    y = x**1.5 * (1 + 10 / x)
    inner = slice(1, -1)
    np.testing.assert_allclose(local_exponent(x, y)[inner], (1.5 - 10 / (x + 10))[inner], atol=1e-3)
    found = exponent(synthetic(x, y, y))
    assert found.value == pytest.approx(1.5, abs=1e-3)
    decades = [np.log10(x**1.5 * (1 + 10 / x)) for x in (1e5, 1e4, 1e3)]
    assert found.value == pytest.approx(decades[0] - decades[1], abs=1e-6)
    assert found.drift == pytest.approx(abs(decades[0] - 2 * decades[1] + decades[2]), abs=1e-6)


def test_the_right_law_wins_and_its_prefactor_is_found():
    x = np.geomspace(10, 1e5, 41)
    law = x * np.log(x) ** 2
    fits = compare_laws(synthetic(x, 3 * law, law))
    assert [fit.law for fit in fits] == ["form", "power law"]
    assert fits[0].prefactor == pytest.approx(3)
    assert fits[0].rms < 1e-12 < 0.01 < fits[1].rms


def test_a_power_law_is_recognised():
    x = np.geomspace(10, 1e5, 41)
    fits = compare_laws(synthetic(x, 2 * x**1.3, x))
    assert fits[0].law == "power law"
    assert fits[0].exponent == pytest.approx(1.3)
    assert fits[0].prefactor == pytest.approx(2)


def test_a_law_that_ends_early_does_not_win_by_its_few_points():
    """At the one point where the form exists, its free prefactor would fit without a rest."""
    x = np.geomspace(10, 1e5, 41)
    fits = compare_laws(synthetic(x, x**1.3 * (1 + 1 / x), np.where(x < 1e5, np.nan, x)))
    assert [(fit.law, fit.missing, fit.rank) for fit in fits] == [("power law", 0, 1), ("form", 40, None)]
    assert np.isnan(fits[1].rms)


def test_laws_are_compared_at_the_thresholds_that_all_of_them_have():
    """A power law up to x = 1000 and not beyond: a form that ends there may not beat it by ending."""
    x = np.geomspace(10, 1e5, 41)
    y = np.where(x < 1000, x**1.5, x**2 / 30)
    fits = compare_laws(synthetic(x, y, np.where(x < 1000, x**1.45, np.nan)))
    assert [(fit.law, fit.rank, fit.missing) for fit in fits] == [("power law", 1, 0), ("form", 2, 21)]
    assert fits[0].compared == fits[1].compared == 20
    assert fits[0].exponent == pytest.approx(1.5)


def test_laws_that_differ_by_rounding_are_a_tie():
    x = np.geomspace(10, 1e5, 41)
    noise = 1 + 1e-14 * np.random.default_rng(0).normal(size=(2, x.size))
    data = synthetic(x, x**1.3, 2 * x**1.3 * noise[0]).assign(closed_other=("L", 3 * x**1.3 * noise[1]))
    assert {fit.law: fit.rank for fit in compare_laws(data)} == {"form": 1, "other": 1, "power law": 1}
    data = data.assign(closed_form=("L", x * noise[0]), closed_other=("L", 5 * x * noise[1]))
    assert [(fit.law, fit.rank) for fit in compare_laws(data)] == [("power law", 1), ("form", 2), ("other", 2)]


def test_few_thresholds_are_no_laws():
    x = np.geomspace(10, 1e5, 41)
    with pytest.raises(InputError, match="P_star exists at 4 of 41 values; laws need at least 5"):
        compare_laws(synthetic(x, np.where(x > 4e4, x, np.nan), x))


def test_second_order_onset_grows_as_V_squared_where_contexts_are_long():
    model = Model(V=2, L=1_000_000, score="linear", inputs="token+position")
    found = exponent(scaling_law(model, "P1", "V", np.geomspace(8, 8000, 13).round()))
    assert found.value == pytest.approx(2, abs=0.01)


def test_crossover_grows_as_L_to_three_halves_and_root_V():
    lengths = scaling_law(Model(V=8, L=2, score="linear"), "P2", "L", np.geomspace(32, 1e6, 16).round())
    assert exponent(lengths).value == pytest.approx(1.5, abs=0.005)
    vocabularies = scaling_law(Model(V=2, L=1_000_000, score="linear"), "P2", "V", np.geomspace(8, 1e4, 13).round())
    assert exponent(vocabularies).value == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("power", "ratio"), [(6, 0.65), (10, 0.48), (16, 0.40), (30, 0.34)])
def test_jump_approaches_L_log_squared_slowly(power, ratio):
    law = scaling_law(
        Model(V=8, L=2), "P_star", "L", 2.0 ** np.array([power - 2, power - 1, power, power + 1, power + 2])
    )
    values = law.sel(L=2.0**power)
    assert float(values["P_star"] / values["closed_L_ln2_L"]) / 4 == pytest.approx(ratio, abs=0.006)


def test_local_exponents_of_the_jump():
    """Centred differences of the jump itself, whose values are checked against mpmath in transitions/test_folds.py."""
    powers = {6: 1.303, 10: 1.222, 14: 1.170, 20: 1.124}
    for power, value in powers.items():
        law = scaling_law(Model(V=8, L=2), "P_star", "L", np.rint(2.0**power * 1.02 ** np.arange(-2.0, 3.0)))
        assert float(law["local_exponent"].sel(L=2.0**power)) == pytest.approx(value, abs=6e-4)


def test_jump_where_the_vocabulary_is_as_long_as_the_context():
    """V = L^a with a = 1: P*/(L ln² L) stays close to ((1 + a)/2)² = 1."""
    for L, ratio in ((64, 1.07), (256, 0.99), (1024, 0.96), (4096, 0.94)):
        grid = Model(V=L, L=2).grid(L=[L / 2, L * 0.75, L, L * 1.5, L * 2])
        P = scaling_law(grid.base, "P_star", "L", grid.axes["L"]).sel(L=L)["P_star"]
        assert float(P) / (L * np.log(L) ** 2) == pytest.approx(ratio, abs=0.006)


def test_jump_for_a_huge_vocabulary_grows_as_root_V():
    """t ≪ 1 (V ≫ L ln² L): P* ≈ κ√(VL) ln L/(σ_wσ_g), so half a power of V."""
    law = scaling_law(Model(V=2, L=64), "P_star", "V", np.geomspace(1e5, 1e8, 10).round())
    assert exponent(law).value == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("L", "ratio", "tolerance"), [(64, 1.05, 0.006), (1024, 1.007, 0.0006)])
def test_self_consistent_form_of_the_jump(L, ratio, tolerance):
    model = Model(V=8, L=L)
    law = scaling_law(model, "P_star", "L", [L - 2, L - 1, L, L + 1, L + 2])
    assert float(law["P_star"].sel(L=L)) / float(
        closed_forms.softmax_jump(parameters_without_P(model))
    ) == pytest.approx(ratio, abs=tolerance)


@pytest.mark.parametrize("V", [8, 300, 100_000, 100_000_000])
def test_any_regime_form_of_the_jump(V):
    """From t ≫ L (V = 8) to t ≪ 1 (V = 1e8), within 2 % at L = 4096; the other form fails where t isn't large."""
    model = Model(V=V, L=4096)
    (P,) = transition_table(model.grid(L=[4096]))["P_star"].to_numpy()
    p = parameters_without_P(model)
    form = closed_forms.closed_forms_of("P_star", model.score)["any_regime"]
    assert float(form(p)) == pytest.approx(P, rel=0.02)
    if V == 100_000_000:
        assert float(closed_forms.softmax_jump(p)) != pytest.approx(P, rel=0.5)


def test_self_consistent_form_solves_its_equation():
    p = parameters_without_P(Model(V=8, L=256, sigma_w=0.6, sigma_g=1.7, kappa=2.0))
    P = float(closed_forms.softmax_jump(p))
    t = P * 0.6**2 / (2.0 * 8)
    D = 5.0
    for _ in range(500):
        D = 0.5 * np.log(256 * (1 + 256 / t) * (D - 1))
    assert pytest.approx(2.0 * 8 / 7 * 256 / 1.7**2 * D**3 / (D - 1), rel=1e-9) == P


def test_refusals():
    with pytest.raises(InputError, match="P1, P2, P_star"):
        scaling_law(Model(V=8, L=16), "P3", "L", [1, 2, 3, 4, 5])
    with pytest.raises(InputError, match="at least 5"):
        scaling_law(Model(V=8, L=16), "P_star", "L", [16, 32])
    with pytest.raises(InputError, match="no such transition"):
        scaling_law(Model(V=8, L=16), "P1", "L", [16, 32, 64, 128, 256])
    with pytest.raises(InputError, match="two decades"):
        exponent(scaling_law(Model(V=8, L=16), "P_star", "L", [16, 32, 64, 128, 256]))


@pytest.mark.parametrize(
    ("law", "limit"), [(lambda x: x**1.5 * (1 + 3 / x), 1.5), (lambda x: x * np.log(x) ** 2, None)]
)
def test_limits_of_exponents(law, limit):
    """A correction that dies out as a power has a limit several drifts away; a logarithm has none within reach."""
    x = np.geomspace(10, 1e5, 200)
    found = exponent(synthetic(x, law(x), x))
    assert found.drift == pytest.approx(abs(found.value - np.log10(law(1e4) / law(1e3))), rel=1e-2)
    if limit is None:
        assert found.limit is None
    else:
        assert found.limit == pytest.approx(limit, abs=0.1 * abs(found.value - limit) + 1e-9)


def test_no_distant_minimum_is_lower_than_the_origin_below_the_onset():
    """Second order: descents from far away, by another minimiser, end at the origin or above it."""
    rng = np.random.default_rng(0)
    for V, L, inputs in (
        (2, 3, "positional"),
        (8, 24, "token+position"),
        (4, 1000, "positional"),
        (500, 20, "positional"),
    ):
        model = Model(V=V, L=L, score="linear", inputs=inputs)
        action, P1 = action_for(model), find_transitions(model).threshold("P1")
        p = model.at(P=P1 * (1 - 1e-3)).parameters()

        def value(z, action=action, p=p):
            jet = action.jet(tuple(np.asarray(x) for x in z), p)
            return float(jet.value), np.asarray(jet.gradient, dtype=float)

        origin = value(np.zeros(2))[0]
        starts = rng.normal(size=(12, 2)) * np.geomspace(0.1, 100, 12)[:, None]
        ends = [minimize(value, start, jac=True, method="BFGS").fun for start in starts]
        assert min(ends) >= origin * (1 - 1e-12)
