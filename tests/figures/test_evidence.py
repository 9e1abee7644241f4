"""Pictures of the evidence: samplings kept while they hold, and numbers that are those of samples and theory."""

import numpy as np
import pandas as pd
import pytest

from figures.evidence import hysteresis, susceptibility, table_warning
from figures.evidence._evidence import loops
from phasekit.drawing import plotting
from phasekit.evidence import early_warning
from phasekit.evidence import susceptibility as measure
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Passage, State, Transitions

pytestmark = pytest.mark.slow

LINEAR, SOFTMAX = Model(V=8, L=16, score="linear"), Model(V=8, L=64, score="softmax")
PLAIN, LOW, HIGH = (
    State("pooling", {name: aG}, 1.0, 0.0) for name, aG in (("c1", 0.0), ("aG", 0.0047), ("aG", 0.1776))
)
#: As docs/theory.md, section 6, has them: looking them up takes longer than all else here.
KNOWN = {
    ("linear", 16): Passage("P1", "onset", 230.315, PLAIN, PLAIN),
    ("linear", 64): Passage("P1", "onset", 847.741, PLAIN, PLAIN),
    ("softmax", 64): Passage("P_star", "jump", 1436.8, LOW, HIGH, (1363.3, 1778.2), {"barrier": 1.0}),
}


def transitions(model, estimator="posterior"):
    return Transitions(model, estimator, "", (place(model),))


def place(model):
    return KNOWN[model.score.name, model.L]


@pytest.fixture(scope="module", autouse=True)
def known():
    """Look the theory's transitions up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hysteresis, "find_transitions", transitions)
        patch.setattr(susceptibility, "find_transitions", transitions)
        patch.setattr(table_warning, "posterior_passage", place)
        yield


@pytest.mark.parametrize(
    "name", ["hysteresis", "free_energy", pytest.param("susceptibility", marks=pytest.mark.nightly)]
)
def test_pictures_are_as_wide_as_a_column_and_labelled(name, drawn):
    (figure,) = drawn(name).figures.values()
    assert figure.get_figwidth() == plotting.PAGE
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert figure.legends or (axes.get_ylabel() and axes.get_legend() is not None)


def test_hysteresis_shows_means_of_both_ways_beside_theory(drawn, tiny):
    table = drawn("hysteresis").numbers("hysteresis")
    for model, loop in loops(tiny):
        name = "aG" if model.score.normalised else "c1"
        data = loop.data[name].isel(dataset=0)
        here = (table["score"] == model.score.name) & (table["L"] == model.L)
        part = table[here & (table["quantity"].isin((name, f"{name}_{name}")))]
        for way in ("up", "down"):
            values = data.sel(direction=way)
            mean = values.mean(("chain", "draw")) if name == "aG" else np.sqrt((values**2).mean(("chain", "draw")))
            np.testing.assert_allclose(part[part["way"] == way]["value"], mean, rtol=1e-12)
    theory = table[(table["way"] == "theory") & (table["score"] == "softmax")]
    for _, row in theory.groupby("P").first().reset_index().iloc[[0, -1]].iterrows():
        found = find_minima(SOFTMAX.at(P=float(row["P"])), "posterior").order_parameters["aG"]
        assert np.abs(found / row["value"] - 1).min() < 1e-4  # the curve is a spline
    apart = table[(table["score"] == "softmax") & (table["P"] == 1437) & (table["way"] != "theory")].set_index("way")
    assert apart["value"]["down"] > 10 * apart["value"]["up"] > 0


def test_one_peak_or_two(drawn):
    table = drawn("free_energy").numbers("free_energy")
    lines = table[table["kind"] == "density"]
    for (_, _), part in lines.groupby(["score", "P"]):
        assert np.trapezoid(part["value"], part["x"]) == pytest.approx(1, abs=0.02)
    softmax = lines[lines["score"] == "softmax"]
    copying = {P: np.trapezoid(part["value"] * (part["x"] > 0.1), part["x"]) for P, part in softmax.groupby("P")}
    assert copying == pytest.approx({900: 0, 1437: 0.5, 2400: 1}, abs=0.05)  # half of the chains came either way
    assert softmax[softmax["P"] == 1437]["peaks"].iloc[0] >= 2
    for kind in ("umbrella", "theory", "mean field"):
        assert table[table["kind"] == kind]["value"].min() == 0


@pytest.mark.nightly
def test_susceptibility_is_the_variance_over_that_without_data(drawn, tiny):
    table = drawn("susceptibility").numbers("susceptibility")
    table = table[(table["score"] == "linear") & (table["L"] == 16)]
    row = table[(table["kind"] == "sampled") & (table["quantity"] == "c1") & (table["P"] == 80)]
    found = measure(dict(loops(tiny))[LINEAR].samples(80), **susceptibility.BOUNDS)
    prior = 1 / 16**2 + 1 / (16**2 * 15)
    if row["value"].notna().all():  # chains of 16 draws may disagree
        assert row["value"].item() == pytest.approx(float(found.variance[0, 0, 0]) / prior)
    theory = table[(table["kind"] == "theory") & (table["quantity"] == "cG")].iloc[0]
    exact = find_minima(LINEAR.at(P=float(theory["P"])), "posterior").covariance.second[0]
    assert theory["value"] == pytest.approx(exact * 16**2 * 15)


def test_fluctuations_beyond_gaussian_agree_with_the_hessian_far_from_the_onset():
    few = susceptibility.integrated(LINEAR, 4.0)
    exact = find_minima(LINEAR.at(P=4.0), "posterior").covariance
    assert few["c1"] == pytest.approx(exact.first[0], rel=0.01)
    at = susceptibility.integrated(LINEAR, place(LINEAR).P)["c1"]
    assert 1.5 < at * 16**2 < 3  # finite where the Hessian vanishes


def test_the_table_tells_what_early_warning_tells(tiny, tmp_path, capsys):
    csv, md = table_warning.main(tmp_path, tiny)
    table = pd.read_csv(csv)
    told = table[(table["part"] == "test") & (table["L"] == 16)].set_index("score")
    up = dict(loops(tiny))[LINEAR].data["c1"].isel(dataset=0, drop=True).sel(direction="up")
    found = early_warning(up, place(LINEAR).P)
    assert told["warned"]["linear"] == found.warned
    assert told["variance τ"]["linear"] == pytest.approx(found.tau["variance"])
    assert md.read_text() in capsys.readouterr().out
