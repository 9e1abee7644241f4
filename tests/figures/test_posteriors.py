"""Sampled posteriors: kept once, trusted only while they hold, never averaged over chains that disagree."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from figures import _cache
from figures.posterior import _samplings
from figures.posterior._samplings import Sampling, energies_hold, over_data, theory_rows, well_rows
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD

SMALL = Sampling(Model(V=3, L=6, score="linear"), (20, 40), HMC(leaps=4), 200, 1, 100, data=2, members=2)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(_cache, "FOLDER", tmp_path / "runs")


def test_posteriors_are_sampled_once_and_noticed_when_data_change(monkeypatch):
    done = []
    sample = _samplings.sample
    monkeypatch.setattr(_samplings, "sample", lambda *a, **k: done.append(1) or sample(*a, **k))
    short = dataclasses.replace(SMALL, draws=10, warmup=10)
    first, second = short.samples(), short.samples()
    assert len(done) == 1
    assert first.posterior.identical(second.posterior)
    draw = _samplings.draw_dataset
    monkeypatch.setattr(_samplings, "draw_dataset", lambda model, seed: draw(model, seed + 1))
    assert not energies_hold(first)


def test_the_name_of_the_file_holds_everything_that_matters():
    changes = ({"P": (20,)}, {"draws": 9}, {"thin": 2}, {"warmup": 3}, {"data": 1}, {"method": SGLD(step=0.01)})
    names = {_cache.file_of(dataclasses.replace(SMALL, **change).describe()) for change in changes}
    assert len({*names, _cache.file_of(SMALL.describe())}) == 7


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


def test_theory_gives_what_samples_measure():
    """Second moments of both at weak coupling, where the theory is leading-order exact up to a few per cent."""
    model = Model(V=8, L=16, score="linear")
    sampled = over_data(well_rows(Sampling(model, (64,), HMC(leaps=8), 300, 2, 200, data=2).samples()))
    both = sampled.merge(theory_rows(model, (64,)), on=["P", "quantity"]).set_index("quantity")
    assert {"c1_c1", "c1_cG", "cG_cG", "q", "loss"} <= {*both.index}
    for name in ("c1_c1", "cG_cG", "q", "loss", "coverage"):
        row = both.loc[name]
        assert row["mean"] == pytest.approx(row["theory"], rel=0.03, abs=4.5 * row["error"])


def test_coverage_of_softmax_is_that_of_samples():
    model = Model(V=8, L=16)
    sampled = over_data(well_rows(Sampling(model, (512,), HMC(leaps=8), 250, 1, 150).samples()))
    row = sampled.merge(theory_rows(model, (512,)), on=["P", "quantity"]).set_index("quantity").loc["coverage"]
    assert row["theory"] < 0.95
    assert row["mean"] == pytest.approx(row["theory"], rel=0.005, abs=4.5 * row["error"])
