"""Figures of in-context networks, at the tiny preset: networks that learned next to nothing, and all the arithmetic."""

import numpy as np
import pandas as pd
import pytest

from figures.in_context._arms import EVERY, LINEAR, arms
from figures.in_context.table_in_context import columns_of
from phasekit.transformers.evaluation import few

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_shifts(drawn, tiny):
    found = drawn("icl_shift").numbers("icl_shift")
    every = found[found["task"] == "every"]
    assert set(found["arm"]) == {"softmax", "ssa", "temperature"}
    assert {(10, 1.0), (200, 29.0)} <= set(zip(every["points"], every["x_scale"], strict=True))
    assert (found["low"] <= found["error"]).all()
    arm, rows = arms(tiny, LINEAR)[0], arms(tiny, LINEAR)[0].rows()
    same = found[(found["arm"] == arm.label) & (found["panel"] == "x_scale") & (found["x_scale"] == 10)].iloc[0]
    tested = (rows["x_scale"] == 10) & (rows["points"] == same["points"]) & (rows["intervention"] == "")
    errors = [
        result.arrays["errors"][np.flatnonzero(tested & rows["deviant"].isna())[0]] for result in arm.found.values()
    ]
    assert same["error"] == pytest.approx(np.mean(errors))


def test_deviants(drawn):
    found = drawn("icl_deviants").numbers("icl_deviants")
    assert set(found["size"]) == {10, 100, 1000, 20_000}
    assert set(found["part"]) == {"error_at_deviant", "error_behind_deviant"}
    assert found["error"].notna().all()


def test_saturation(drawn):
    found = drawn("icl_saturation").numbers("icl_saturation")
    assert (found["lower"] <= found["mass"] * (1 + 1e-9)).all()
    assert (found["mass"] <= found["upper"] * (1 + 1e-9)).all()
    assert set(found["arm"]) == {"softmax", "ssa"}


@pytest.mark.nightly
def test_attention(drawn):
    found = drawn("icl_attention").numbers("icl_attention")
    sums = found.groupby(["arm", "layer", "head", "when"])["weight"].sum()
    np.testing.assert_allclose(sums, 1)
    assert set(found["arm"]) == {"softmax", "ssa"}


def test_learning(drawn):
    found = drawn("icl_learning").numbers("icl_learning")
    begun = found[(found["steps"] == 0) & (found["task"] == "linear functions")]["error"]
    assert len(begun) == 3
    assert set(found["number"].dropna()) == {"n", "b", "T"}


def test_tables(drawn, tiny):
    csv, md = drawn("table_in_context").files
    found = pd.read_csv(csv, low_memory=False)
    assert md.read_text().startswith("## ")
    scores = found[found["section"] == "every, 11 points: all scores"]
    assert len(scores) == 23
    assert set(scores["verdict"]) <= {"reference", "lower", "higher", "no difference that these seeds can show"}
    arm = arms(tiny, EVERY)[0]
    rows = arm.rows()
    deviant = [shift for shift in few(arm.subject.task) if shift.deviant is not None and abs(shift.deviant) >= 1000]
    numbers = [
        np.flatnonzero((rows["deviant"] == s.deviant) & (rows["place"] == s.place) & (rows["intervention"] == ""))[0]
        for s in deviant
    ]
    np.testing.assert_allclose(columns_of(arm)["large deviant"], arm.array("errors")[:, numbers].mean(1))
