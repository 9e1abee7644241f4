"""The picture of measured thresholds, on made-up networks: what it shows is what was measured."""

import numpy as np
import pandas as pd
import pytest

from figures.laws import _sweeps, measured_scaling
from phasekit.measure import measure_store
from tests.measure.networks import EXPONENT


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
    (csv,) = measured_scaling.main(tmp_path, "quick")
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


def test_a_sweep_is_run_once(monkeypatch, tmp_path):
    monkeypatch.setattr(_sweeps, "SIMS", tmp_path)
    monkeypatch.setattr(_sweeps, "FOLDER", tmp_path / "runs")
    (tmp_path / "small.toml").write_text(
        'measure = "P_star"\nseeds = 4\ngroup = 8\n[model]\nV = 8\nL = 24\n[axes]\nP = "0.99, 1.01 × P_star"\n'
        '[procedure]\nname = "adam"\nsteps = 300\n[preset.quick]\n'
    )
    (first,) = _sweeps.measured("small", "quick", own_data=False)
    assert first.sizes[0].measured.value == pytest.approx(first.sizes[0].theory, rel=0.01)

    def no_workers():
        raise AssertionError("everything is in the store")

    monkeypatch.setattr(_sweeps, "LocalProcesses", no_workers)
    assert _sweeps.measured("small", "quick", own_data=False)[0] == first
