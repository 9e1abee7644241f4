"""Sampled posteriors as rows: never averaged over chains that disagree, and beside the theory of the same quantity."""

import numpy as np
import pandas as pd
import pytest

from figures._sweeps import networks
from figures.posterior._posteriors import CRITICAL, by_branch, over_data, theory_rows, well_rows
from figures.posterior.posterior_coverage import coverage_rows, table_text
from figures.posterior.table_posterior import sgld_rows
from phasekit.model import Model
from phasekit.theory.transitions import find_transitions

LINEAR = Model(V=8, L=16, score="linear")


def chain(aG, well=0, verdict="mixed", start="uniform", seed=0):
    return {"P": 10, "data_seed": seed, "start": start, "well": well, "verdict": verdict, "aG": aG, "aG_mcse": 0.1}


def test_chains_of_a_well_are_averaged_with_the_larger_of_two_errors():
    rows = well_rows(pd.DataFrame([chain(1.0), chain(3.0, start="copy")]))
    (row,) = rows.to_dict("records")
    assert (row["mean"], row["starts"], row["quantity"]) == (2.0, "copy+uniform", "aG")
    assert row["mcse"] == pytest.approx(1.0)  # the chains scatter by more than they say
    (alike,) = well_rows(pd.DataFrame([chain(1.0), chain(1.0)])).to_dict("records")
    assert alike["mcse"] == pytest.approx(0.1 / np.sqrt(2))


def test_coexisting_wells_have_a_row_each_and_disagreeing_chains_none():
    two = [chain(1.0, verdict="coexistence"), chain(5.0, 1, "coexistence", "copy")]
    assert well_rows(pd.DataFrame(two))["mean"].tolist() == [1.0, 5.0]
    (row,) = well_rows(pd.DataFrame([chain(1.0, -1, "not mixed"), chain(2.0, -1, "not mixed")])).to_dict("records")
    assert np.isnan(row["mean"])
    assert (row["well"], row["starts"], row["verdict"]) == (0, "", "not mixed")


def test_disagreeing_chains_have_no_mean():
    rows = pd.DataFrame(
        {
            "P": 10,
            "data_seed": [0, 1, 2, 2],
            "well": [0, 0, 0, 1],
            "quantity": "aG",
            "verdict": ["mixed", "mixed", "coexistence", "coexistence"],
            "mean": [1.0, 3.0, 50.0, 90.0],
            "mcse": 0.1,
        }
    )
    (row,) = over_data(rows).to_dict("records")
    assert row["mean"] == 2.0
    assert row["error"] == pytest.approx(np.sqrt(2) / np.sqrt(2))
    assert row["mcse"] == pytest.approx(0.1 / np.sqrt(2))
    assert (row["data"], row["left_out"]) == (2, 1)
    (alone,) = over_data(rows[rows["data_seed"] == 2]).to_dict("records")
    assert np.isnan(alone["mean"])
    assert alone["left_out"] == 1


@pytest.mark.slow
def test_theory_gives_what_samples_measure(tiny):
    """Second moments of both at weak coupling, where the theory is leading-order exact up to a few per cent."""
    chains = networks(tiny, "table_posterior")[LINEAR]
    sampled = over_data(well_rows(chains[(chains["procedure"] == "hmc") & (chains["P"] == 64)]))
    both = sampled.merge(theory_rows(LINEAR, (64,)), on=["P", "quantity"]).set_index("quantity")
    assert {"c1_c1", "c1_cG", "cG_cG", "q", "loss"} <= {*both.index}
    for name in ("c1_c1", "cG_cG", "q", "loss", "coverage"):
        row = both.loc[name]
        assert row["mean"] == pytest.approx(row["theory"], rel=0.03, abs=4.5 * row["error"])


def sampled(mean, verdict="mixed", mcse=0.01, branch=0):
    return pd.DataFrame([{"P": 9, "quantity": "aG", "branch": branch, "mean": mean, "mcse": mcse, "verdict": verdict}])


