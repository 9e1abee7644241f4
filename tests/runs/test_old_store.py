"""A store that an earlier version wrote (data/README.md) is read, resumed and collected, with the same numbers."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from phasekit.runs.store.collect import collect, save
from phasekit.runs.store.plan import read_plans
from phasekit.runs.store.status import look
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.runner import run_sweep
from tests.runs.conftest import Notes
from tests.runs.probes import Here

SWEEPS = {
    "old_adam": {
        "about": "Adam",
        "seeds": 2,
        "group": 2,
        "measure": "P_star",
        "along": "L",
        "model": {"V": 8, "score": {"name": "ssa", "n": 3.0}},
        "axes": {"L": [24], "P": "0.9, 1.1 × P_star"},
        "procedure": {"name": "adam", "steps": 150, "dtype": "float64"},
    },
    "old_hmc": {
        "seeds": 1,
        "group": 1,
        "model": {"V": 4, "L": 6, "score": "linear", "kappa": 0.5},
        "axes": {"P": [20]},
        "procedure": {"name": "hmc", "draws": 12, "warmup": 12, "leaps": 4},
    },
    "old_sgld": {
        "seeds": 1,
        "group": 1,
        "model": {"V": 4, "L": 6, "score": "softmax", "key_dim": 3},
        "axes": {"P": [20]},
        "procedure": {"name": "sgld", "draws": 40, "thin": 2, "warmup": 40, "members": 2},
    },
    "old_theory": {
        "seeds": 1,
        "group": 1,
        "model": {"V": 8, "L": 64},
        "axes": {"P": [600, 823]},
        "procedure": {"name": "theory"},
    },
}
#: What a resumed task computes again may differ in its last digits from processor to processor; in 150 steps of Adam or
#: 120 of SGLD these grow to less than this.
RESUMED = 1e-6


@pytest.fixture
def old(tmp_path):
    """The store, and the tables that the earlier version made of it before and after it ran the rest."""
    with zipfile.ZipFile(Path(__file__).parent / "data" / "store-63c3965.zip") as archive:
        archive.extractall(tmp_path)
    return Store.open(tmp_path / "store"), _table(tmp_path / "before.csv"), _table(tmp_path / "after.csv")


def _table(path):
    """Read a table of that version, which called procedures ``estimator``, and the posterior's action ``theory_U``."""
    return pd.read_csv(path).rename(columns={"estimator": "procedure", "theory_U": "theory_action"})


def collected(store):
    """Collect a store as a table in a file, the way it was kept."""
    save(collect(store), store.path / "now.csv")
    return pd.read_csv(store.path / "now.csv")


def sorted_rows(table):
    return table.sort_values(["task", "start", "number"]).reset_index(drop=True)


def assert_same(now, then, rtol, tasks=None):
    """Compare the columns that the earlier version had, in the rows of some tasks."""
    now, then = sorted_rows(now), sorted_rows(then)
    if tasks is not None:
        now, then = (table[table["task"].isin(tasks)].reset_index(drop=True) for table in (now, then))
    assert len(then) > 0
    then = then.dropna(axis="columns", how="all")  # columns of other tasks
    pd.testing.assert_frame_equal(now[list(then.columns)], then, rtol=rtol, atol=1e-12, check_dtype=False)


@pytest.mark.slow
def test_it_is_read_with_the_same_numbers(old):
    store, before, _ = old
    assert list(store.problems()) == []
    assert [plan.sweep for plan in read_plans(store)] == ["old_hmc", "old_theory", "old_adam", "old_sgld"]
    found = look(store)
    assert (found.tasks, found.done, found.failed, found.missing) == (8, 5, 0, 3)
    assert_same(collected(store), before, rtol=1e-10)


@pytest.mark.parametrize("name", ["old_adam", "old_sgld"])
@pytest.mark.parametrize("content", ["arrays", "text", "of another run"])
def test_a_checkpoint_of_something_else_is_named_and_the_work_begins_anew(old, name, content):
    store, _, after = old
    sizes = {path: path.stat().st_size for path in store.checkpoints.iterdir()}
    adam, sgld = sorted(sizes, key=lambda path: -sizes[path])
    path, other = (adam, sgld) if name == "old_adam" else (sgld, adam)
    if content == "arrays":
        np.savez(path, W=np.zeros(3), notes=np.ones((2, 2)))
    else:
        path.write_bytes(b"mine" if content == "text" else other.read_bytes())
    sweep = read_sweep(SWEEPS[name], name=name, source=f"{name}.toml")
    before, notes = store.names(), Notes()
    summary = run_sweep(sweep, expand(sweep), store, Here(), notes)
    assert summary.status == 0
    (remark,) = notes.remarks
    assert remark.startswith(f"checkpoint {path.name} ")
    assert remark.endswith("begins anew")
    measured = after[[column for column in after if not column.startswith("theory_")]]
    assert_same(collect(store, theory=False).table, measured, RESUMED, store.names() - before)


@pytest.mark.slow
def test_it_is_resumed_from_its_checkpoints(old):
    store, before, after = old
    kept = {name: (store.workspace / name / "result.npz").read_bytes() for name in store.names()}
    new = set()
    for name, description in SWEEPS.items():
        sweep = read_sweep(description, name=name, source=f"{name}.toml")
        notes = Notes()
        summary = run_sweep(sweep, tasks := expand(sweep), store, Here(), notes)
        unfinished = {task.id for task in tasks} - kept.keys()
        assert (summary.done, summary.status, notes.remarks) == (len(unfinished), 0, [])
        new |= unfinished
    assert len(new) == 3
    assert len(read_plans(store)) == len(SWEEPS), "the old plans hold all of these tasks"
    assert all((store.workspace / name / "result.npz").read_bytes() == content for name, content in kept.items())
    table = collected(store)
    assert_same(table, after, 1e-10, set(before["task"]))
    assert_same(table, after, RESUMED, new)
