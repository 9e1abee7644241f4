"""Lines of the theory: they pass through the minima, fold at the spinodals, change branch at P*."""

from itertools import pairwise

import numpy as np
import pytest

from phasekit.drawing.transition import minima_rows, pieces
from phasekit.model import Model
from phasekit.theory.transitions import find_transitions, stationary_curve

MODEL = Model(V=8, L=64, score="softmax")


def action(gap, P, V=8, L=64):
    """The softmax action at unit variances, from the averages (docs/theory.md, sections 2 and 5)."""
    t, alpha = P / V, np.exp(gap) / (np.exp(gap) + L - 1)
    q = alpha**2 + (1 - alpha) ** 2 / (L - 1)
    return P / (2 * V) * (1 - t / (1 + t) + (V - 1) * (1 - t * alpha**2 / (1 + t * q))) + (L - 1) * gap**2 / 2


@pytest.fixture(scope="module")
def curve():
    curve = stationary_curve(find_transitions(MODEL))
    return curve[curve["P"] <= 2500]


def test_every_point_of_the_curve_is_stationary(curve):
    h = 1e-4
    slope = (action(curve["gap"] + h, curve["P"]) - action(curve["gap"] - h, curve["P"])) / (2 * h)
    bend = (
        action(curve["gap"] + h, curve["P"])
        - 2 * action(curve["gap"], curve["P"])
        + action(curve["gap"] - h, curve["P"])
    ) / h**2
    assert np.abs(slope).max() < 1e-5
    # Away from the folds, where the curvature is lost in the rounding of differences.
    clear = np.abs(bend) > 1
    assert ((bend < 0) == (curve["branch"] == "saddle"))[clear].all()
    np.testing.assert_allclose(curve["action"], action(curve["gap"], curve["P"]), rtol=1e-12)


def test_the_curve_folds_at_the_spinodals_and_changes_branch_at_the_transition(curve):
    low, high = find_transitions(MODEL).values["spinodals"]
    P_star = find_transitions(MODEL).values["P_star"]
    saddle = curve[curve["branch"] == "saddle"]
    assert saddle["P"].min() == pytest.approx(low, rel=1e-3)
    assert saddle["P"].max() == pytest.approx(high, rel=1e-3)
    lines = pieces(curve)
    assert [branch for branch, _ in lines] == ["global", "metastable", "saddle", "metastable", "global"]
    # Away from P* and the spinodals, the metastable minimum lies clearly above the lowest point of a dense line.
    metastable = curve[(curve["branch"] == "metastable") & (np.abs(np.log(curve["P"] / P_star)) > 0.01)]
    best = curve[curve["branch"] == "global"]
    for rows, sign in ((metastable, 1), (best[best["P"].between(low, high)], 0)):
        above = rows["action"] - [action(np.linspace(0, 8, 8001), P).min() for P in rows["P"]]
        assert (above > 0.1).all() if sign else (np.abs(above) < 1e-3).all()
    ends = [lines[0][1]["P"].iloc[-1], lines[-1][1]["P"].iloc[0]]
    assert ends == pytest.approx([P_star, P_star], rel=1e-9)


def test_lines_join_where_the_branch_changes(curve):
    lines = [line for _, line in pieces(curve)]
    for before, after in pairwise(lines):
        assert before.iloc[-1].equals(after.iloc[0])


def test_a_smooth_crossover_is_one_line():
    curve = stationary_curve(find_transitions(Model(V=8, L=10, score="softmax")))
    assert [branch for branch, _ in pieces(curve)] == ["global"]


def test_minima_of_linear_attention_by_branch():
    """Printed numbers of docs/theory.md, section 9; the metastable branch has c1 > 0 > cG and a higher action."""
    rows = minima_rows(Model(V=8, L=16, score="linear"), [64.0, 128.0, 256.0, 512.0])
    best = rows[rows["branch"] == "global"].set_index("P")
    assert best["c1"].round(4).tolist() == [0.0, 0.0369, 0.1083, 0.0718]
    assert best["cG"].round(4).tolist() == [0.0, 0.0018, 0.1015, 0.1609]
    assert best["action"].round(3).tolist() == [32.0, 63.996, 113.987, 146.236]
    other = rows[rows["branch"] == "metastable"].set_index("P")
    assert other.index.tolist() == [256.0, 512.0]
    assert (other["c1"] > 0).all()
    assert (other["cG"] < 0).all()
    assert (other["action"] > best["action"][other.index]).all()
    assert best["copying_share"].isna().tolist() == [True, False, False, False]
