"""Everything that a store holds, in one table or one labelled data set, theory beside measurement.

The order is that of the tasks' parameters, not that in which they finished, and nothing depends on when or where they
ran: two runs of the same sweep give the same files. What isn't whole, or isn't understood by this version, is named and
left out; no code is imported because a store names it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasekit.describe import Description, columns_of
from phasekit.errors import InputError
from phasekit.extras import require
from phasekit.fates import sort_networks
from phasekit.files import atomic, write_netcdf
from phasekit.model import Estimator, Model
from phasekit.runs.procedures import PROCEDURES, Procedure
from phasekit.runs.store.store import BrokenTask, Finished, Store
from phasekit.runs.store.theory_columns import theory_rows
from phasekit.runs.sweeps.task import read_model

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

FORMATS = (".nc", ".csv", ".parquet")
_MULTIPLE = {"multiple": "P_multiple", "threshold": "P_threshold", "threshold_value": "P_threshold_value"}


@dataclass(frozen=True)
class Collection:
    """What a store holds.

    Attributes
    ----------
    table : DataFrame
        One row for each member of each task: its model (``score`` in words, ``score_*`` its parameters), ``data_seed``,
        ``procedure`` and its ``procedure_version``, labels and numbers of the member, ``fate`` for networks, and
        ``theory_*`` for the model. If P was written as a multiple of a threshold, ``P_multiple``, ``P_threshold`` (its
        name) and ``P_threshold_value`` say which.
    broken : ids and reasons of what couldn't be read, or isn't understood
    arrays : id to the arrays kept by that task
    notes : what a reader should know about the tasks that are in the table
    """

    table: pd.DataFrame
    broken: dict[str, str]
    arrays: dict[str, dict[str, np.ndarray[Any, Any]]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Entry:
    """A finished task and what its parameters mean here.

    ``model`` is None for a kind of model that this process doesn't know, ``procedure`` for such a procedure.
    """

    id: str
    task: Finished
    model: Description | None
    procedure: type[Procedure] | None

    @property
    def described(self) -> dict[str, Any]:
        """The model as plain values."""
        return self.task.parameters["model"] if self.model is None else self.model.describe()

    @property
    def version(self) -> Any:
        return self.task.parameters["estimator"].get("version")

    @property
    def name(self) -> str:
        return str(self.task.parameters["estimator"]["name"])

    @property
    def theory(self) -> Estimator | None:
        """The estimator that the numbers are to be held against, as recorded with them or as the procedure says."""
        recorded = self.task.record.get("theory")
        if recorded in ("map", "posterior"):
            return "map" if recorded == "map" else "posterior"
        return None if self.procedure is None else self.procedure.theory

    @property
    def order(self) -> tuple[Any, ...]:
        """Where the task stands in the table."""
        numbers = [value or 0 for value in self.described.values() if isinstance(value, int | float | None)]
        words = [value for value in self.described.values() if not isinstance(value, int | float | None)]
        kind = json.dumps([self.task.parameters["estimator"], words], sort_keys=True)
        return kind, numbers, self.task.parameters["data_seed"]


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

    entries, broken = [], {}
    for name in sorted(store.names() if tasks is None else store.names() & set(tasks)):
        try:
            entries.append(_entry(name, store.load(name)))
        except (BrokenTask, InputError) as reason:
            broken[name] = str(reason)
    if not entries:
        reasons = [": ".join(item) for item in broken.items()]
        why = f" that can be read ({len(broken)} can't, the first: {reasons[0]})" if reasons else ""
        raise InputError("store", str(store.path), f"holds no finished task{why}")
    entries.sort(key=lambda entry: entry.order)
    beside = _theory(entries) if theory else [{} for _ in entries]
    table = pd.concat([_rows(*pair) for pair in zip(entries, beside, strict=True)], ignore_index=True)
    first = [name for name in table if not str(name).startswith("theory_")]
    table = table[[*first, *(name for name in table if name not in first)]]
    arrays = {entry.id: entry.task.arrays for entry in entries if entry.task.arrays}
    return Collection(table, broken, arrays, list(_notes(entries)))


def _entry(name: str, task: Finished) -> _Entry:
    """Raise InputError if the task's parameters describe nothing that this version knows."""
    try:
        procedure: type[Procedure] | None = PROCEDURES.find(task.parameters["estimator"]["name"])
    except InputError:  # somebody's own, and its module isn't loaded
        procedure = None
    return _Entry(name, task, read_model(task.parameters, procedure), procedure)


