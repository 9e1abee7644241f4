"""The picture of measured thresholds, on made-up networks: what it shows is what was measured."""

import numpy as np
import pandas as pd
import pytest

from figures.laws import measured_scaling
from phasekit.drawing.presets import TINY
from phasekit.measure import measure_store
from tests.measure.networks import EXPONENT


@pytest.mark.slow
def test_points_lines_and_table(run, made_up, monkeypatch, tmp_path):
    store = run(made_up())
    figures = {}

    def keep(figure, table, stem):
        figures[stem.name] = figure
        table.to_csv(stem.with_suffix(".csv"), index=False)
        return [stem.with_suffix(".csv")]

    monkeypatch.setattr(measured_scaling, "SHOWN", (("softmax_scaling", "P_star"), ("softmax_scaling", "P_star")))
    monkeypatch.setattr(
        measured_scaling, "measured", lambda *_, **__: measure_store(store, resamples=100, collapse_resamples=0)
    )
    monkeypatch.setattr(measured_scaling, "save", keep)
    (csv,) = measured_scaling.main(tmp_path, TINY)
    table = pd.read_csv(csv).iloc[:4]
    np.testing.assert_allclose(table["measured"], 2 * table["size"] ** EXPONENT, rtol=0.01)
    upper, lower = figures["measured_scaling"].axes[0], figures["measured_scaling"].axes[2]
    theory, points = upper.lines[0], upper.lines[1]
    np.testing.assert_allclose(np.interp(table["size"], *theory.get_data()), table["theory"], rtol=1e-3)
    np.testing.assert_allclose(points.get_ydata(), table["measured"])
    (deviation,) = (line for line in lower.lines if len(line.get_xdata()) == 4)
    np.testing.assert_allclose(deviation.get_ydata(), 100 * (table["measured"] / table["theory"] - 1))
    (law,) = measure_store(store, resamples=100, collapse_resamples=0)
    assert f"{law.exponent.exponent:.4f} ± {law.exponent.error:.4f}" in upper.texts[0].get_text()
    assert f"theory {law.predicted.exponent:.3f}" in upper.texts[0].get_text()
