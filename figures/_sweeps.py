"""Sweeps that scripts need: run what is missing of them, and measure."""

from __future__ import annotations

from pathlib import Path

from phasekit.measure import Measurement, measure_store
from phasekit.runs.backends import LocalProcesses
from phasekit.runs.expand import expand
from phasekit.runs.progress import watching
from phasekit.runs.runner import run_sweep
from phasekit.runs.store import Store
from phasekit.runs.sweep import load_sweep

ROOT = Path(__file__).resolve().parents[1]
SIMS, FOLDER = ROOT / "sims", ROOT / "build" / "runs"


def measured(name: str, preset: str, own_data: bool) -> list[Measurement]:
    """Run a sweep of ``sims/`` as far as its store doesn't hold it, and return what its networks measure.

    ``own_data`` says whether to compute the onset of the data too (see :class:`phasekit.measure.Size`).

    Raises
    ------
    RuntimeError
        If tasks failed, or the run was interrupted.
    """
    sweep = load_sweep(SIMS / f"{name}.toml", preset)
    store = Store.create(FOLDER / name)
    tasks = expand(sweep)
    if not {task.id for task in tasks} <= store.names():
        workers = LocalProcesses()
        try:
            with watching() as monitor:
                summary = run_sweep(sweep, tasks, store, workers, monitor)
        finally:
            workers.close()
        if summary.status:
            raise RuntimeError(f"sweep {name}: {len(summary.failed)} tasks failed, {summary.missing} are missing")
    return measure_store(store, f"{sweep.name}:{preset}", collapse_resamples=0, own_data=own_data)