def _rows(entry: _Entry, beside: Mapping[str, Any]) -> pd.DataFrame:
    """Return a task's rows: what is the same for all of its members, and the members' own values."""
    import pandas as pd

    multiple = entry.task.record.get("multiple") or {}
    fixed = {
        "task": entry.id,
        **columns_of(entry.described),
        **{_MULTIPLE[name]: value for name, value in multiple.items() if name in _MULTIPLE},
        "data_seed": entry.task.parameters["data_seed"],
        "procedure": entry.name,
        "procedure_version": entry.version,
    }
    values = {**entry.task.values, **fates(entry.task.values)}
    members = len(next(iter(values.values())))
    constant = {name: [value] * members for name, value in fixed.items()}
    return pd.DataFrame({**constant, **values, **{name: [value] * members for name, value in beside.items()}})


def _theory(entries: Sequence[_Entry]) -> list[dict[str, Any]]:
    """Return the theory's columns of each task: of heads by their actions, of other models by their procedure."""
    rows: list[dict[str, Any]] = [{} for _ in entries]
    kinds: dict[Any, list[int]] = {}
    for k, entry in enumerate(entries):
        by = entry.theory if isinstance(entry.model, Model) else entry.procedure
        if by is not None and entry.model is not None:
            kinds.setdefault(by, []).append(k)
    for by, indices in kinds.items():
        models: list[Any] = [entries[k].model for k in indices]
        found = theory_rows(models, by) if isinstance(by, str) else by.predict(models)
        for k, row in zip(indices, found, strict=True):
            rows[k] = row
    return rows


def _notes(entries: Iterable[_Entry]) -> Iterable[str]:
    """Say which tasks are of procedures that this process has in another version, or doesn't have."""
    kinds = Counter((e.name, e.version, e.procedure, e.model is None or e.theory is None) for e in entries)
    for (name, version, procedure, unknown), count in kinds.items():
        if procedure is None and unknown:
            yield f"{count} tasks are of {name}, whose module isn't loaded: what it says about theory is left out"
        elif procedure is not None and version != procedure.version:
            yield f"{count} tasks are of version {version} of {name}; this phasekit has version {procedure.version}"


def fates(values: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the column ``fate`` of a task's networks (:mod:`phasekit.fates`); nothing for what isn't trained."""
    if not {"U", "converged", "failed"} <= values.keys():
        return {}
    return {"fate": sort_networks(values["U"], values["converged"], values["failed"])[0]}


def to_dataset(collection: Collection) -> xr.Dataset:
    """Return the table as a labelled data set with dimensions ``task`` and ``member``.

    What is the same for all members of a task (model, theory) has dimension ``task``; tasks with fewer members than
    the most are padded. Arrays come along if every task kept them, in one shape.
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
    for name in _array_names(collection):
        arrays = [x[name] for task in tasks if name in (x := collection.arrays.get(task, {}))]
        if len(arrays) == len(tasks) and len({x.shape for x in arrays}) == 1:
            stacked = np.stack(arrays)
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
    check_format(path)
    if path.suffix == ".nc":
        write_netcdf(to_dataset(collection), path)
        return
    with atomic(path) as temporary:
        if path.suffix == ".csv":
            collection.table.to_csv(temporary, index=False, lineterminator="\n")
        else:
            collection.table.to_parquet(temporary, index=False)


def check_format(path: Path) -> None:
    """Refuse, before anything is computed, a path that a table can't be written to.

    Raises
    ------
    InputError
        For another suffix, or a package that is missing.
    """
    if path.suffix not in FORMATS:
        raise InputError("out", str(path), f"must end in {', '.join(FORMATS)}")
    if path.suffix == ".parquet":
        require("pyarrow")
