"""Keep the runs that reached the lowest minimum, and count the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from phasekit.checks import one_of, real_number
from phasekit.fates import FATES, SAME_ENERGY, sort_networks
from phasekit.heads.ensemble import Ensemble


@dataclass(frozen=True, eq=False)
class Selection(Ensemble):
    """An ensemble whose members were sorted into those at the lowest minimum and the others.

    Attributes
    ----------
    data : xarray.Dataset
        The ensemble's, and ``fate`` (dataset, member): "kept", "higher energy", "not converged" or "failed";
        ``U_lowest`` (dataset): the lowest energy of a converged member, NaN if there is none;
        attribute ``selection_tolerance``.
    """

    def counts(self, fate: str) -> NDArray[np.int64]:
        """Return how many members of each data set met a fate.

        Raises
        ------
        InputError
            For an unknown fate.
        """
        return np.asarray((self.data.fate == one_of("fate", fate, FATES)).sum("member").values)

    def mean(self, name: str) -> xr.DataArray:
        """Return a quantity averaged over the kept members of each data set (NaN where none was kept)."""
        return self.data[name].where(self.data.fate == "kept").mean("member")


def select_lowest(ensemble: Ensemble, tolerance: float = SAME_ENERGY) -> Selection:
    """Keep, for each data set, the converged members whose U is within ``tolerance`` (relative) of the lowest.

    Near a first-order transition different starts end in different minima; only the lowest is what the theory's
    global branch describes.

    Raises
    ------
    InputError
        If the tolerance is not a finite number of at least 0.
    """
    tolerance = real_number("tolerance", tolerance, least=0)
    data = ensemble.data.transpose("dataset", "member", ...)
    fate, lowest = sort_networks(data.U.to_numpy(), data.converged.to_numpy(), data.failed.to_numpy(), tolerance)
    data = data.assign(fate=(("dataset", "member"), fate), U_lowest=("dataset", lowest))
    return Selection.of(data.assign_attrs(selection_tolerance=tolerance))
