"""Finished tasks as labelled tables and back, without loss but for what is said here.

Tasks of one kind (same procedure, columns and shapes) share a table with two dimensions: ``task`` and ``row``, the
members of all tasks, one task after another, ``members`` of them each. Columns along ``task`` are the id,
``parameters`` (JSON, what the id is the hash of), ``data_seed``, ``procedure`` and its ``procedure_version``, the
model's fields (``model_V`` …) for readers, which multiple of a threshold P is, and how the task was computed
(``run_seconds``, ``run_commit``, ``run_device`` …, the rest as JSON in ``run_record``). Columns along ``row`` are what
the procedure measured, under its own names. Arrays have their own names, and further dimensions; those that have no
entry for each member lie along ``task``.

Left out are the name of the machine and of the process, and arrays that nobody asked for; arrays of numbers are kept
in float32.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasekit.describe import columns_of
from phasekit.runs.store.store import Finished

if TYPE_CHECKING:
    import xarray as xr

#: How a task was computed, as columns; where a record lacks one, the column has what stands here.
_TOLD: dict[str, Any] = {
    **dict.fromkeys(("seconds", "processor_seconds", "finished"), np.nan),
    **dict.fromkeys(("commit", "phasekit", "device", "dtype"), ""),
    "threads": -1,
}
_MULTIPLE = {"multiple": "P_multiple", "threshold": "P_threshold", "threshold_value": "P_threshold_value"}
#: What a record says about a place that no reader has.
_LOCAL = ("host", "pid", "task", "format", "archive")


def to_tables(tasks: Mapping[str, Finished], arrays: Collection[str] = ()) -> dict[str, xr.Dataset]:
    """Return tasks as tables, by the name of the procedure and a number.

    Parameters
    ----------
    tasks : id to task
    arrays : names of the arrays to keep; * stands for any letters
    """
    kinds: dict[Hashable, dict[str, Finished]] = {}
    for name, task in tasks.items():
        kinds.setdefault(_kind(task, arrays), {})[name] = task
    tables: dict[str, xr.Dataset] = {}
    for members in kinds.values():
        first = next(iter(members.values()))
        procedure = str(first.parameters["estimator"]["name"]).rpartition(":")[2]
        number = sum(name.startswith(f"{procedure}_") for name in tables)
        tables[f"{procedure}_{number}"] = _table(members, arrays)
    return tables


def from_tables(tables: Mapping[str, xr.Dataset]) -> dict[str, Finished]:
    """Return the tasks that :func:`to_tables` took, by id. A record says under ``left_out`` which arrays it lacks."""
    return {name: task for table in tables.values() for name, task in _tasks(table)}


def _kind(task: Finished, arrays: Collection[str]) -> Hashable:
    columns = tuple((name, column.dtype.kind) for name, column in task.values.items())
    kept = tuple(
        (name, _along(task, x), x.shape[_along(task, x) == "row" :])
        for name, x in task.arrays.items()
        if _wanted(name, arrays)
    )
    return task.parameters["estimator"]["name"], columns, kept


def _along(task: Finished, array: NDArray[Any]) -> str:
    """Return the dimension that an array lies along: "row" if it has an entry for each member, else "task"."""
    members = len(next(iter(task.values.values())))
    return "row" if array.ndim and len(array) == members else "task"


def _wanted(name: str, arrays: Collection[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in arrays)


def _table(tasks: Mapping[str, Finished], arrays: Collection[str]) -> xr.Dataset:
    import xarray as xr

    rows = [_task_columns(name, task, arrays) for name, task in tasks.items()]
    lacking = {column: "" if isinstance(value, str) else np.nan for row in rows for column, value in row.items()}
    along_task = {column: np.array([row.get(column, empty) for row in rows]) for column, empty in lacking.items()}
    first = next(iter(tasks.values()))
    along_row = {name: np.concatenate([task.values[name] for task in tasks.values()]) for name in first.values}
    kept = {name: _along(first, array) for name, array in first.arrays.items() if _wanted(name, arrays)}
    joined = {
        name: _compact(join([task.arrays[name] for task in tasks.values()]))
        for name, join in ((name, np.concatenate if where == "row" else np.stack) for name, where in kept.items())
    }
    return xr.Dataset(
        {
            **{name: ("task", column) for name, column in along_task.items()},
            **{name: ("row", column) for name, column in along_row.items()},
            **{
                _variable(name, along_row): ((kept[name], *(f"{_variable(name)}_{k}" for k in range(1, x.ndim))), x)
                for name, x in joined.items()
            },
        },
        attrs={"arrays": json.dumps(list(kept)), "columns": json.dumps(list(along_row))},
    )


def _task_columns(name: str, task: Finished, arrays: Collection[str]) -> dict[str, Any]:
    """Return what is the same for all members of a task."""
    procedure = task.parameters["estimator"]
    record = {key: value for key, value in task.record.items() if key not in _LOCAL}
    multiple = record.pop("multiple", None) or {"multiple": np.nan, "threshold": "", "threshold_value": np.nan}
    if left_out := sorted({x for x in task.arrays if not _wanted(x, arrays)} | set(record.get("left_out", ()))):
        record["left_out"] = left_out
    told = {f"run_{key}": record.pop(key, missing) for key, missing in _TOLD.items()}
    model = columns_of(task.parameters["model"])
    return {
        "task": name,
        "members": len(next(iter(task.values.values()))),
        "data_seed": task.parameters["data_seed"],
        "procedure": procedure["name"],
        "procedure_version": procedure["version"],
        **{f"model_{key}": np.nan if value is None else value for key, value in model.items()},
        **{column: multiple[key] for key, column in _MULTIPLE.items()},
        **told,
        "run_record": json.dumps(record, sort_keys=True),
        "parameters": json.dumps(task.parameters, sort_keys=True),
    }


def _variable(name: str, columns: Collection[str] = ()) -> str:
    """Return what an array is called in a file: not like a column, and without /, which would stand for a path."""
    return name.replace("/", "∕") + (" (array)" if name in columns else "")


def _compact(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(str) if array.dtype.kind == "O" else array


def _tasks(table: xr.Dataset) -> Any:
    """Yield the tasks of a table with their ids."""
    columns, arrays = (json.loads(table.attrs[name]) for name in ("columns", "arrays"))
    measured = {name: _plain(table[name].to_numpy()) for name in columns}
    called = {name: _variable(name, columns) for name in arrays}
    along_task = {name for name in arrays if table[called[name]].dims[0] == "task"}
    of_arrays = {name: _plain(table[variable].to_numpy()) for name, variable in called.items()}
    about = {
        name: table[name].to_numpy().tolist()
        for name in table.variables
        if table[name].dims == ("task",) and name not in called.values()
    }
    ends = np.cumsum(about["members"]).tolist()
    for k, end in enumerate(ends):
        rows = slice(end - about["members"][k], end)
        record = json.loads(about["run_record"][k])
        for key, missing in _TOLD.items():
            value = about[f"run_{key}"][k]
            if value != missing and value == value:
                record[key] = value
        if about["P_threshold"][k]:
            record["multiple"] = {key: about[column][k] for key, column in _MULTIPLE.items()}
        values = {name: measured[name][rows] for name in columns}
        kept = {name: x[k if name in along_task else rows] for name, x in of_arrays.items()}
        yield about["task"][k], Finished(json.loads(about["parameters"][k]), values, kept, record)
