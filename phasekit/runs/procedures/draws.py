"""Draws of chains in an outcome: an array ``draws_NAME`` for every quantity, shape (members, draws)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

_PREFIX = "draws_"


class Kept(Protocol):
    """What was kept of a task: an :class:`phasekit.runs.procedures.Outcome`, or what a store gives back of one."""

    @property
    def values(self) -> Mapping[str, NDArray[Any]]:
        """Numbers and words about each member."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Anything else."""


def pack_draws(data: xr.Dataset, *members: str) -> dict[str, NDArray[Any]]:
    """Return the draws as arrays; members are counted over these dimensions, the last one fastest."""
    return {
        f"{_PREFIX}{name}": values.transpose(*members, "draw").to_numpy().reshape(-1, data.sizes["draw"])
        for name, values in data.data_vars.items()
    }


def unpack_draws(kept: Kept, **members: int) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Return the draws with their dimensions and ``draw``, as :class:`xarray.Dataset` takes them."""
    dims = (*members, "draw")
    return {
        name.removeprefix(_PREFIX): (dims, array.reshape(*members.values(), -1))
        for name, array in kept.arrays.items()
        if name.startswith(_PREFIX)
    }


def means_of_draws(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the mean of every member's draws, by the name of the quantity."""
    return {name.removeprefix(_PREFIX): np.asarray(draws).mean(1) for name, draws in arrays.items()}
