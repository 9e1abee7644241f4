"""Where two minima on a curve of stationary points have the same action: between two folds, near or far from a cusp.

Far from a cusp the actions of both minima are compared. Next to one their difference, of fourth order in the distance
of the folds, and even the width of the window in P, of third order, sink below rounding. There the curve is written as

    d ln P/dx = (x² − h²) k(x),     x = u − (middle of the folds),

with the folds at x = ±h (they are known well, being zeros of a curvature) and a smooth k(x), fitted over a stretch
much longer than h. Everything else then follows by integrating polynomials: F of a minimum changes along the curve by
∫ (∂S/∂ln P) d ln P, so that equal actions mean equal areas (Maxwell's construction).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.optimize import brentq

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Coarse
from phasekit.theory.transitions.curve import StationaryCurves

_NARROW = 0.02  # of u: folds that are closer are treated as a cusp
_STRETCH = 0.05  # of u: half the length over which k(x) is fitted
_NODES, _DEGREE = 24, 8
_COARSELY = 1e-9  # relative precision of roots where the action isn't exact to rounding
_LOWER, _SADDLE, _UPPER = range(3)  # the stationary points between the spinodals
_TOWARDS_KINK = 10.0  # saddle points on the way into a kink are searched up to this multiple of the last node
_INSIDE = 1e-9  # of the window: the search for equal actions keeps this far from its ends, where a minimum vanishes


class Coexistence(NamedTuple):
    """Two minima with the same action, one row per model.

    Attributes
    ----------
    log_P : ln P*
    log_window : ln P at the lower and upper spinodal
    low, saddle, high : path coordinates of both minima and of the saddle point between them
    barrier : action of the saddle point above the minima; NaN where a difference of actions gives it well
    """

    log_P: Array
    log_window: Array
    low: Array
    saddle: Array
    high: Array
    barrier: Array


def coexistence(curve: StationaryCurves, softest: Array) -> Coexistence:
    """Find where the minima on both sides of the folds of curves have the same action.

    Parameters
    ----------
    curve : StationaryCurves
    softest : array
        A path coordinate between its two folds. Where that is the last node the curve has one fold, and turns next in
        the kink, where all the weight is on the copy entry: that is the other minimum then.
    """
    last = curve.nodes[:, -1]
    relative = _precision(curve)
    low_fold = solve.root(curve.curvature, curve.nodes[:, 0], softest, curve.p, relative=relative)
    high_fold = solve.root(curve.curvature, softest, last, curve.p, relative=relative)
    into_kink = (softest == last) & np.isfinite(curve.end_of_rise())
    near = ~into_kink & (high_fold - low_fold < _NARROW * low_fold)
    far = np.flatnonzero(~near)
    parts = [(far, _far(curve[far], low_fold[far], np.where(into_kink, last, high_fold)[far], into_kink[far]))]
    for k in np.flatnonzero(near):
        row = np.array([k])
        parts.append((row, _near(curve[row], float(low_fold[k]), float(high_fold[k]))))
    result = Coexistence(*(np.full((curve.p.shape[0], *part.shape[1:]), np.nan) for part in parts[0][1]))
    for rows, part in parts:
        for whole, values in zip(result, part, strict=True):
            whole[rows] = values
    return result


def _precision(curve: StationaryCurves) -> float | None:
    return _COARSELY if isinstance(curve.action, Coarse) else None


def _far(curve: StationaryCurves, low_fold: Array, high_fold: Array, into_kink: NDArray[np.bool_]) -> Coexistence:
    action, p = curve.action, curve.p
    relative = _precision(curve)
    last = curve.nodes[:, -1] * np.where(into_kink, _TOWARDS_KINK, 1.0)
    lower = np.log(np.where(into_kink, curve.end_of_rise(), curve.at(high_fold, p).P))
    # The lower minimum itself may begin later, where the stretch of the curve does.
    lower = np.where(curve.begin > 0, np.maximum(lower, np.log(curve.at(curve.begin, p).P)), lower)
    log_window = np.stack([lower, np.log(curve.at(low_fold, p).P)], axis=-1)

    def stationary(there: Parameters, ends: tuple[Array, ...], which: int) -> Array:
        """Return the lower minimum (0), the saddle point (1) or the upper minimum (2) between the spinodals."""
        *folds, in_kink = ends
        root = solve.root(
            lambda x, q: action.profile(x, q).slope, folds[which], folds[which + 1], there, relative=relative
        )
        return np.where(in_kink > 0, np.inf, root) if which == _UPPER else root

    def advantage(log_P: Array, p: Parameters, *ends: Array) -> Array:
        there = p.replace(P=np.exp(log_P))
        low, high = (stationary(there, ends, which) for which in (_LOWER, _UPPER))
        low_value, high_value = (action.jet(action.profile(u, there).points, there).value for u in (low, high))
        return high_value - low_value

    ends: tuple[Array, ...] = (curve.begin, low_fold, high_fold, last, into_kink.astype(float))
    # If data are scarce the upper branch leaves the nodes (g → 1) before the upper spinodal, but long after P*.
    upper = np.where(into_kink, log_window[:, 1], np.minimum(log_window[:, 1], np.log(curve.at(last, p).P)))
    inside = _INSIDE * (upper - lower)
    log_P = solve.root(advantage, lower + inside, upper - inside, p, *ends, relative=relative)
    there = p.replace(P=np.exp(log_P))
    low, saddle, high = (stationary(there, ends, which) for which in (_LOWER, _SADDLE, _UPPER))
    return Coexistence(log_P, log_window, low, saddle, high, np.full(log_P.shape, np.nan))


def _near(curve: StationaryCurves, low_fold: float, high_fold: float) -> Coexistence:
    """Find it next to a cusp, for one model, in units ξ = x/h: ln P = ln P(0) + h³ Y(ξ), ∂S/∂ln P = … + h W(ξ)."""
    middle, h = (low_fold + high_fold) / 2, max((high_fold - low_fold) / 2, np.finfo(float).eps * low_fold)
    reach = max(4 * h, _STRETCH * middle)
    x = reach * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    there = curve.at(middle + np.array([0.0, *x]), curve.p)
    log_P = np.log(there.P)
    action = curve.action
    weight = there.P * action.loss(curve.point(middle + np.array([0.0, *x]), there), there) / (2 * there.kappa)

    xi, powers = x / reach, np.arange(_DEGREE)
    basis = xi[:, None] ** (powers + 3) / (powers + 3) - (h / reach) ** 2 * xi[:, None] ** (powers + 1) / (powers + 1)
    k = np.linalg.lstsq(basis, log_P[1:] - log_P[0])[0] / reach**3
    w = np.linalg.lstsq(xi[:, None] ** (powers + 1), weight[1:] - weight[0])[0] / reach
    shrink = (h / reach) ** powers
    slope = Polynomial([-1, 0, 1]) * Polynomial(k * shrink)
    Y, area = slope.integ(), (Polynomial([0, *(w * shrink)]) * slope).integ()

    def places(level: float) -> tuple[float, float, float]:
        first, second, third = (brentq(Y - level, *ends, xtol=1e-15) for ends in ((-4, -1), (-1, 1), (1, 4)))
        return first, second, third

    def advantage(level: float) -> float:
        first, _, third = places(level)
        return float(area(third) - area(first))

    bottom, top = float(Y(1)), float(Y(-1))
    inside = _INSIDE * (top - bottom)
    level = float(brentq(advantage, bottom + inside, top - inside, xtol=1e-15 * (top - bottom)))
    low, saddle, high = places(level)
    return Coexistence(
        log_P=log_P[0] + h**3 * np.array([level]),
        log_window=log_P[0] + h**3 * np.array([[bottom, top]]),
        low=np.array([middle + h * low]),
        saddle=np.array([middle + h * saddle]),
        high=np.array([middle + h * high]),
        barrier=h**4 * np.array([float(area(saddle) - area(low))]),
    )
