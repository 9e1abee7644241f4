"""What became of each trained network: at the lowest minimum of its data, at a higher one, or at none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FATES = ("kept", "higher energy", "not converged", "failed")
#: Energies within this fraction of the lowest belong to the lowest minimum.
SAME_ENERGY = 1e-4


def sort_networks(
    U: NDArray[Any], converged: NDArray[Any], failed: NDArray[Any], tolerance: float = SAME_ENERGY
) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Sort the networks trained on each data set by what became of them.

    Parameters
    ----------
    U : array, shape (..., networks)
        Their energies; networks in the last axis share a data set.
    converged, failed : arrays of bool, same shape
    tolerance : float
        Relative distance in energy up to which a converged network counts as being at the lowest minimum.

    Returns
    -------
    fate : array of words, same shape
        One of :data:`FATES`.
    lowest : array, shape (...)
        The lowest energy of a converged network; NaN if none converged.
    """
    usable = np.where(converged.astype(bool), U, np.inf).min(-1)
    lowest = np.where(np.isfinite(usable), usable, np.nan)
    higher = ~(U - lowest[..., None] <= tolerance * abs(lowest[..., None]))
    found = np.select(
        [failed.astype(bool), ~converged.astype(bool), higher], ["failed", "not converged", "higher energy"], "kept"
    )
    return found, lowest
