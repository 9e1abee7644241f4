"""How many peaks a distribution of draws has: one that moves, or two that trade their weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde

from phasekit.checks import finite_numbers
from phasekit.errors import InputError

# A valley separates two peaks if it is lower than the smaller one by this factor. The density of draws of one Gaussian
# has spurious valleys of a few tens of per cent; a barrier of the temperature gives 1/e.
_VALLEY = 0.5
_GRID = 512


@dataclass(frozen=True, eq=False)
class Density:
    """A smoothed histogram.

    Attributes
    ----------
    x, density : array
    peaks : array
        Where its peaks are, ascending; peaks with too shallow a valley between them count once.
    """

    x: NDArray[np.float64]
    density: NDArray[np.float64]
    peaks: NDArray[np.float64]


def density(draws: ArrayLike, *, symmetric: bool = False) -> Density:
    """Estimate the density of draws by Gaussian kernels (Scott's rule within the half that holds most draws).

    Parameters
    ----------
    draws : array
        Any shape.
    symmetric : bool
        Whether x and −x are the same state (c1 of linear attention): draws are mirrored, so that the density is even.

    Raises
    ------
    InputError
        For fewer than 20 draws, draws of which more than half are the same, and what isn't a finite number.
    """
    x = finite_numbers("draws", draws).ravel()
    if x.size < 20:
        raise InputError("draws", x.size, "a density needs at least 20")
    if symmetric:
        x = np.concatenate([x, -x])
    # A width from the whole spread would smear two narrow peaks into one: take it from the narrower half.
    low, middle, high = np.quantile(x, [0.0, 0.5, 1.0])
    halves = [half for half in (x[x <= middle], x[x > middle]) if half.size > 1]
    width = min(half.std() for half in halves) * x.size**-0.2
    if not width > 0:
        raise InputError("draws", float(low), "too many are the same")
    grid = np.linspace(low - 4 * width, high + 4 * width, _GRID)
    values = gaussian_kde(x, bw_method=width / x.std(ddof=1))(grid)
    return Density(grid, values, grid[separate_peaks(values)])


def separate_peaks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the positions of peaks that stand out of the valleys around them by a factor of two, ascending."""
    padded = np.concatenate([[0.0], values, [0.0]])
    peaks, _ = find_peaks(padded)
    kept: list[int] = []
    for peak in sorted(peaks, key=lambda k: -padded[k]):
        valleys = [padded[min(peak, other) : max(peak, other) + 1].min() for other in kept]
        if all(valley < _VALLEY * padded[peak] for valley in valleys) and padded[peak] > 0.01 * padded.max():
            kept.append(int(peak))
    return np.sort(np.array(kept, dtype=np.int64)) - 1
