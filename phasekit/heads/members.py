"""What trained and sampled ensembles have in common: labelled arrays of data sets times members, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import xarray as xr

from phasekit.errors import InputError
from phasekit.files import write_netcdf
from phasekit.model import Model
from phasekit.show import Shown


@dataclass(frozen=True, eq=False, repr=False)
class Members(Shown):
    """Labelled arrays about the members of an ensemble, saved as netCDF (HDF5) with checksums.

    Attributes
    ----------
    tree : xarray.DataTree
        Its root's attributes say what was asked for: ``model`` (JSON, without P), ``seed``, ``dtype``, ``device``,
        ``path`` (how the energy was computed), ``phasekit`` (the version), ``format``.
    """

    tree: xr.DataTree

    FORMAT: ClassVar[str]
    #: What a file of this kind is called in errors.
    FILE: ClassVar[str]

    @property
    def model(self) -> Model:
        """The model, without P."""
        return Model(**json.loads(self.tree.attrs["model"]))

    def save(self, path: str | Path) -> None:
        """Write netCDF, whole or not at all; ``xarray.open_datatree`` reads it too.

        Numbers carry a checksum (HDF5's Fletcher-32), which reading them verifies.

        Raises
        ------
        InputError
            If the path can't be written to.
        """
        write_netcdf(self.tree, path, encoding=_checksums(self.tree))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing, damaged or something else.
        """
        try:
            tree = xr.load_datatree(path, engine="h5netcdf")
        except (OSError, ValueError) as error:
            raise InputError(cls.FILE, str(path), f"can't be read ({error})") from None
        if tree.attrs.get("format") != cls.FORMAT:
            raise InputError(cls.FILE, str(path), f"must be a {cls.FORMAT!r} file")
        return cls(tree)


def _checksums(tree: xr.DataTree) -> dict[str, dict[str, dict[str, bool]]]:
    """Return the encoding that gives every array of numbers a checksum."""

    def checked(group: xr.DataTree) -> dict[str, dict[str, bool]]:
        arrays = {str(name): x for name, x in group.data_vars.items() if x.ndim and x.size and x.dtype.kind in "fiub"}
        return {name: {"fletcher32": True} for name in arrays}

    return {group.path: checked(group) for group in tree.subtree}
