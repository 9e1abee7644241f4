"""Typed passages: their names, kinds and states; a course of transitions that is added in one place; failures."""

from typing import ClassVar

import numpy as np
import pytest

from phasekit import InputError, Model, find_minima
from phasekit.theory import action as actions
from phasekit.theory.scaling import scaling_law
from phasekit.theory.transitions import (
    COURSES,
    THRESHOLDS,
    Course,
    Passage,
    State,
    Threshold,
    Verdict,
    find_transitions,
    register,
    stationary_curve,
    transition_table,
)
from phasekit.theory.transitions import crossover as crossovers

LINEAR = Model(V=8, L=24, score="linear")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "estimator", "passages"),
    [
        (LINEAR, "map", [("P1", "onset"), ("P2", "crossover")]),
        (Model(V=64, L=16, score="linear"), "map", [("P1", "onset")]),
        (Model(V=8, L=64), "map", [("P_star", "jump")]),
        (Model(V=8, L=8), "map", [("P_x", "crossover")]),
        (Model(V=8, L=12, score="linear", inputs="token+position"), "posterior", [("P2", "crossover")]),
        (LINEAR.at(key_dim=4, L=10), "map", [("P1", "jump"), ("P2", "jump")]),
        (Model(V=8, L=10, key_dim=9), "map", [("P_star", "jump")]),
    ],
    ids=str,
)
def test_names_kinds_and_states(model, estimator, passages):
    found = find_transitions(model, estimator)
    assert [(passage.name, passage.kind) for passage in found.passages] == passages
    assert [passage.P for passage in found.passages] == sorted(passage.P for passage in found.passages)
    for passage in found.passages:
        assert found.threshold(passage.name) == passage.P == found.values[passage.name]
        for state, factor in ((passage.before, 1 - 1e-5), (passage.after, 1 + 1e-5)):
            minima = find_minima(model.at(P=passage.P * factor), estimator)
            expected = {name: float(x[0]) for name, x in minima.order_parameters.items()}
            assert state.order_parameters == pytest.approx(expected, rel=2e-3, abs=5e-3)
            assert state.loss == pytest.approx(float(minima.loss[0]), rel=2e-3)
            assert state.action == pytest.approx(float(minima.action[0]), rel=1e-3)
        if passage.kind == "jump":
            assert passage.window[0] < passage.P < passage.window[1]
            assert passage.before.action == pytest.approx(passage.after.action, rel=1e-9)
        else:
            assert passage.window is None
            assert passage.before.action == pytest.approx(passage.after.action, rel=1e-5)
    assert found.threshold("P_nothing") is None


class Halved(Course):
    """Nothing but the P at which the loss has fallen to 3/4."""

    name: ClassVar[str] = "halved"
    thresholds: ClassVar[tuple[Threshold, ...]] = (Threshold("P_half", "$P_{3/4}$", "where a quarter is learnt"),)

    def locate(self, action, p):
        P = np.geomspace(10, 1e4, 200)
        flat = p.expand().replace(P=P).ravel()
        loss = action.loss(crossovers.global_minimum(action, flat), flat).reshape(*p.shape, P.size)
        return {"P_half": P[(loss < 0.75).argmax(axis=1)], "failed": np.isnan(loss).any(axis=1)}

    def judge(self, action, p, row):
        state = State("pooling", {}, 0.75, 0.0)
        return Verdict("crossover", (Passage("P_half", "kind of its own", float(row["P_half"]), state, state),), {})

    def values(self, passages):
        return {passage.name: passage.P for passage in passages}


@pytest.fixture
def halved(monkeypatch):
    """A course that softmax attention goes through, registered for one test."""
    monkeypatch.setattr("phasekit.theory.transitions.course.COURSES", COURSES)
    before = dict(COURSES), dict(THRESHOLDS)
    register(Halved())
    monkeypatch.setattr(actions.SoftmaxMap, "course", "halved")
    yield
    for known, old in zip((COURSES, THRESHOLDS), before, strict=True):
        known.clear()
        known.update(old)


def test_a_new_course_is_added_in_one_place(halved):
    """Its threshold is then known to single models, tables, scaling laws and the command line."""
    found = find_transitions(Model(V=8, L=64))
    (passage,) = found.passages
    assert passage.kind == "kind of its own"
    assert found.describe()["P_half"] == passage.P
    lengths = [16, 32, 64, 128, 256]
    table = transition_table(Model(V=8, L=64).grid(L=lengths))
    assert float(table["P_half"].sel(L=64)) == passage.P
    law = scaling_law(Model(V=8, L=64), "P_half", "L", lengths)
    assert law["P_half"].to_numpy().tolist() == table["P_half"].to_numpy().tolist()
    from phasekit.theory.transitions.describe import meanings

    assert meanings("map")["P_half"] == "map: where a quarter is learnt"


def test_names_that_are_taken(halved):
    with pytest.raises(InputError, match="is taken"):
        register(Halved())


def test_one_model_without_a_minimum_is_flagged_and_leaves_the_others_alone(monkeypatch):
    """19c: the search fails for a model of a grid."""
    minima_of = crossovers.minima_of

    def forgetful(action, p):
        owner, z, start = minima_of(action, p)
        kept = p.L[owner] != 16
        return owner[kept], tuple(x[kept] for x in z), start[kept]

    alone = transition_table(LINEAR.grid(L=[12, 24]))
    monkeypatch.setattr(crossovers, "minima_of", forgetful)
    table = transition_table(LINEAR.grid(L=[12, 16, 24]))
    assert table["failed"].to_numpy().tolist() == [False, True, False]
    assert np.isnan(table["P2"].sel(L=16))
    np.testing.assert_array_equal(table["P2"].sel(L=[12, 24]), alone["P2"])
    with pytest.raises(ArithmeticError, match="search failed"):
        find_transitions(LINEAR.at(L=16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "L"),
    [({"name": "ssa", "n": 4.0, "b": 1.0}, 32), ({"name": "entmax", "alpha": 1.5}, 32), ("sparsemax", 16)],
)
def test_branches_continued_in_P(score, L):
    """Every point is a minimum or a saddle point of its P, and branches change where the passages say."""
    found = find_transitions(Model(V=8, L=L, score=score))
    curve = stationary_curve(found)
    (passage,) = found.passages
    branches = curve.groupby("piece")["branch"].first().tolist()
    if passage.kind == "crossover":
        assert branches == ["global"]
        return
    assert branches == ["global", "metastable", "saddle", "metastable", "global"]
    saddle = curve[curve["branch"] == "saddle"]
    assert (saddle["P"].min(), saddle["P"].max()) == pytest.approx(passage.window, rel=1e-3)
    for _, row in curve.iloc[::97].iterrows():
        minima = find_minima(found.model.at(P=row["P"]))
        on_branch = {"global": minima.action[0], "metastable": minima.action[-1]}.get(row["branch"])
        if on_branch is not None:
            assert row["action"] == pytest.approx(on_branch, rel=1e-9)


def test_stationary_points_that_are_no_curve():
    with pytest.raises(InputError, match="aren't one curve"):
        stationary_curve(find_transitions(LINEAR))
