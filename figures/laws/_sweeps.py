"""Sweeps that scripts need: run what is missing of them, and measure or read their networks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from phasekit.measure import Measurement, measure_store
from phasekit.model import Model
from phasekit.runs.store.collect import fates
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import Sweep, load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import LocalProcesses
from phasekit.runs.work.progress import watching
from phasekit.runs.work.runner import run_sweep

ROOT = Path(__file__).resolve().parents[2]
SIMS, FOLDER = ROOT / "sims", ROOT / "build" / "runs"


def measured(name: str, preset: str, own_data: bool) -> list[Measurement]:
    """Run a sweep of ``sims/`` as far as its store doesn't hold it, and return what its networks measure.

    ``own_data`` says whether to compute the onset of the data too (see :class:`phasekit.measure.Size`).

    Raises
    ------
    RuntimeError
        If tasks failed, or the run was interrupted.
    """
    sweep, store, _ = finished(name, preset)
    return measure_store(store, f"{sweep.name}:{preset}", collapse_resamples=0, own_data=own_data)


def networks(name: str, preset: str) -> dict[Model, pd.DataFrame]:
    """Run a sweep as far as need be, and return its networks: for each model (without P) one row a network.

    Columns are ``P``, ``data_seed``, the ``fate`` (see :func:`phasekit.runs.store.collect.fates`), and all that the
    estimator recorded.

    Raises
    ------
    RuntimeError
        If tasks failed, or the run was interrupted.
    """
    _, store, tasks = finished(name, preset)
    parts: dict[Model, list[pd.DataFrame]] = {}
    for task in tasks:
        values = store.load(task.id).values
        rows = pd.DataFrame({**values, **fates(values)}).assign(P=task.model.P, data_seed=task.data_seed)
        parts.setdefault(task.model.at(P=None), []).append(rows)
    return {model: pd.concat(rows, ignore_index=True) for model, rows in parts.items()}


def finished(name: str, preset: str) -> tuple[Sweep, Store, list[Task]]:
    """Run what is missing of a sweep of ``sims/``, and return it with its store and tasks.

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
    return sweep, store, tasks
