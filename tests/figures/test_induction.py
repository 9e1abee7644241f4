"""What pictures of induction heads show, in numbers."""

import numpy as np
import pytest

from figures.induction import induction_landscape, induction_phases
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


def test_landscape_is_the_action_over_both_coordinates(drawn):
    rows = drawn("induction_landscape").numbers("induction_landscape")
    minima = rows[rows["kind"] == "minimum"]
    assert minima.groupby("P").size().tolist()[:2] == [2, 2]
    model = induction_landscape.MODEL.at(P=600.0)
    grid = induction_landscape.landscape(model, 41)
    assert grid["S_above_minimum"].min() > 0
    lowest = grid.loc[grid["S_above_minimum"].idxmin()]
    found = find_minima(model).coordinates
    assert lowest["gap"] == pytest.approx(found["gap"][0], abs=0.3)
    assert lowest["match"] == pytest.approx(found["match"][0], abs=0.4)


@pytest.mark.slow
def test_networks_lie_on_both_branches(drawn):
    rows = drawn("induction_transition").numbers("induction_transition")
    P_star = find_transitions(Model(V=16, L=16, task="induction")).threshold("P_star")
    networks = rows[(rows["kind"] == "network") & rows["fate"].isin(["kept", "higher energy"])]
    kept = networks[networks["fate"] == "kept"]
    assert np.all((kept["alpha1"] > 0.5) == (kept["P"] > 0.99 * P_star))
    higher = networks[networks["fate"] == "higher energy"]
    assert np.all((higher["alpha1"] > 0.5) == (higher["P"] < 0.99 * P_star))
    shift = rows[rows["kind"] == "network shift"]["shift"]
    assert np.all((shift < 0.2) & (shift > -2.5))


def test_diagram_has_all_three_ways(drawn):
    rows = drawn("induction_phases").numbers("induction_phases")
    diagram = rows[rows["kind"] == "diagram"]
    assert np.isnan(diagram["passages"]).equals(diagram["V"] < diagram["L"])
    for V, L, kind in ((16, 16, 0), (65536, 16, 1), (65536, 6, 2)):
        found = find_transitions(Model(V=V, L=L, task="induction"))
        second = found.passages[1].kind if len(found.passages) > 1 else None
        assert second == (None, "jump", "crossover")[kind]
    assert set(diagram["passages"].dropna()) == {0, 1, 2}
    assert len(induction_phases.KINDS) == 3
    cut = rows[(rows["kind"] == "cut") & (rows["V"] > 1e6)]
    assert cut["first"].to_numpy() == pytest.approx(cut["P_star"].to_numpy(), rel=0.02)
    assert cut["second"].to_numpy() == pytest.approx(cut["P_layer2"].to_numpy(), rel=0.03)


@pytest.mark.slow
def test_networks_stay_below_the_spinodal_only(drawn):
    shares = drawn("induction_escape").numbers("induction_escape")
    assert shares.groupby(["start", "P"])["share"].sum().to_numpy() == pytest.approx(1.0)
    below = shares[(shares["P"] == 110) & (shares["end"] == "unstructured") & (shares["start"] == "random:0.1")]
    assert below["share"].tolist() == [1.0]
