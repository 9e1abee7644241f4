"""An archive's file: netCDF that xarray opens, with a check sum of its contents, read as a whole or refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phasekit.errors import InputError
from phasekit.files import write_netcdf
from phasekit.runs.archive.tables import from_tables, to_tables
from phasekit.runs.procedures import PROCEDURES
from phasekit.runs.store.store import Finished
from phasekit.runs.sweeps.canonical import hash_of, state_point
from phasekit.runs.sweeps.thresholds import Thresholds

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "phasekit archive 1"
_CHECK, _THRESHOLDS = "check_sum", "thresholds"


@dataclass(frozen=True)
class Archive:
    """Results of one sweep at one preset.

    Attributes
    ----------
    sweep : name of the sweep
    preset : str
    about : what the sweep is about
    tasks : id to task
    thresholds : what theory said when the sweep was expanded
    """

    sweep: str
    preset: str
    about: str = ""
    tasks: Mapping[str, Finished] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)


def write_archive(archive: Archive, path: Path, arrays: tuple[str, ...] = ()) -> None:
    """Write an archive, whole or not at all; ``arrays`` names those to keep (see :mod:`phasekit.runs.archive.tables`).

    Raises
    ------
    InputError, OSError
        If the file can't be written.
    """
    import xarray as xr

    tables = to_tables(archive.tasks, arrays)
    root = {"format": FORMAT, "sweep": archive.sweep, "preset": archive.preset, "about": archive.about}
    root[_THRESHOLDS] = archive.thresholds.to_json()
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={**root, _CHECK: _check_sum(root, tables)}), **tables})
    packed = {f"/{name}": {str(x): _encoding(table[x]) for x in table.variables} for name, table in tables.items()}
    write_netcdf(tree, path, encoding=packed)


def read_archive(path: Path) -> Archive:
    """Read an archive, and check that it is what was written.

    Raises
    ------
    InputError
        One line if it is truncated, damaged, changed, something else, or of another version of a procedure.
    """
    root, tables = _open(path)
    if root.get("format") != FORMAT:
        raise _refusal(path, f"is no archive that this version reads ({FORMAT})")
    if root.pop(_CHECK, None) != _check_sum(root, tables):
        raise _refusal(path, "was changed: its contents don't have its check sum")
    tasks = from_tables(tables)
    for name, task in tasks.items():
        if hash_of(state_point(task.parameters)) != name:
            raise _refusal(path, f"task {name} has the parameters of another")
    _check_versions(path, tasks)
    thresholds = Thresholds.from_json(root[_THRESHOLDS])
    return Archive(root["sweep"], root["preset"], root["about"], tasks, thresholds)


def archive_of(sweep: str | Path, preset: str | None) -> Path:
    """Return where the archive of a sweep's file is: beside it, in the folder ``archive``."""
    file = Path(sweep)
    return file.parent / "archive" / f"{file.stem}.{preset or 'full'}.nc"


def _open(path: Path) -> tuple[dict[str, str], dict[str, xr.Dataset]]:
    """Return a file's attributes and tables, all read."""
    import xarray as xr

    try:
        with xr.open_datatree(path) as tree:  # by netCDF4 where it is installed: many small columns are its strength
            root = {str(name): str(value) for name, value in tree.attrs.items()}
            return root, {name: node.to_dataset(inherit=False).load() for name, node in tree.children.items()}
    except FileNotFoundError:
        raise _refusal(path, "isn't there") from None
    except Exception as error:  # whatever HDF5 and its readers say to a damaged file
        raise _refusal(path, f"is damaged, or no netCDF file ({type(error).__name__})") from None


def _check_versions(path: Path, tasks: Mapping[str, Finished]) -> None:
    for name, version in {
        (t.parameters["estimator"]["name"], t.parameters["estimator"]["version"]) for t in tasks.values()
    }:
        try:
            today = PROCEDURES.find(name).version
        except InputError:  # somebody's own that isn't loaded; a sweep that names it loads it
            continue
        if version != today:
            why = f"its tasks are of version {version} of {name}, this phasekit has version {today}"
            raise _refusal(path, f"{why}: archive the sweep anew, or run it with --from scratch")


def _refusal(path: Path, why: str) -> InputError:
    return InputError("archive", str(path), why)


def _encoding(column: xr.DataArray) -> dict[str, Any]:
    packed: dict[str, Any] = {"zlib": True, "complevel": 6, "shuffle": True}
    return {**packed, "dtype": "S1"} if column.dtype.kind == "U" else {**packed, "_FillValue": None}


def _check_sum(root: Mapping[str, str], tables: Mapping[str, xr.Dataset]) -> str:
    """Return a hash of everything that is in a file, whatever way it is packed."""
    found = hashlib.blake2b(json.dumps(root, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tables):
        found.update(json.dumps([name, dict(sorted(tables[name].attrs.items()))]).encode())
        for column in sorted(map(str, tables[name].variables)):
            array = tables[name][column]
            words = array.dtype.kind in "UO"
            found.update(json.dumps([column, array.dims, array.shape, "" if words else array.dtype.str]).encode())
            plain = json.dumps(array.to_numpy().tolist()).encode() if words else array.to_numpy().tobytes()
            found.update(np.ascontiguousarray(np.frombuffer(plain, np.uint8)).data)
    return found.hexdigest()
