"""The coverage figure: what its rows say of samples, theory and heads; where the theory is drawn."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from figures import _cache
from figures.posterior import posterior_coverage
from figures.posterior._samplings import Sampling, theory_rows
from phasekit import Model
from phasekit.drawing.presets import TINY
from phasekit.samplers import HMC
from tests.figures import reading

SMALL = Model(V=3, L=6, score="linear")
SAMPLED = Sampling(SMALL, (12, 60), HMC(leaps=8), 300, 2, 200, members=2)
GRID = tuple(np.geomspace(12, 60, 21))


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cache, "FOLDER", tmp_path_factory.mktemp("runs"))
        patch.setattr(posterior_coverage, "LINEAR", SMALL)
        patch.setattr(posterior_coverage, "sampling", lambda model, preset: SAMPLED)
        patch.setattr(posterior_coverage, "theory_lines", lambda model, preset: theory_rows(model, GRID))
        heads = pd.DataFrame({"P": [6, 60], "data_seed": 0, "fate": "kept", "coverage": [0.5, 0.99]})
        patch.setattr(posterior_coverage, "networks_of_one", lambda preset, name: (SMALL, heads))
        yield


@pytest.fixture(scope="module")
def rows(small):
    return posterior_coverage.coverage_rows(SMALL, TINY)


def test_rows_are_those_of_samples_theory_and_heads(rows):
    draws = SAMPLED.samples().posterior
    hmc = rows[rows["kind"] == "HMC"].set_index("P")
    for k, P in enumerate((12, 60)):
        one, near = draws.isel(dataset=k), theory_rows(SMALL, (P,)).query("quantity == 'coverage'")["theory"]
        assert hmc.loc[P, "value"] == pytest.approx(float(one.coverage.mean()))
        patterns = one.c1**2 + 2 * one.c1 * one.cG + 6 * one.cG**2
        assert hmc.loc[P, "of_means"] == pytest.approx(float(patterns.mean() / (6 * one.q).mean()))
        assert hmc.loc[P, "theory"] == min(near, key=lambda value, P=P: abs(value - hmc.loc[P, "value"]))
    heads = rows[rows["kind"] == "Adam"]
    assert heads["P"].tolist() == [60]  # 6 is not among the P that were sampled
    assert 0.9 < heads["value"].item() <= 1
    assert np.isclose(rows[rows["kind"] == "theory"].groupby("P")["value"].size().index, GRID).all()


def test_chains_that_disagree_have_their_verdict_in_the_table(rows):
    rows = rows.copy()
    rows.loc[(rows["kind"] == "HMC") & (rows["P"] == 12), ["value", "verdict"]] = [np.nan, "not mixed"]
    first, second = posterior_coverage.table_text(rows)["HMC"]
    assert first == "not mixed"
    assert "±" in second


def test_theory_is_drawn_outside_the_critical_range_only(rows, monkeypatch):
    P1 = 25.0
    monkeypatch.setattr(posterior_coverage, "find_transitions", lambda *_: SimpleNamespace(values={"P1": P1}))
    axes = Figure().subplots()
    posterior_coverage._draw(axes, SMALL, rows)
    P, value = reading.line(axes, posterior_coverage.POSTERIOR).T
    inside = (P > 0.7 * P1) & (P < 1.5 * P1)
    assert inside.any()
    assert not inside.all()
    np.testing.assert_array_equal(np.isnan(value), inside)
    assert reading.verticals(axes) == [P1]
