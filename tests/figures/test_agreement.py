"""Claim C4's comparisons, and how the theory's error is measured against size."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from figures.agreement import size_dependence
from figures.agreement._agreement import sgld_rows, theory
from figures.agreement._agreement_tables import notes, summary
from figures.agreement._zero_step import ZeroStepSGLD, at_zero_step
from phasekit.drawing import plotting
from phasekit.model import Model
from phasekit.runs.procedures import Workplace
from phasekit.samplers import HMC, sample
from phasekit.samplers.diagnostics import MIXED
from phasekit.theory.minima import find_minima
from tests.figures.labels import assert_labelled

SMALL = Model(V=3, L=6, score="linear")
ABOUT = {"longest_step": 0.4, "stiffest": 1.0}


def diagnosis(mean, verdict=MIXED):
    """Return what chains say of one quantity on one data set."""
    well = SimpleNamespace(mean={"q": mean}, mcse={"q": 0.1})
    return SimpleNamespace(verdict=lambda d: verdict, wells=[[well]], table=SimpleNamespace(quantity=np.array(["q"])))


def test_a_bias_linear_in_the_step_is_removed_and_its_error_carried():
    found = at_zero_step((0.4, 0.2), [diagnosis(3 + 2 * step) for step in (0.4, 0.2)], ["q"], 0, ABOUT).values
    assert found["mean"] == pytest.approx(3.0)
    assert found["mcse"] == pytest.approx(0.1 * np.sqrt(5))  # 2 m(h/2) − m(h)
    assert (found["verdict"].item(), found["quantity"].item()) == (MIXED, "q")


def test_nothing_is_extrapolated_from_chains_that_disagree_at_one_step():
    found = at_zero_step((0.4, 0.2), [diagnosis(3.0), diagnosis(3.0, "not mixed")], ["q"], 0, ABOUT).values
    assert np.isnan(found["mean"]).all()
    assert found["verdict"].item() == "mixed; not mixed"


def test_steps_are_shares_of_the_inverse_curvature_up_to_the_longest():
    assert ZeroStepSGLD(shares=(0.4, 0.2, 0.1)).steps(40.0) == (0.01, 0.005, 0.0025)
    assert ZeroStepSGLD(shares=(0.4, 0.2)).steps(2.0) == (0.1, 0.05)


def test_theory_of_linear_attention_is_the_root_of_second_moments():
    found = find_minima(SMALL.at(P=150.0), "posterior")
    rows = theory(SMALL, (150,), "posterior").set_index("quantity")["theory"]
    for name in ("c1", "cG"):
        square = found.order_parameters[name][0] ** 2 + found.variance(name)[0]
        assert rows[name] == pytest.approx(np.sqrt(square))
    assert rows["loss"] == pytest.approx(found.loss[0])
    lowest = theory(SMALL, (150,), "map").set_index("quantity")["theory"]
    assert lowest["U"] == pytest.approx(find_minima(SMALL.at(P=150.0)).action[0])


@pytest.mark.slow
def test_sgld_at_zero_step_samples_what_hmc_does():
    """c1, cG, q and loss of one small head, beside a long HMC on the same data."""
    model = SMALL.at(P=120.0)
    (found,) = ZeroStepSGLD(time=150.0, members=3).run([(model, 0)], Workplace())
    rows = sgld_rows(pd.DataFrame(found.values).assign(P=120, data_seed=0)).set_index("quantity")
    exact = sample([model], HMC(leaps=8), draws=1500, warmup=200, members=2).invariants().isel(dataset=0)
    for name, square in (("c1", "c1_c1"), ("cG", "cG_cG"), ("q", "q"), ("loss", "loss")):
        expected = float(exact[square].mean())
        expected = np.sqrt(expected) if name != square else expected
        row = rows.loc[name]
        assert row["error"] < 0.1 * row["mean"]
        assert row["mean"] == pytest.approx(expected, abs=4 * row["error"])
    assert rows["step"].iloc[0] == min(0.1, float(f"{0.4 / rows['stiffest'].iloc[0]:.2g}"))


def test_the_summary_counts_each_side_of_the_threshold():
    points = pd.DataFrame(
        {
            "score": "linear",
            "estimator": "map",
            "V": 8,
            "L": 16,
            "P": [1, 2, 3],
            "ratio": [0.5, 1.5, 3.0],
            "quantity": "loss",
            "difference": [np.nan, 0.02, -0.01],
            "sigma": [np.nan, 3.5, -1.0],
            "runs": 12,
            "left_out": [0, 1, 2],
        }
    )
    below, above = summary(points).to_dict("records")
    assert (below["side"], below["points"], below["unknown"]) == ("below", 1, 1)
    assert (above["points"], above["unknown"], above["within"]) == (2, 0, 1)
    assert (above["median"], above["largest"]) == (pytest.approx(0.015), 0.02)
    sampled = points.assign(estimator="posterior", left_out=1)
    told = notes(pd.concat([points, sampled]))
    assert told[0].startswith("Adam: 3 of 36 networks")
    assert told[1].startswith("SGLD: 3 of 36 data sets")


@pytest.mark.slow
def test_agreement_is_shown_for_both_methods(drawn):
    result = drawn("agreement")
    assert_labelled(result, plotting.PAGE)
    rows = result.numbers("agreement")
    runs = rows[rows["kind"] == "runs"]
    assert {*runs["estimator"]} == {"map", "posterior"}
    adam = runs[(runs["estimator"] == "map") & (runs["ratio"] > 1.4) & (runs["quantity"] == "U")]
    assert len(adam) == 4
    np.testing.assert_allclose(adam["mean"], adam["theory"], rtol=0.05)
    sgld = runs[(runs["estimator"] == "posterior") & (runs["quantity"] == "loss")].dropna(subset="mean")
    assert len(sgld) > 0
    np.testing.assert_allclose(sgld["mean"], sgld["theory"], rtol=0.25)  # two data sets of few tokens
    assert result.files[-1].read_text().count("## ") == 5


def test_powers_of_size_are_found_with_their_error():
    L = np.array([16.0, 32.0, 64.0])
    rows = pd.DataFrame({"L": L, "ratio": 1.2, "gap": 3 * L**-1.5, "shift": -1.0}).assign(
        gap_error=lambda t: 0.1 * t["gap"], shift_error=1.0
    )
    (law,) = size_dependence.power_rows(rows).to_dict("records")  # a shift below 0 has no power
    assert law["exponent"] == pytest.approx(-1.5)
    assert law["prefactor"] == pytest.approx(3.0 * 16**-1.5)  # at the first length
    assert law["exponent_error"] == pytest.approx(0.1 / (np.log(2) * np.sqrt(2)))


def test_gaps_are_theory_minus_samples_also_as_a_shift_of_P(monkeypatch):
    def theory(model, P):
        rows = [(each, 0, "aG", 0.1 + 0.5 * np.log(each / 100)) for each in P]
        return pd.DataFrame(rows, columns=["P", "branch", "quantity", "theory"])

    monkeypatch.setattr(size_dependence, "passing", lambda model: 100.0)
    monkeypatch.setattr(size_dependence, "theory_rows", theory)
    chains = pd.DataFrame({"P": 120, "data_seed": [0, 1], "well": 0, "verdict": "mixed", "start": ["copy", "uniform"]})
    chains = chains.assign(aG=[0.11, 0.13], aG_mcse=0.001)
    (row,) = size_dependence.gap_rows(Model(V=8, L=16, score="softmax"), chains).to_dict("records")
    assert (row["L"], row["ratio"], row["branches"], row["starts"], row["data"]) == (16, 1.2, 1, "copy+uniform", 2)
    assert row["gap"] == pytest.approx(0.1 + 0.5 * np.log(1.2) - 0.12)
    assert row["shift"] == pytest.approx(row["gap"] / 0.5)
    assert row["shift_error"] == pytest.approx(row["gap_error"] / 0.5) == pytest.approx(0.02)
