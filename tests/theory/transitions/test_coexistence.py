"""Jumps next to an endpoint, where actions differ by less than rounding, and jumps into the kink of entmax."""

import numpy as np
import pytest

from phasekit import Model
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Family, coexistence, critical_endpoint, critical_exponents, find_transitions
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.precision import locate
from phasekit.theory.transitions.table import parameters_without_P

SSA = {"name": "ssa", "n": 2.0, "b": 1.0}
#: A model, and the number of it that moves through an endpoint; +1: jumps are above.
FAMILIES = {
    "softmax L": (Model(V=8, L=64), Family("L", (4, 64)), 1),
    "softmax V": (Model(V=8, L=10), Family("V", (2, 500)), 1),
    "temperature T": (Model(V=8, L=16, score={"name": "temperature", "T": 2.0}), Family("T", (0.05, 20)), -1),
    "ssa n": (Model(V=8, L=64, score=SSA), Family("n", (1.1, 4)), 1),
    "ssa b": (Model(V=8, L=64, score=SSA), Family("b", (0.05, 20)), 1),
    "ssa n, b = 1/n": (Model(V=8, L=64, score=SSA), Family("n", (1.2, 40), line=lambda n: {"n": n, "b": 1 / n}), 1),
    "entmax alpha": (Model(V=8, L=64, score={"name": "entmax", "alpha": 1.5}), Family("alpha", (1.05, 1.95)), -1),
    "entmax L": (Model(V=8, L=64, score={"name": "entmax", "alpha": 1.5}), Family("L", (4, 4000)), 1),
}
DISTANCES = np.geomspace(1e-7, 1e-3, 13)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in ("ssa n", "ssa b"))) for name in FAMILIES],
)
def test_rows_of_models_up_to_an_endpoint(name):
    """A cusp: the jump closes as √d, the barrier as d², the window as d^(3/2), and every model has its numbers."""
    model, family, side = FAMILIES[name]
    centre = float(critical_endpoint(model, family)[family.axis])
    d = np.concatenate([side * DISTANCES, -side * DISTANCES])
    p = parameters_without_P(model).ravel()
    found = locate(action_for(model), family.at(centre * (1 + d), p[np.zeros(d.size, dtype=int)]))
    jumps, smooth = slice(0, DISTANCES.size), slice(DISTANCES.size, None)
    assert not found["failed"].any()
    assert (found["softest"][jumps] < 0).all()
    assert np.isfinite(found["P_star"][jumps]).all()
    assert (found["softest"][smooth] > 0).all()
    assert np.isfinite(found["P_x"][smooth]).all()
    low, high = found["spinodals"][jumps].T
    assert ((low <= found["P_star"][jumps]) & (found["P_star"][jumps] <= high)).all()
    for size, power, tolerance in (
        (np.diff(found["aG"][jumps])[:, 0], 0.5, 2e-2),
        (found["barrier"][jumps], 2.0, 2e-2),
        (np.log(high / low), 1.5, 2e-2),
    ):
        ratio = size / DISTANCES**power
        np.testing.assert_allclose(ratio / ratio[DISTANCES.size // 2], 1, atol=tolerance)


@pytest.mark.parametrize("distance", [3e-5, 3e-4])
def test_areas_and_actions_give_the_same_jump(distance, monkeypatch):
    """Where both ways to find it work: the actions of the minima differ by 1e-9 or more, and the folds are close."""
    model, family, _ = FAMILIES["softmax L"]
    action, p = action_for(model), parameters_without_P(model).ravel()
    L = float(critical_endpoint(model, family)["L"]) * (1 + distance)
    curve = StationaryCurves(action, p.replace(L=[L]))
    u = curve.softest()[0]
    areas = coexistence.coexistence(curve, u)
    monkeypatch.setattr(coexistence, "_NARROW", 0.0)
    actions = coexistence.coexistence(curve, u)
    width = float(np.diff(areas.log_window)[0, 0])
    assert areas.log_P == pytest.approx(actions.log_P, abs=1e-3 * width)
    assert areas.log_window == pytest.approx(actions.log_window, abs=1e-3 * width)
    for name in ("low", "saddle", "high"):
        apart = float(areas.high[0] - areas.low[0])
        assert getattr(areas, name) == pytest.approx(getattr(actions, name), abs=1e-3 * apart)


@pytest.mark.slow
def test_exponents_do_not_hang_on_last_digits():
    """Numbers that are shifted by 1e-13 stand for those that another processor rounds differently."""
    for shift in (1 - 3e-13, 1 - 1e-13, 1.0, 1 + 1e-13, 1 + 3e-13):
        model = Model(V=8, L=64, sigma_w=shift, sigma_g=1 / shift, kappa=shift**2)
        along, across = critical_exponents(model, Family("L", (6 * shift, 40)))
        assert along.exponent == pytest.approx(1 / 2, abs=1e-4)
        assert across.exponent == pytest.approx(1 / 3, abs=1e-5)


def test_a_jump_into_the_kink():
    """α > 2: the curve of stationary points may turn just before the kink, and the other minimum then sits in it."""
    model = Model(V=8, L=8, score={"name": "entmax", "alpha": 2.5}, sigma_w=0.7, sigma_g=1.6, kappa=2.0)
    found = find_transitions(model)
    (passage,) = found.passages
    assert found.order == "first"
    low, high = passage.window
    assert low < passage.P < high
    assert passage.after.order_parameters["aG"] == pytest.approx(1, abs=1e-12)
    assert 0.999 < passage.before.order_parameters["aG"] < 1 - 1e-4
    assert passage.before.action == pytest.approx(passage.after.action, rel=1e-9)
    sides = find_minima(model.grid(P=[passage.P * (1 - 1e-7), passage.P * (1 + 1e-7)])).order_parameters["aG"][:, 0]
    assert sides[0] == pytest.approx(passage.before.order_parameters["aG"], abs=1e-5)
    assert sides[1] == pytest.approx(1, abs=1e-12)
