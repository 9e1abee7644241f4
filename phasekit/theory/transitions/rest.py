"""Jumps from a state that is stationary at every P, because even attention tells nothing of what is asked for.

The minima that follow such a state lie on a curve P(u) that leaves it where it loses its stability, as saddle points,
and turns into minima at its first fold. So it is in induction heads, where both layers need each other, and in one head
whose sequences hold the whole vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array
from phasekit.theory.action.two_level import TwoLevelMap
from phasekit.theory.transitions.curve import StationaryCurves

_NODES = 400
_MOST_DATA = 1e9  # of t: as good as infinitely many
_BISECTIONS = 50


def reached(curve: StationaryCurves) -> StationaryCurves:
    """Return curves up to where more data change nothing.

    Where attention is known from what it leaves out as well, the data's force ends: no P reaches odds beyond.
    """
    p, strength = curve.p, curve.action.balancing_strength
    with np.errstate(invalid="ignore"):  # beyond the end
        within = strength(curve.nodes, p.expand()) < _MOST_DATA
        k, rows = within.argmin(axis=1) - 1, np.arange(p.shape[0])
        low, high = curve.nodes[rows, np.maximum(k, 0)], curve.nodes[rows, np.maximum(k, 0) + 1]
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            inside = strength(middle, p) < _MOST_DATA
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    last = np.where(within.all(axis=1), curve.nodes[:, -1], np.where(k >= 0, low, np.nan))
    shares = np.arange(1, _NODES + 1) / _NODES
    return StationaryCurves(curve.action, p, last[:, None] * shares)


def first_fold(curve: StationaryCurves) -> Array:
    """Return where the saddle points that leave the unstructured state turn into minima; 0 if they are minima at once.

    Just beyond the state the curvature is negative, of the order of the distance: it is never looked at there.
    """
    values = curve.curvature(curve.nodes, curve.p.expand())
    rises = (values[:, :-1] < 0) & (values[:, 1:] >= 0)
    k, rows = rises.argmax(axis=1), np.arange(values.shape[0])
    found = solve.root(curve.curvature, curve.nodes[rows, k], curve.nodes[rows, k + 1], curve.p)
    return np.where(rises.any(axis=1), found, np.where(values[:, 0] >= 0, 0.0, np.nan))


def beyond_fold(curve: StationaryCurves, first: Array) -> StationaryCurves:
    """Return the rest of the curves, from a little beyond the first fold."""
    last = curve.nodes[:, -1]
    shares = np.linspace(1e-6, 1.0, _NODES)
    return StationaryCurves(curve.action, curve.p, first[:, None] + (last - first)[:, None] * shares, first)


def interior_lowest(curve: StationaryCurves) -> tuple[Array, Array]:
    """Return position and value of the lowest dip of the curvature inside the nodes; NaN without any."""
    values = curve.curvature(curve.nodes, curve.p.expand())
    inner = values[:, 1:-1]
    dips = (inner <= values[:, :-2]) & (inner < values[:, 2:])
    k = np.where(dips, inner, np.inf).argmin(axis=1) + 1
    rows, some = np.arange(values.shape[0]), dips.any(axis=1)
    at, value = np.full(rows.size, np.nan), np.full(rows.size, np.inf)
    bracket = tuple(curve.nodes[rows[some], k[some] + shift] for shift in (-1, 0, 1))
    at[some], value[some] = solve.minimum(curve.curvature, bracket, curve.p[np.flatnonzero(some)])
    return at, value


def _advantage(curve: StationaryCurves, u: Array, p: Parameters) -> Array:
    """Return the action at ``u``, at its own P, above that of the unstructured state."""
    action, there = curve.action, curve.at(u, p)
    assert isinstance(action, TwoLevelMap)
    return action.jet(curve.point(u, there), there).value - action.unstructured(there)[0]


def jump_from_rest(curve: StationaryCurves, first: Array, start: Array, folds: Array, end: Array) -> dict[str, Array]:
    """Describe the jump from the unstructured state, which is a minimum up to ``end``, to the minima from ``start`` on.

    Saddle points lie on the way up to the ``first`` fold, and between the two later ``folds``: a jump of both layers
    of an induction head may have to pass either, or both.
    """
    action, p, last = curve.action, curve.p, curve.nodes[:, -1]
    assert isinstance(action, TwoLevelMap)

    def advantage(u: Array, p: Parameters) -> Array:
        return _advantage(curve, u, p)

    apart = start < folds[:, 0]  # the minimum that follows ends where the curve folds again
    place = solve.root(advantage, start * (1 + 1e-12), np.where(apart, folds[:, 0], last), p)
    there = curve.at(place, p)
    nothing = tuple(np.zeros(p.shape) for _ in action.coordinates)

    def height(low: Array, high: Array, rows: NDArray[np.int64]) -> Array:
        saddle = solve.root(lambda u, q, x: np.log(curve.at(u, q).P) - x, low, high, p[rows], np.log(there.P[rows]))
        return action.jet(curve.point(saddle, there[rows]), there[rows]).value

    floor = action.unstructured(there)[0]
    every, again = np.arange(p.shape[0]), np.flatnonzero(start == folds[:, 1])
    later = np.full(p.shape, np.nan)
    later[again] = height(folds[again, 0], folds[again, 1], again)
    return {
        "place": place,
        "P_star": there.P,
        "spinodals": np.stack([curve.at(start, p).P, end], axis=-1),
        "barrier": np.fmax(height(1e-9 * first, first, every), later) - floor,
        "action": floor,
        **sides(action, nothing, curve.point(place, there), there),
    }


def sides(action: TwoLevelMap, low: Any, high: Any, p: Parameters) -> dict[str, Array]:
    """Return loss, share of copying and order parameters of two minima, in pairs."""
    found: dict[str, list[Array]] = {"loss": [], "copying_share": [], **{name: [] for name in action.order_parameters}}
    for z in (low, high):
        found["loss"].append(action.loss(z, p))
        found["copying_share"].append(action.copying_share(z, p))
        for name, values in zip(action.order_parameters, action.order(z, p), strict=True):
            found[name].append(values)
    return {name: np.stack(np.broadcast_arrays(*pair), axis=-1) for name, pair in found.items()}
