"""Stores full of made-up networks whose transitions are known."""

import pytest

from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import read_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep
from tests.runs.probes import Here


@pytest.fixture
def run(tmp_path):
    """Run a sweep, as TOML would give it, in this process; return its store."""

    def go(description, name="made_up"):
        sweep = read_sweep(description, name=name, source=f"{name}.toml")
        store = Store.create(tmp_path / "store")
        summary = run_sweep(sweep, expand(sweep), store, Here(), Silent())
        assert summary.status == 0
        return store

    return go


@pytest.fixture
def made_up():
    """Softmax networks with P* = 2 L^1.25, at lengths and P around it."""

    def make(seeds=8, measure="P_star", along="L", lengths=(16, 32, 64, 128), at=(-0.04, -0.02, 0.005, 0.02, 0.04)):
        P = sorted({round(2 * L**1.25 * (1 + x)) for L in lengths for x in at})
        return {
            "seeds": seeds,
            "group": 1000,
            "measure": measure,
            "along": along,
            "model": {"V": 8, "score": "softmax"},
            "axes": {"L": list(lengths), "P": P},
            "procedure": {"name": "tests.measure.networks:MadeUp"},
        }

    return make
