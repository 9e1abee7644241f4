"""Factorised heads: theory, networks and samples behind the picture agree; the rate's fit on known numbers."""

import numpy as np
import pandas as pd
import pytest

from figures.factorised import _factorised, factorised_heads
from phasekit.drawing import plotting
from phasekit.theory.transitions import find_transitions
from tests.figures.labels import assert_labelled

pytestmark = pytest.mark.slow


def test_networks_jump_where_theory_says(drawn):
    assert_labelled(drawn("factorised_heads"), plotting.PAGE)
    rows = drawn("factorised_heads").numbers("factorised_heads")
    jumps = rows[rows["kind"] == "jump"].set_index(["threshold", "key_dim"])
    for name in ("P1", "P2", "P_star"):
        row = jumps.loc[(name, 16)]
        assert row["networks"] == pytest.approx(row["theory"], rel=0.02)
    bounded = jumps.loc[("P_star", 4)]
    assert np.isnan(bounded["theory"])
    assert bounded["networks"] > bounded["bound"] * 1.05
    free = rows[rows["kind"] == "free minimum"]
    np.testing.assert_allclose(free["S_free"], free["S"], rtol=1e-6)
    kept = rows[(rows["kind"] == "network") & (rows["fate"] == "kept") & (rows["score"] == "linear")]
    assert (kept["U"] <= kept["P"] / 2 * (1 + 1e-9)).all()  # no pattern is a minimum too
    assert set(kept[kept["P"] == 290]["c1"].round(6)) <= {0.0}


def test_posterior_moves_towards_gaussian_logits(drawn):
    rows = (
        drawn("factorised_heads")
        .numbers("factorised_heads")
        .query("kind == 'posterior' and quantity in ('aG', 'cG^2')")
    )
    for _, part in rows.groupby("score"):
        means = part.set_index("d")["mean"]
        assert means[8] < means[16] < means[64] < means[np.inf] * 1.03
    text = next(path for path in drawn("factorised_heads").files if path.suffix == ".md").read_text("utf-8")
    assert "above 228.6" in text
    assert "slope, predicted" in text


def test_rate_of_known_numbers():
    d = np.array([np.inf, 256, 64, 16])
    table = pd.DataFrame({"d": d, "mean": 0.3 - 0.5 / d + 2 / d**2, "error": [1e-4, 2e-4, 3e-4, 4e-4]})
    found = _factorised.rate(table)
    assert found["a"] == pytest.approx(-0.5)
    assert found["chi2"] == pytest.approx(0, abs=1e-12)
    gaps = 0.5 / d[2:] - 2 / d[2:] ** 2
    assert found["nu"] == pytest.approx(np.log(gaps[1] / gaps[0]) / np.log(4))
    random, slopes = np.random.default_rng(0), []
    for _ in range(400):
        slopes.append(_factorised.rate(table.assign(mean=table["mean"] + table["error"] * random.standard_normal(4))))
    for name in ("a", "nu"):
        scatter = np.std([slope[name] for slope in slopes])
        assert scatter == pytest.approx(np.mean([slope[f"{name}_error"] for slope in slopes]), rel=0.15)


def test_patterns_are_named_by_rank():
    A = np.stack([np.zeros((4, 4)), np.ones((4, 4)), np.eye(4), np.ones((4, 4)) + 1e-3 * np.eye(4)])
    assert _factorised.pattern_of(A, False).tolist() == ["nothing", "pooling", "copying", "pooling"]
    uniform = np.full((4, 4), 0.25)
    assert _factorised.pattern_of(np.stack([uniform, np.eye(4)]), True).tolist() == ["nothing", "copying"]


def test_bound_is_the_theory_where_there_is_room():
    model = factorised_heads.SOFTMAX
    assert factorised_heads.softmax_bound(model) == pytest.approx(find_transitions(model).values["P_star"], rel=1e-9)
