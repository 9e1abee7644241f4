"""Where a curve of networks' data says that a threshold is.

Both functions take all data sets at once, ``y`` of shape (data sets, P) with NaN for what is missing, so that the
bootstrap may hand over any resample of data sets. With ``check`` the polynomial gets another degree, or fewer
points: how far the answer then moves says how much it owes to the polynomial.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Locate(Protocol):
    """From P (values,) and y (data sets, values) to the threshold."""

    def __call__(self, P: Array, y: Array, check: bool = False) -> float: ...


#: An order parameter t·s² below this counts as zero: Adam is slow to leave the origin just above the onset.
FLOOR = 0.02
#: Above this the straight line that leads to the onset bends, because copying sets in.
CEILING = 0.6
#: A crossing is fitted to the values of P within this factor of it.
WINDOW = 1.2


class NotLocated(ValueError):
    """The data don't say where the threshold is; the message says why."""


def onset(P: Array, y: Array, check: bool = False) -> float:
    """Return where an order parameter begins to grow, from above.

    ``y`` is t·s² (:mod:`phasekit.measure.observables`). For pure pooling ``P = P₁ (1 + y)`` exactly, so P is fitted as
    a polynomial in y, of degree 2 (1 if there are only three values of P), and P₁ is its value at y = 0. Points with y
    between 0.02 and 0.6 enter, up to the first P where the mean exceeds 0.6.

    Raises
    ------
    NotLocated
        If no P shows y = 0, or fewer than three show it growing.
    """
    means = _means(y)
    below = P[means < FLOOR]
    if below.size == 0:
        raise NotLocated("no P lies below the onset")
    used = np.isfinite(y) & (y > FLOOR) & growing(P, y, below.min())
    distinct = np.unique(np.nonzero(used)[1]).size
    if distinct < 3:
        raise NotLocated("fewer than 3 values of P lie just above the onset")
    degree = 1 if distinct == 3 else 2
    if check and distinct == 3:
        degree = 2
    elif check:
        used[:, np.flatnonzero(used.any(0)).max()] = False
    at = np.broadcast_to(P, y.shape)[used]
    return float(np.polynomial.polynomial.polyfit(y[used], at, degree)[0])


def crossing(P: Array, y: Array, check: bool = False) -> float:
    """Return where ``y`` passes through 0, from a polynomial in ln P through the points near the crossing.

    Points within a factor of 1.2 of where the mean over data sets changes sign enter. The degree is 3 for five or more
    values of P, 2 for four, 1 for fewer. The polynomial may reach beyond the outermost P by one of their distances: two
    minima may coexist in a window of a percent, in which not every resample encloses the crossing.

    Raises
    ------
    NotLocated
        If there is no crossing there.
    """
    means = _means(y)
    seen = np.flatnonzero(np.isfinite(means))
    if seen.size < 2:
        raise NotLocated("fewer than 2 values of P show it")
    negative = means[seen] < 0
    changes = np.flatnonzero(negative[1:] != negative[:-1])
    # Between the neighbours that enclose it or, if none do, about the P that comes closest.
    first = int(changes[0]) if changes.size else int(np.clip(np.abs(means[seen]).argmin(), 0, seen.size - 2))
    ends = np.log(P[seen[first : first + 2]])
    centre = float(ends.mean())
    x = np.log(P) - centre
    reach = float(np.diff(ends)[0])
    near = np.abs(x) <= max(np.log(WINDOW), reach)  # neighbours count however far apart they are
    used = np.isfinite(y) & near
    places = np.unique(np.nonzero(used)[1])
    degree = max(1, min(3, places.size - 2) - check)
    at = np.broadcast_to(x, y.shape)[used]
    curve = np.polynomial.Polynomial(np.polynomial.polynomial.polyfit(at, y[used], degree))
    real = _real_roots(curve)
    inside = real[(real >= x[places[0]] - reach) & (real <= x[places[-1]] + reach)]
    if inside.size == 0:
        raise NotLocated("no crossing between the values of P, nor close to them")
    return float(np.exp(centre + inside[np.abs(inside).argmin()]))


def _real_roots(curve: np.polynomial.Polynomial) -> Array:
    """Return real roots. Eigenvalues alone are inexact where the highest coefficient is next to nothing."""
    roots = curve.roots()
    real = np.asarray(roots.real[np.abs(roots.imag) < 1e-9 * (1 + np.abs(roots))], dtype=float)
    slope = curve.deriv()
    for _ in range(3):  # Newton's
        steepness = slope(real)
        real = real - np.where(steepness != 0, curve(real) / np.where(steepness != 0, steepness, 1.0), 0.0)
    return real


def growing(P: Array, y: Array, threshold: float) -> Mask:
    """Return which values of P lie just above an onset: those with a mean y from 0.02 up, before it exceeds 0.6."""
    means = _means(y)
    too_far = np.flatnonzero(means > CEILING)
    last = int(too_far[0]) if too_far.size else P.size
    growth: Mask = means > FLOOR
    growth[last:] = False
    return growth & np.greater(P, threshold)


def around(P: Array, y: Array, threshold: float) -> Mask:
    """Return which values of P lie within a factor of 1.2 of a crossing."""
    return np.less_equal(np.abs(np.log(P / threshold)), np.log(WINDOW))


def _means(y: Array) -> Array:
    """Return means over data sets, NaN where there are none."""
    there = np.isfinite(y)
    count = there.sum(0)
    return np.where(count > 0, np.where(there, y, 0.0).sum(0) / np.maximum(count, 1), np.nan)
