"""What CONTRIBUTING.md says is all that a new score, kind of passage or procedure needs."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from phasekit import Model, find_transitions, scaling_law, transition_table
from phasekit.heads import Adam, train
from phasekit.runs.store.collect import collect
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from phasekit.scores import check_score
from phasekit.theory import action
from phasekit.theory.transitions.course import COURSES, THRESHOLDS
from tests.runs.probes import Here

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SCORE, PASSAGE, PROCEDURE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def own(monkeypatch):
    """Run a block of the page as a module of one's own; registries are put back."""
    before = dict(COURSES), dict(THRESHOLDS)

    def run(code):
        module = types.ModuleType("own_things")
        monkeypatch.setitem(sys.modules, "own_things", module)
        exec(code, module.__dict__)
        return module

    yield run
    for known, old in zip((COURSES, THRESHOLDS), before, strict=True):
        known.clear()
        known.update(old)


def test_a_score(own):
    module = own(SCORE)
    check_score(module.Quintic())
    head = Model(V=4, L=16, score="quintic")
    assert find_transitions(head).order in ("first", "crossover")
    assert train(head.at(P=20.0), data_seeds=[0], starts=["uniform"], settings=Adam(steps=2)).data.sizes["dataset"] == 1


@pytest.mark.slow
def test_a_kind_of_passage(own, monkeypatch):
    own(PASSAGE)
    monkeypatch.setattr(action.SoftmaxMap, "course", "learnt")
    (passage,) = find_transitions(Model(V=8, L=64)).passages
    assert (passage.name, passage.kind) == ("P_half", "half")
    lengths = [8, 16, 32, 64, 128]
    table = transition_table(Model(V=8, L=64).grid(L=lengths))
    assert float(table["P_half"].sel(L=64)) == passage.P
    assert (
        scaling_law(Model(V=8, L=64), "P_half", "L", lengths)["P_half"].to_numpy().tolist()
        == table["P_half"].to_numpy().tolist()
    )


def test_a_procedure(own, tmp_path):
    own(PROCEDURE)
    file = tmp_path / "repeats.toml"
    file.write_text(
        'model = {score = "linear", V = 4, L = 8}\naxes = {P = [200]}\nseeds = 2\n'
        '[procedure]\nname = "own_things:Repeats"\n'
    )
    sweep = load_sweep(file, "quick")
    store = Store.create(tmp_path / "store")
    assert run_sweep(sweep, expand(sweep), store, Here(), Silent()).status == 0
    table = collect(store, theory=False).table
    np.testing.assert_allclose(table["share"], 1 / 4, atol=0.06)
    assert len(table) == 2


def test_links_and_folders_exist():
    for page in ("CONTRIBUTING.md", "ARCHITECTURE.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text("utf-8")):
            assert (ROOT / target).exists(), target
    for folder in re.findall(r"\| `((?:phasekit|figures|sims|derivations)/[a-z_/]*)`", PAGE):
        assert (ROOT / folder).exists(), folder
