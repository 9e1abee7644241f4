"""All stationary points of an action that may be minima: along its path, at its origin, and isolated ones.

The action's one-dimensional profile (:class:`.base.Profiled`) is evaluated at the nodes of a path that covers every
minimum. A minimum is bracketed where the slope turns from negative to positive, or where it comes close to zero and an
extremum between the nodes reaches it (a pair of minimum and saddle point, as near a spinodal). Brackets are closed by
root-finding. They don't overlap, and what Newton's method finds outside of its bracket doesn't count: no minimum is
found twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Action, Array, Coarse, Isolated, Point, Profiled, StationaryPoints
from phasekit.threads import allowed_threads

_CHUNK = 512  # models per block: the block's arrays then stay in a core's cache
_NEWTON_STEPS = 12


class Brackets(NamedTuple):
    """Intervals of the path coordinate that hold one minimum each, and the number of the model that each belongs to."""

    owner: NDArray[np.int64]
    low: Array
    high: Array


class Bends(NamedTuple):
    """Candidates for a pair of minimum and saddle point that falls between two nodes: the slope's size has a minimum.

    ``owner`` numbers the models; ``left``, ``middle`` and ``right`` are nodes, ``sign`` is that of the slope at them.
    """

    owner: NDArray[np.int64]
    left: Array
    middle: Array
    right: Array
    sign: Array


def stationary_points(action: Action, p: Parameters) -> StationaryPoints:
    """Return all minima for flat parameters, and what else is stationary at the origin and off the path."""
    found = [StationaryPoints(np.empty(0, dtype=np.int64), tuple(np.empty(0) for _ in action.coordinates), np.empty(0))]
    if isinstance(action, Profiled):
        found.append(on_path(action, p))
    if action.symmetric:
        nothing = tuple(np.zeros(p.shape) for _ in action.coordinates)
        found.append(StationaryPoints(np.arange(p.shape[0]), nothing, np.full(p.shape, np.nan)))
    if isinstance(action, Isolated):
        found.append(action.isolated_stationary_points(p))
    owners, points, starts = zip(*found, strict=True)
    joined = tuple(np.concatenate(coordinate) for coordinate in zip(*points, strict=True))
    return StationaryPoints(np.concatenate(owners), joined, np.concatenate(starts))


def on_path(action: Profiled, p: Parameters) -> StationaryPoints:
    """Return the minima of the profile, for flat parameters."""
    owner, low, high = _brackets(action, p)
    relative = 1e-8 if isinstance(action, Coarse) else 1e-14
    u = solve.root(lambda u, q: action.profile(u, q).slope, low, high, p[owner], relative=relative)
    z = action.profile(u, p[owner]).points
    if isinstance(action, Coarse):
        finished = polish(action, z, p[owner])
        step = action.offset(finished, u, p[owner])
        near = 1e-6 * (high - low)  # a root at an end of its bracket may move by rounding
        inside = (step >= low - u - near) & (step <= high - u + near)
        z = tuple(np.where(inside, new, old) for new, old in zip(finished, z, strict=True))
    if action.symmetric:  # of a pair, the point with a positive first coordinate
        z = tuple(np.where(z[0] < 0, -x, x) for x in z)
    return StationaryPoints(owner, z, (low + high) / 2)


def _brackets(action: Profiled, p: Parameters) -> Brackets:
    blocks = list(_blocks(p.shape[0]))
    with ThreadPoolExecutor(
        min(len(blocks), allowed_threads() or cpu_count())
    ) as pool:  # NumPy lets go of the interpreter while it works
        scans = list(pool.map(lambda block: _scan(action, p[block], block.start), blocks))
    turns, bends = zip(*scans, strict=True)
    turn = Brackets(*(np.concatenate(parts) for parts in zip(*turns, strict=True)))
    bend = Bends(*(np.concatenate(parts) for parts in zip(*bends, strict=True)))

    def towards_zero(u: Array, q: Parameters, sign: Array) -> Array:
        return sign * action.profile(u, q).slope

    extremum, nearest = solve.minimum(towards_zero, (bend.left, bend.middle, bend.right), p[bend.owner], bend.sign)
    crosses = nearest < 0
    # A slope that is positive around dips below zero: the minimum is where it comes back. One that is negative around
    # rises above zero: the minimum is where it first gets there.
    dips = (bend.sign > 0)[crosses]
    return Brackets(
        np.concatenate([turn.owner, bend.owner[crosses]]),
        np.concatenate([turn.low, np.where(dips, extremum[crosses], bend.left[crosses])]),
        np.concatenate([turn.high, np.where(dips, bend.right[crosses], extremum[crosses])]),
    )


def _scan(action: Profiled, p: Parameters, offset: int) -> tuple[Brackets, Bends]:
    """Evaluate the slope at the nodes of a block of models, the first of which is number ``offset``."""
    nodes = action.path(p, action.cells)
    searched = np.flatnonzero(nodes[:, -1] > nodes[:, 0])
    nodes = nodes[searched]
    slope = action.profile(nodes, p[searched].expand()).slope
    positive = slope >= 0
    row, k = np.nonzero(~positive[:, :-1] & positive[:, 1:])
    turns = Brackets(searched[row] + offset, nodes[row, k], nodes[row, k + 1])
    distance = np.abs(slope)
    near = (distance[:, 1:-1] <= distance[:, :-2]) & (distance[:, 1:-1] <= distance[:, 2:])
    alike = (positive[:, 1:-1] == positive[:, :-2]) & (positive[:, 1:-1] == positive[:, 2:])
    row, k = np.nonzero(near & alike)
    sign = np.where(positive[row, k + 1], 1.0, -1.0)
    return turns, Bends(searched[row] + offset, nodes[row, k], nodes[row, k + 1], nodes[row, k + 2], sign)


def _blocks(size: int) -> Iterator[slice]:
    for first in range(0, size, _CHUNK):
        yield slice(first, min(first + _CHUNK, size))


def polish(action: Action, z: Point, p: Parameters) -> Point:
    """Take Newton steps in all coordinates as long as they shrink the gradient."""
    point = np.stack(z, axis=-1)
    jet = action.jet(z, p)
    gradient = jet.gradient
    size = np.linalg.norm(gradient, axis=-1)
    for _ in range(_NEWTON_STEPS):
        trial = point - _newton_step(jet.hessian, gradient)
        gradient_there = action.jet(tuple(np.moveaxis(trial, -1, 0)), p).gradient
        size_there = np.linalg.norm(gradient_there, axis=-1)
        better = size_there < size
        if not better.any():
            break
        point = np.where(better[:, None], trial, point)
        gradient = np.where(better[:, None], gradient_there, gradient)
        size = np.where(better, size_there, size)
        jet = action.jet(tuple(np.moveaxis(point, -1, 0)), p)
    return tuple(np.moveaxis(point, -1, 0))


def _newton_step(hessian: Array, gradient: Array) -> Array:
    """Solve for the Newton step of every point; no step where the Hessian is singular to rounding."""
    try:
        return np.asarray(np.linalg.solve(hessian, gradient[..., None])[..., 0])
    except np.linalg.LinAlgError:  # one singular matrix spoils the whole stack
        singular = np.linalg.slogdet(hessian)[0] == 0
        regular = np.where(singular[:, None, None], np.eye(hessian.shape[-1]), hessian)
        step = np.linalg.solve(regular, gradient[..., None])[..., 0]
        return np.where(singular[:, None], 0.0, step)
