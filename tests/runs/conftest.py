"""Sweeps of probes, and whatever it takes to run them."""

from pathlib import Path

import pytest

from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.backends import LocalProcesses
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep

ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items):
    """Let loky say that a worker ended because torch made it larger: it starts another."""
    for item in items:
        if "runs" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore:A worker stopped while some jobs"))


class Notes(Silent):
    """A monitor that remembers."""

    def __init__(self):
        self.remarks, self.counts = [], []

    def progressed(self, done, failed, seconds):
        self.counts.append((done, failed))

    def remark(self, text):
        self.remarks.append(text)


@pytest.fixture(scope="session")
def workers():
    """Two worker processes, started once: starting them is what takes longest."""
    backend = LocalProcesses(2, 1)
    yield backend
    backend.close()


@pytest.fixture
def written():
    """A sweep of probes as TOML would give it; keyword arguments are the probe's settings."""

    def make(*, seeds=5, group=3, axes=None, **probe):
        return {
            "about": "probes",
            "seeds": seeds,
            "group": group,
            "model": {"V": 8, "score": "softmax"},
            "axes": axes or {"L": [16, 32], "P": [100, 200]},
            "procedure": {"name": "tests.runs.probes:Probe", **probe},
        }

    return make


@pytest.fixture
def run(tmp_path, workers):
    """Run a sweep in a store; return summary, store and what the monitor saw."""

    def go(description, store=None, backend=None, **options):
        sweep = read_sweep(description, name="probes", source="probes.toml")
        opened = Store.create(tmp_path / "store" if store is None else store)
        notes = Notes()
        summary = run_sweep(sweep, expand(sweep), opened, backend or workers, notes, **options)
        return summary, opened, notes

    return go
