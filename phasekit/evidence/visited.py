"""The sizes that a loop has visited, on disk: a loop that was stopped goes on at the size where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from phasekit.checkpoint import load_checkpoint, save_checkpoint
from phasekit.samplers import Samples

_GROUPS = {"posterior": ("chain", "draw", "dataset"), "final": ("chain", "dataset")}


class Visited:
    """Samples by the place in a loop that they are of.

    Parameters
    ----------
    checkpoint : path, optional
        File (.npz) to read if it exists, and to save to.
    run : mapping
        What determines the loop, as plain JSON values.

    Raises
    ------
    InputError
        If the file is damaged, or of another loop.
    """

    def __init__(self, checkpoint: str | Path | None, run: Mapping[str, Any]) -> None:
        self._file, self._run = None if checkpoint is None else Path(checkpoint), dict(run)
        self._arrays: dict[str, NDArray[Any]] = {}
        if self._file is not None and self._file.exists():
            self._arrays = {name: x.numpy() for name, x in load_checkpoint(self._file, self._run).items()}

    def add(self, place: str, samples: Samples) -> None:
        """Remember the draws at a place, and where their chains ended."""
        for group, dims in _GROUPS.items():
            for name, x in samples.tree[group].data_vars.items():
                self._arrays[f"{place} {group} {name}"] = x.transpose(*dims, ...).to_numpy()

    def get(self, place: str) -> Samples | None:
        """Return what is remembered of a place; None if chains weren't there."""
        groups = {}
        for group, dims in _GROUPS.items():
            begin = f"{place} {group} "
            arrays = {key.removeprefix(begin): x for key, x in self._arrays.items() if key.startswith(begin)}
            if not arrays:
                return None
            groups[group] = xr.Dataset(
                {name: ((*dims, *(f"{name}_{k}" for k in range(x.ndim - len(dims)))), x) for name, x in arrays.items()},
                {"chain": np.arange(next(iter(arrays.values())).shape[0])},
            )
        return Samples(xr.DataTree.from_dict(groups))

    def save(self) -> None:
        """Write all to the file, if there is one."""
        if self._file is not None:
            save_checkpoint(self._file, self._run, self._arrays)
