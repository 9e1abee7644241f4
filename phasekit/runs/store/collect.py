"""Everything that a store holds, in one table or one labelled data set, theory beside measurement.

The order is that of the tasks' parameters, not that in which they finished, and nothing depends on when or where they
ran: two runs of the same sweep give the same files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasekit.errors import InputError
from phasekit.fates import sort_networks
from phasekit.files import atomic, write_netcdf
from phasekit.model import Model
from phasekit.runs.procedures import get_procedure
from phasekit.runs.store.store import BrokenTask, Finished, Store
from phasekit.runs.store.theory_columns import theory_rows
from phasekit.runs.sweeps.task import Parameters

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

FORMATS = (".nc", ".csv", ".parquet")


@dataclass(frozen=True)
class Collection:
    """What a store holds.

    Attributes
    ----------
    table : DataFrame
        One row for each member of each task: its model (``score`` in words, ``score_*`` its parameters), ``data_seed``,
        labels and numbers of the member, ``fate`` for networks, and ``theory_*`` for the model.
    broken : ids and reasons of what couldn't be read
    arrays : id to the arrays kept by that task
    """

    table: pd.DataFrame
    broken: dict[str, str]
    arrays: dict[str, dict[str, np.ndarray[Any, Any]]]


def collect(store: Store, tasks: Sequence[str] | None = None, *, theory: bool = True) -> Collection:
    """Read all finished tasks of a store, or those named.

    Parameters
    ----------
    store : Store
    tasks : ids, optional
    theory : bool
        Whether to compute the theory's columns.

    Raises
    ------
    InputError
        If there is nothing to collect.
    """
    import pandas as pd

    finished: dict[str, Finished] = {}
    broken: dict[str, str] = {}
    for name in sorted(store.names() if tasks is None else store.names() & set(tasks)):
        try:
            finished[name] = store.load(name)
        except BrokenTask as reason:
            broken[name] = str(reason)
    if not finished:
        raise InputError("store", str(store.path), "holds no finished task")
    ordered = dict(sorted(finished.items(), key=lambda item: _order(item[1].parameters)))
    models = [Model(**task.parameters["model"]) for task in ordered.values()]
    columns = _theory(models, list(ordered.values())) if theory else [{} for _ in models]
    parts = []
    for (name, task), model, beside in zip(ordered.items(), models, columns, strict=True):
        members = len(next(iter(task.values.values())))
        fixed = {**_model_columns(model), "data_seed": task.parameters["data_seed"]}
        fixed["procedure"] = task.parameters["estimator"]["name"]
        rows = {name: [value] * members for name, value in fixed.items()}
        values = {**rows, **task.values, **fates(task.values)}
        parts.append(pd.DataFrame({**values, **{name: [value] * members for name, value in beside.items()}}))
        parts[-1].insert(0, "task", name)
    table = pd.concat(parts, ignore_index=True)
    first = [name for name in table if not str(name).startswith("theory_")]
    table = table[[*first, *(name for name in table if name not in first)]]
    return Collection(table, broken, {name: task.arrays for name, task in ordered.items() if task.arrays})


def _order(parameters: Parameters) -> tuple[Any, ...]:
    model = parameters["model"]
    numbers = tuple(model.get(name) or 0 for name in ("V", "L", "P", "sigma_w", "sigma_g", "kappa"))
    words = json.dumps([parameters["estimator"], model["score"], model["inputs"]], sort_keys=True)
    return words, numbers, parameters["data_seed"]


def _model_columns(model: Model) -> dict[str, Any]:
    described = model.describe()
    score = described.pop("score")
    parameters = {
        f"score_{name}": value if isinstance(value, int | float | str) else json.dumps(value)
        for name, value in score.items()
        if name != "name"
    }
    return {"score": score["name"], **parameters, **described}


def _theory(models: Sequence[Model], tasks: Sequence[Finished]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in models]
    kinds: dict[str, list[int]] = {}
    for k, task in enumerate(tasks):
        kinds.setdefault(json.dumps(task.parameters["estimator"], sort_keys=True), []).append(k)
    for described, indices in kinds.items():
        procedure = get_procedure(json.loads(described))
        for k, row in zip(indices, theory_rows([models[k] for k in indices], procedure.theory), strict=True):
            rows[k] = row
    return rows


def fates(values: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the column ``fate`` of a task's networks (:mod:`phasekit.fates`); nothing for what isn't trained."""
    if not {"U", "converged", "failed"} <= values.keys():
        return {}
    return {"fate": sort_networks(values["U"], values["converged"], values["failed"])[0]}


def to_dataset(collection: Collection) -> xr.Dataset:
    """Return the table as a labelled data set with dimensions ``task`` and ``member``.

    What is the same for all members of a task (model, theory) has dimension ``task``; tasks with fewer members than
    the most are padded. Arrays that tasks kept come along if they all have one shape.
    """
    import xarray as xr

    table = collection.table
    tasks = table["task"].drop_duplicates()
    row = table["task"].map(dict(zip(tasks, range(len(tasks)), strict=True))).to_numpy()
    member = table.groupby("task", sort=False).cumcount().to_numpy()
    shape = (len(tasks), int(member.max()) + 1)
    first = np.flatnonzero(member == 0)
    dataset = xr.Dataset(coords={"task": tasks.to_numpy().astype(str), "member": np.arange(shape[1])})
    for name in table.columns.drop("task"):
        column = table[name].to_numpy()
        words = column.dtype.kind not in "biuf"
        if words:
            column = np.array(["" if value is None or value != value else str(value) for value in column])
        if (column == column[first][row]).all() or (not words and _same(column, column[first][row])):
            dataset[name] = ("task", column[first])
            continue
        full = np.full(shape, "" if words else np.nan, dtype=column.dtype if words else float)
        full[row, member] = column
        dataset[name] = (("task", "member"), full)
    shapes = {
        name: {x[name].shape for x in collection.arrays.values() if name in x} for name in _array_names(collection)
    }
    for name, found in shapes.items():
        if len(found) == 1 and len(collection.arrays) == len(tasks):
            stacked = np.stack([collection.arrays[task][name] for task in tasks])
            dims = ("task", "member", *(f"{name}_{k}" for k in range(stacked.ndim - 2)))
            dataset[name] = (dims, stacked)
    return dataset


def _array_names(collection: Collection) -> list[str]:
    return sorted({name for arrays in collection.arrays.values() for name in arrays})


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


def save(collection: Collection, path: Path) -> None:
    """Write what was collected as netCDF (.nc), .csv or .parquet, whole or not at all.

    Raises
    ------
    InputError
        For another suffix, or a path that can't be written to.
    """
    if path.suffix not in FORMATS:
        raise InputError("out", str(path), f"must end in {', '.join(FORMATS)}")
    if path.suffix == ".nc":
        write_netcdf(to_dataset(collection), path)
        return
    with atomic(path) as temporary:
        if path.suffix == ".csv":
            collection.table.to_csv(temporary, index=False, lineterminator="\n")
        else:
            collection.table.to_parquet(temporary, index=False)
