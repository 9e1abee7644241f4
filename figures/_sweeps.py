"""The networks of figures and tables: those of the sweeps in ``sims/``, run as far as nobody has run them.

What ``sims/archive`` holds is copied from there, and the rest computed.

A store in ``build/runs`` has the name of its sweep, so that ``phasekit run sims/NAME.toml`` and the figures that show
NAME share it, and several figures share a sweep. What a task's name is made from (model, data, procedure with its
version) decides what has to be computed again; whoever edits a sweep sees the picture change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from phasekit.drawing.presets import BEST, Preset
from phasekit.measure import Measurement, measure_store
from phasekit.model import Model
from phasekit.runs.archive.start import best_preset, start_of
from phasekit.runs.store.collect import fates
from phasekit.runs.store.plan import read_plans
from phasekit.runs.store.store import Finished, Store
from phasekit.runs.sweeps.description import Sweep, load_sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend, LocalProcesses
from phasekit.runs.work.progress import Silent, watching
from phasekit.runs.work.runner import run_sweep

ROOT = Path(__file__).resolve().parents[1]
#: Below this q = ‖A‖²/L an attention matrix counts as zero: it has no pattern, and its coverage is 0/0.
NO_PATTERN = 1e-8

J = TypeVar("J")
R = TypeVar("R")


class ThisProcess(Backend):
    """Works where it is called, one ensemble after another."""

    workers = threads = 1
    description = "this process"

    def map(self, function: Callable[[J], R], jobs: Iterable[J]) -> Iterator[R]:
        return map(function, jobs)


def measured(preset: Preset, name: str, *, own_data: bool = False) -> list[Measurement]:
    """Return the thresholds that the networks of a sweep measure.

    ``own_data`` says whether to compute the onset of the data too (see :class:`phasekit.measure.Size`).
    """
    sweep, store, _ = finished(preset, name)
    return measure_store(store, f"{sweep.name}:{sweep.preset}", collapse_resamples=0, own_data=own_data)


def networks(preset: Preset, *names: str) -> dict[Model, pd.DataFrame]:
    """Return the networks of sweeps: for each model (without P) one row a network, or chain.

    Columns are ``task``, ``member`` (its place in the task), ``P``, ``data_seed``, ``procedure`` with its ``step`` if
    it has one, ``ratio`` and ``threshold`` if P is a multiple of one, the ``fate`` of networks trained with Adam, and
    all that the procedure recorded. Networks that several sweeps hold are listed once.
    """
    parts: dict[Model, dict[str, pd.DataFrame]] = {}
    for task, found in results(preset, *names):
        rows = pd.DataFrame({**found.values, **fates(found.values)})
        rows = rows.assign(task=task.id, member=rows.index, P=int(task.head.P or 0), data_seed=task.data_seed)
        rows = rows.assign(procedure=task.procedure.name, step=getattr(task.procedure, "step", np.nan))
        if task.multiple is not None:
            rows = rows.assign(ratio=task.multiple.multiple, threshold=task.multiple.threshold_value)
        parts.setdefault(task.head.at(P=None), {})[task.id] = rows
    return {model: _sorted(pd.concat(rows.values(), ignore_index=True)) for model, rows in parts.items()}


def networks_of_one(preset: Preset, name: str) -> tuple[Model, pd.DataFrame]:
    """Return the one model of a sweep, without P, and its networks (see :func:`networks`)."""
    ((model, rows),) = networks(preset, name).items()
    return model, rows


def kept(preset: Preset, name: str, array: str) -> dict[str, NDArray[np.float64]]:
    """Return an array that tasks of a sweep kept, by the task's id; "A": matrices of shape (members, L, L)."""
    return {task.id: found.arrays[array] for task, found in results(preset, name) if array in found.arrays}


def results(preset: Preset, *names: str) -> Iterator[tuple[Task, Finished]]:
    """Yield every task of sweeps with its result."""
    for name in names:
        _, store, tasks = finished(preset, name)
        yield from ((task, store.load(task.id)) for task in tasks)


def draw_rows(networks: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set: the mean over the networks kept there, which all sit in one minimum."""
    kept = networks[networks["fate"] == "kept"]
    return kept.groupby(["P", "data_seed"], as_index=False).mean(numeric_only=True)


def finished(preset: Preset, name: str) -> tuple[Sweep, Store, list[Task]]:
    """Run what is missing of a sweep of ``sims/``, and return it with its store and tasks.

    Raises
    ------
    RuntimeError
        If tasks failed, or the run was interrupted.
    """
    file = (preset.sims or ROOT / "sims") / f"{name}.toml"
    sweep = load_sweep(file, best_preset(file) if preset.name == BEST else preset.name)
    folder = preset.runs or ROOT / "build" / ("scratch" if preset.scratch else "runs")
    store = Store.create(folder / name)
    start = start_of(sweep, store, scratch=preset.scratch)
    start.prepare(store)
    asked = tuple(task.id for task in start.tasks)
    missing = not set(asked) <= store.names()
    planned = {(plan.sweep, plan.preset, plan.tasks) for plan in read_plans(store)}
    if missing or (name, sweep.preset, asked) not in planned:
        workers: Any = LocalProcesses() if preset.processes and missing else ThisProcess()
        try:
            with watching() if missing else nullcontext(Silent()) as monitor:
                summary = run_sweep(sweep, start.tasks, store, workers, monitor)
        finally:
            workers.close()
        if summary.status:
            raise RuntimeError(f"sweep {name}: {len(summary.failed)} tasks failed, {summary.missing} are missing")
    return sweep, store, start.tasks


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    if "coverage" in rows:
        rows["coverage"] = rows["coverage"].where(rows["q"] > NO_PATTERN)
    return rows.sort_values(["P", "data_seed", "start", "number"], ignore_index=True)
