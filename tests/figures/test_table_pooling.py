"""The table of the token+position posterior."""

import numpy as np
import pandas as pd
import pytest

from figures.posterior import table_pooling


def test_mean_square_of_s_is_the_sum_of_second_moments():
    rows = pd.DataFrame(
        {
            "P": 40,
            "data_seed": [0, 0, 0, 0, 1, 1, 1],
            "well": 0,
            "starts": "copy",
            "verdict": ["mixed"] * 4 + ["not mixed"] * 3,
            "quantity": ["c1_c1", "c1_cG", "cG_cG", "loss", "c1_c1", "c1_cG", "cG_cG"],
            "mean": [1.0, 0.2, 0.5, 9.0, np.nan, np.nan, np.nan],
            "mcse": [0.1, 0.01, 0.02, 9.0, np.nan, np.nan, np.nan],
        }
    )
    found = table_pooling.with_mean_square(rows)
    first, second = found[found["quantity"] == "s_s"].to_dict("records")
    assert first["mean"] == pytest.approx(1 + 2 * 0.2 + 0.5)
    assert first["mcse"] == pytest.approx(0.1 + 2 * 0.01 + 0.02)
    assert np.isnan(second["mean"])


def test_table_compares_theory_and_samples(drawn):
    _, md = drawn("table_pooling").files
    rows = drawn("table_pooling").numbers("table_pooling")
    assert set(rows["quantity"]) == {"s_s", "s2", "q", "loss"}
    rows = rows[rows["P"] == 15].set_index("quantity")
    assert rows.loc["loss", "theory"] == pytest.approx(rows.loc["loss", "mean"], rel=0.1)
    assert rows.loc["q", "theory"] == pytest.approx(rows.loc["q", "mean"], rel=0.2)
    assert "approximate" in md.read_text()
