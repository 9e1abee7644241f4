"""The pictures of endpoints and of SSA's posterior, with few points; what is slow in them has tests of its own."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from figures.scores import score_endpoints
from phasekit.drawing import plotting
from phasekit.drawing.presets import TINY
from phasekit.model import Model
from phasekit.scores import SSA
from phasekit.theory.action import row_averages, row_curve, row_sample
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Approach, endpoint

pytestmark = pytest.mark.slow


@pytest.fixture
def few_rows(monkeypatch, tmp_path):
    """Let the posterior average over a few hundred rows, and keep nothing."""
    monkeypatch.setattr(row_sample, "ROWS", 64)
    monkeypatch.setattr(row_averages, "rows_of", row_averages.rows_of.__wrapped__)
    monkeypatch.setattr(row_sample, "row_sample", row_sample.row_sample.__wrapped__)
    monkeypatch.setattr(row_curve, "_curve", cache(row_curve._curve.__wrapped__))
    monkeypatch.setattr(row_curve, "_MANY_ROWS", 200)
    monkeypatch.setattr(row_curve, "_FEWEST_ROWS", 50)


def keep(figure, table, stem):
    with plotting.style():
        figure.draw_without_rendering()
    csv = stem.with_name(f"{stem.name}.csv")
    plotting._as_frame(table).to_csv(csv, index=False)
    return [csv]


def test_endpoints(monkeypatch, tmp_path):
    monkeypatch.setattr(score_endpoints, "save", keep)
    monkeypatch.setattr(score_endpoints, "CONTEXTS", (16, 64))
    monkeypatch.setattr(score_endpoints, "TEMPERATURES", (0.5, 1.0))
    ends = pd.DataFrame({"P": [150.0, 170.0, 200.0] * 2, "data_seed": 0, "start": ["uniform"] * 3 + ["copy"] * 3})
    rows = ends.assign(fate="kept", U=1.0, aG=[0.1, 0.1, 0.3, 0.1, 0.2, 0.3])
    model = Model(V=8, L=64, score=SSA(n=4, b=1))
    monkeypatch.setattr(score_endpoints, "networks", lambda preset, *names: {model: rows})
    closing = Approach(np.array([1e-3, 1e-2, 1e-1]), np.array([1e-3, 1e-2, 1e-1]) ** 0.5)
    monkeypatch.setattr(score_endpoints, "critical_exponents", lambda model, family: (closing, closing))
    one = pd.DataFrame({"L": [16], "n": [4.8], "P": [150.0]})
    monkeypatch.setattr(score_endpoints, "posterior_endpoints", lambda contexts: one)
    (csv,) = score_endpoints.main(tmp_path, TINY)
    table = pd.read_csv(csv)
    sharp = table[(table["panel"] == "n_c") & (table["label"] == "$V$ = 8, $b$ = 1")].set_index("L")["n"]
    assert sharp[64] == pytest.approx(1.8717, abs=1e-4)
    networks = table[(table["panel"] == "plane") & table["apart"].notna()].set_index("P")["apart"]
    assert networks.to_dict() == {150.0: 0.0, 170.0: 1.0, 200.0: 0.0}
    short = table[(table["panel"] == "L_c") & (table["V"] == 8) & (table["T"] == 1.0)]
    assert float(short["L"].iloc[0]) == pytest.approx(13.7415, abs=1e-3)


def test_the_posterior_moves_the_endpoint(few_rows, monkeypatch):
    """At L = 16 to larger n (4.8 with all rows; the map's is 3.445)."""
    monkeypatch.setattr(score_endpoints, "POSTERIOR_BETWEEN", (4.0, 6.0))
    monkeypatch.setitem(endpoint._PRECISION, "posterior", 3e-2)
    table = score_endpoints.posterior_endpoints((16,))
    assert float(table["n"].iloc[0]) == pytest.approx(4.8, abs=0.4)


def test_posterior_of_ssa(few_rows, drawn):
    table = drawn("score_posterior").numbers("score_posterior")
    theory = table[(table["kind"] == "theory") & (table["n"] == 2)]
    P = theory["P"].to_numpy()
    again = find_minima(Model(V=8, L=16, score=SSA(n=2, b=1)).grid(P=P), "posterior").order_parameters["aG"][:, 0]
    np.testing.assert_allclose(theory["theory"], again, rtol=1e-4)  # the curve is a spline
    assert set(theory["branch"]) == {"global"}
    sampled = table[table["kind"] == "HMC"]
    assert sampled.groupby("n")["start"].apply(set).tolist() == [{"uniform", "copy"}] * 2
    assert (sampled["aG_mcse"] > 0).all()