def test_sgld_is_extrapolated_and_held_against_hmc():
    (row,) = sgld_rows(sampled(1.0), {step: sampled(1.02 + 3 * step) for step in (0.01, 0.02, 0.005)}).to_dict(
        "records"
    )
    assert row["zero"] == pytest.approx(1.02)
    assert row["slope"] == pytest.approx(3.0)
    assert row["z"] == pytest.approx(0.02 / np.hypot(0.01, row["zero_error"]))
    runs = {0.02: sampled(1.0), 0.01: sampled(np.nan, "not mixed"), 0.005: sampled(1.0)}
    (row,) = sgld_rows(sampled(1.0), runs).to_dict("records")
    assert np.isnan(row["z"])
    assert row["verdict"] == "mixed; not mixed"


def test_coexisting_wells_are_compared_each_with_its_own():
    two = pd.concat([sampled(mean, "coexistence", branch=k) for k, mean in enumerate((0.18, 0.005))])
    rows = sgld_rows(two, {0.02: two.assign(mean=two["mean"] + 0.02), 0.01: two.assign(mean=two["mean"] + 0.01)})
    assert rows["zero"].tolist() == pytest.approx([0.18, 0.005])
    assert rows["z"].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert rows["chi2"].isna().all()  # two steps can't be off a line
    other = sgld_rows(two, {0.02: two, 0.01: sampled(0.18)})  # SGLD left the upper well at one step
    assert other["z"].isna().all()


def test_a_well_belongs_to_the_branch_with_the_nearest_loss():
    chains = pd.DataFrame(
        [chain(aG, well, "coexistence", start) | {"loss": loss, "loss_mcse": 0.01}
         for aG, well, start, loss in ((0.005, 0, "uniform", 0.9), (0.18, 1, "copy", 0.48))]
    )  # fmt: skip
    theory = pd.DataFrame({"P": 10, "branch": [0, 1], "quantity": "loss", "theory": [0.5, 0.91]})
    wells = by_branch(well_rows(chains), theory)
    assert wells[wells["quantity"] == "aG"].set_index("branch")["mean"].to_dict() == {0: 0.18, 1: 0.005}
    assert over_data(wells).query("quantity == 'aG'")["data"].tolist() == [1, 1]


def test_coverage_rows_are_those_of_samples_theory_and_heads(tiny):
    chains = networks(tiny, "posterior")[LINEAR]
    heads = pd.DataFrame({"P": [6, 70], "data_seed": 0, "coverage": [0.5, 0.99]})
    found = find_transitions(LINEAR, "posterior")
    rows = coverage_rows(found, chains, heads, tiny)
    hmc = rows[rows["kind"] == "HMC"].set_index("P")
    for P, part in chains.groupby("P"):
        exact = theory_rows(LINEAR, (P,)).query("quantity == 'coverage'")["theory"]
        assert hmc.loc[P, "value"] == pytest.approx(part["coverage"].mean())
        patterns = part["c1_c1"] + 2 * part["c1_cG"] + 16 * part["cG_cG"]
        assert hmc.loc[P, "of_means"] == pytest.approx(patterns.mean() / (16 * part["q"]).mean())
        assert hmc.loc[P, "theory"] == pytest.approx(
            min(exact, key=lambda value, P=P: abs(value - hmc.loc[P, "value"]))
        )
    assert rows[rows["kind"] == "Adam"]["P"].tolist() == [70]  # 6 is not among the P that were sampled
    rows.loc[(rows["kind"] == "HMC") & (rows["P"] == 64), ["value", "verdict"]] = [np.nan, "not mixed"]
    first, second = table_text(rows)["HMC"]
    assert first == "not mixed"
    assert "±" in second


@pytest.mark.slow
def test_the_theory_is_left_out_around_the_onset_only(drawn):
    (figure,) = drawn("posterior_coverage").figures.values()
    line = figure.axes[0].lines[0]
    P, value = line.get_xdata(), line.get_ydata()
    inside = (CRITICAL[0] * 230.3 < P) & (CRITICAL[1] * 230.3 > P)
    np.testing.assert_array_equal(np.isnan(value), inside)
    assert inside.any()
    assert not inside.all()
