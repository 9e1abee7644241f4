"""Figures take their networks from sims/: run once, computed again where a description or a procedure changed."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from figures import _sweeps
from phasekit.drawing.presets import BEST, TINY
from phasekit.runs.archive.file import archive_of
from phasekit.runs.archive.make import make_archive
from phasekit.runs.procedures.adam import AdamNetworks
from phasekit.runs.sweeps.description import load_sweep

SWEEP = """
measure = "P_star"
seeds = 4
group = 8
[model]
V = 8
L = 24
[axes]
P = "0.99, 1.01 × P_star"
[procedure]
name = "adam"
steps = {steps}
attention = true
[preset.tiny]
"""


@pytest.fixture
def preset(tmp_path):
    (tmp_path / "small.toml").write_text(SWEEP.format(steps=300))
    return replace(TINY, sims=tmp_path, runs=tmp_path / "runs")


@pytest.fixture
def runs_done(monkeypatch):
    """Count the tasks that were computed."""
    done = []
    run = AdamNetworks.run
    monkeypatch.setattr(AdamNetworks, "run", lambda self, cases, place: done.extend(cases) or run(self, cases, place))
    return done


def test_a_sweep_is_run_once_and_measured(preset, runs_done):
    (law,) = _sweeps.measured(preset, "small")
    assert law.sizes[0].measured.value == pytest.approx(law.sizes[0].theory, rel=0.01)
    assert len(runs_done) == 8
    model, rows = _sweeps.networks_of_one(preset, "small")
    assert (model.L, model.P, len(rows)) == (24, None, 16)
    assert rows["fate"].isin(["kept", "higher energy"]).all()
    assert _sweeps.measured(preset, "small") == [law]
    assert len(runs_done) == 8


def test_whoever_edits_a_sweep_sees_other_networks(preset, runs_done):
    _, before = _sweeps.networks_of_one(preset, "small")
    (preset.sims / "small.toml").write_text(SWEEP.format(steps=200))
    _, after = _sweeps.networks_of_one(preset, "small")
    assert len(runs_done) == 16
    assert not set(before["task"]) & set(after["task"])


def test_networks_of_an_older_procedure_are_not_shown(preset, runs_done, monkeypatch):
    _, before = _sweeps.networks_of_one(preset, "small")
    monkeypatch.setattr(AdamNetworks, "version", AdamNetworks.version + 1)
    _, after = _sweeps.networks_of_one(preset, "small")
    assert len(runs_done) == 16
    assert not set(before["task"]) & set(after["task"])


def test_networks_in_two_sweeps_are_listed_once(preset):
    (preset.sims / "more.toml").write_text(SWEEP.format(steps=300).replace("0.99, 1.01", "1.01, 1.02"))
    ((_, rows),) = _sweeps.networks(preset, "small", "more").items()
    assert len(rows) == len(rows.drop_duplicates(["P", "data_seed", "start"])) == 24


def test_attention_matrices_are_those_of_the_rows(preset):
    _, rows = _sweeps.networks_of_one(preset, "small")
    matrices = _sweeps.kept(preset, "small", "A")
    for row in rows.itertuples():
        A = matrices[row.task][row.member]
        g = A[np.arange(24), np.arange(24) - 1].mean()
        assert row.aG == pytest.approx((g - 1 / 24) / (1 - 1 / 24), rel=1e-5)


def test_a_data_set_is_the_mean_of_its_kept_networks_and_zeros_have_no_coverage(preset):
    _, rows = _sweeps.networks_of_one(preset, "small")
    kept = rows[rows["fate"] == "kept"].groupby(["P", "data_seed"])["aG"].mean()
    assert _sweeps.draw_rows(rows)["aG"].tolist() == kept.tolist()
    linear = SWEEP.format(steps=300).replace("V = 8", 'V = 8\nscore = "linear"').replace("0.99, 1.01 × P_star", "2")
    (preset.sims / "zeros.toml").write_text(linear.replace('measure = "P_star"', ""))
    _, zeros = _sweeps.networks_of_one(preset, "zeros")
    assert (zeros["q"] < 1e-8).all()
    assert zeros["coverage"].isna().all()


def test_figures_have_no_other_source_of_networks():
    """But for two helpers, which are procedures of sweeps themselves."""
    makers = {"train", "train_on", "sample", "Chains", "AdamEnsemble", "hysteresis_loop", "umbrella"}
    for file in Path(_sweeps.__file__).parent.glob("**/*.py"):
        if file.stem not in ("_zero_step", "_sampled"):
            tree = ast.parse(file.read_text())
            imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
            assert not makers & {alias.name for node in imports for alias in node.names}, file


def test_archived_networks_are_shown_and_the_largest_preset_that_is_archived(preset, runs_done, tmp_path):
    sweep = load_sweep(preset.sims / "small.toml", "tiny")
    _sweeps.finished(preset, "small")
    store = _sweeps.Store.open(preset.runs / "small")
    make_archive(replace(sweep, preset="quick"), store, archive_of(preset.sims / "small.toml", "quick"))
    assert len(runs_done) == 8
    elsewhere = replace(preset, name=BEST, runs=tmp_path / "elsewhere")
    _, rows = _sweeps.networks_of_one(elsewhere, "small")
    (law,) = _sweeps.measured(elsewhere, "small")
    assert (len(rows), law.preset, law.missing) == (16, "quick", 0)
    assert len(runs_done) == 8
    _sweeps.networks_of_one(replace(elsewhere, scratch=True, runs=tmp_path / "scratch"), "small")
    assert len(runs_done) == 16
