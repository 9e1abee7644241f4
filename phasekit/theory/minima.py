"""All local minima of the effective action, for one model or a whole grid of models at once.

The action's one-dimensional profile (see :mod:`phasekit.theory.action.base`) is evaluated at the nodes of a path that
covers every minimum. A minimum is bracketed where the slope turns from negative to positive, or where it comes close to
zero and an extremum between the nodes reaches it (a pair of minimum and saddle point, as near a spinodal).
Brackets are closed by root-finding, and Newton's method in all coordinates polishes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from phasekit.model import Estimator, Grid, Model, Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import Array, Covariance, Point

#: A minimum counts as converged if its ``gradient_norm`` (see :class:`Minima`) is at most this.
TOLERANCE = 1e-10
_CHUNK = 512  # models per block: the block's arrays then stay in a core's cache
_NEWTON_STEPS = 12


@dataclass(frozen=True)
class Minima:
    """All local minima found, lowest action first.

    Every array has the shape of the model (``()``) or grid, followed by one axis over branches; models with fewer
    branches than the most are padded with NaN (``converged`` with False).

    Attributes
    ----------
    models : Model or Grid
    estimator : "map" or "posterior"
    count : number of minima of each model
    action : S at the minimum
    coordinates, order_parameters, averages : name to values; averages are s, s2, g, q
    copying_share : g²/q of the pattern (without the posterior's noise)
    coverage : share of E‖A‖_F² that the two patterns explain, fluctuations along them included (so only as good as
        ``covariance``: too large close to P1 of linear attention); NaN where A is zero
    covariance : of the order parameters over the posterior around this minimum, to leading order (the inverse of the
        reduced action's Hessian), first and second in the order of ``order_parameters``; None for the map estimator
    loss : training loss per sequence, averaged over positions
    gradient_norm : ``‖∇S‖ / [max(1, ‖z‖) · max(1, stiffest)]`` in whitened coordinates z (in units of the prior's
        standard deviations), with the largest Hessian eigenvalue: rounding the coordinates alone gives about 1e-16
    curvatures : eigenvalues of the Hessian in whitened coordinates, ascending, on one more trailing axis
        (1: prior only, 0: spinodal)
    converged : whether ``gradient_norm`` is below :data:`TOLERANCE` and all curvatures are positive
    start : path coordinate (gap, or angle in radians) of the bracket's middle that led to the minimum; NaN for the
        origin, which needs no search
    caveat : where this theory is known to be approximate, in one sentence; None if it is not
    """

    models: Model | Grid
    estimator: Estimator
    count: NDArray[np.int64]
    action: Array
    coordinates: dict[str, Array]
    order_parameters: dict[str, Array]
    averages: dict[str, Array]
    copying_share: Array
    coverage: Array
    covariance: Covariance | None
    loss: Array
    gradient_norm: Array
    curvatures: Array
    converged: NDArray[np.bool_]
    start: Array
    caveat: str | None = None

    def branch(self, *index: int) -> dict[str, Any]:
        """Return one branch as plain JSON values; the last index counts branches."""
        return {
            "action": float(self.action[index]),
            "order_parameters": {name: float(values[index]) for name, values in self.order_parameters.items()},
            "loss": float(self.loss[index]),
            "converged": bool(self.converged[index]),
            "coordinates": {name: float(values[index]) for name, values in self.coordinates.items()},
            "averages": {name: float(values[index]) for name, values in self.averages.items()},
            "coverage": None if np.isnan(self.coverage[index]) else float(self.coverage[index]),
            **self._covariance(index),
            "gradient_norm": float(self.gradient_norm[index]),
            "curvatures": [float(value) for value in self.curvatures[index]],
            "start": None if np.isnan(self.start[index]) else float(self.start[index]),
        }

    def variance(self, name: str) -> Array | None:
        """Return the variance of an order parameter over the posterior; None for the map estimator."""
        if self.covariance is None:
            return None
        return self.covariance.second if name == list(self.order_parameters)[1] else self.covariance.first

    def _covariance(self, index: tuple[int, ...]) -> dict[str, Any]:
        if self.covariance is None:
            return {}
        first, second = self.order_parameters
        names = (f"{first} {first}", f"{first} {second}", f"{second} {second}")
        return {"covariance": {name: float(v[index]) for name, v in zip(names, self.covariance, strict=True)}}

    def describe(self) -> dict[str, Any]:
        """Return the minima of a single model as plain JSON values (the command line's contract)."""
        if not isinstance(self.models, Model):
            raise TypeError("only the minima of one model have a description; see to_dataset for a grid")
        branches = [self.branch(k) for k in range(int(self.count))]
        caveat = {} if self.caveat is None else {"caveat": self.caveat}
        model = self.models.describe()
        return {"model": model, "estimator": self.estimator, **caveat, "branches": branches, "global": 0}


def find_minima(models: Model | Grid, estimator: Estimator = "map") -> Minima:
    """Find all local minima of the effective action.

    Parameters
    ----------
    models : Model or Grid
        P must be given.
    estimator : "map" or "posterior"

    Raises
    ------
    InputError
        If P is missing, or there is no theory for the score and estimator.
    ArithmeticError
        If no minimum was found for some model: every action has one, so this is a failure of the search.
    """
    model = models if isinstance(models, Model) else models.base
    action = action_for(model, estimator)
    parameters = models.parameters()
    owner, z, start = minima_of(action, parameters.ravel())
    return _assemble(models, estimator, action, parameters, owner, z, start)


def minima_of(action: Action, p: Parameters) -> tuple[NDArray[np.int64], Point, Array]:
    """Return all local minima for flat parameters: the model each belongs to, whitened coordinates, and start."""
    owner, low, high = _brackets(action, p)
    u = solve.root(lambda u, q: action.profile(u, q).slope, low, high, p[owner], relative=1e-8)  # polished below
    start = (low + high) / 2
    z = action.profile(u, p[owner]).points
    if action.symmetric:
        origin = tuple(np.zeros(p.shape) for _ in z)
        stable = np.flatnonzero(action.curvatures(origin, p)[..., 0] > 0)
        owner = np.concatenate([owner, stable])
        start = np.concatenate([start, np.full(stable.size, np.nan)])
        z = tuple(np.concatenate([np.where(z[0] < 0, -x, x), np.zeros(stable.size)]) for x in z)
    off_path, points, starts = action.further(p)
    if off_path.size == 0:
        return owner, _polish(action, z, p[owner]), start
    owner, start = np.concatenate([owner, off_path]), np.concatenate([start, starts])
    z = _polish(action, tuple(np.concatenate(pair) for pair in zip(z, points, strict=True)), p[owner])
    stable = np.flatnonzero(action.curvatures(z, p[owner])[..., 0] > 0)
    return owner[stable], tuple(x[stable] for x in z), start[stable]


def _brackets(action: Action, p: Parameters) -> tuple[NDArray[np.int64], Array, Array]:
    """Return intervals of the path coordinate that hold one minimum each, and the model that each belongs to."""
    blocks = list(_blocks(p.shape[0]))
    with ThreadPoolExecutor(min(len(blocks), cpu_count())) as pool:  # NumPy lets go of the interpreter while it works
        scans = list(pool.map(lambda block: _scan(action, p[block], block.start), blocks))
    turns, bends = (
        tuple(np.concatenate(parts) for parts in zip(*kind, strict=True)) for kind in zip(*scans, strict=True)
    )
    owner, low, high = turns
    model, left, middle, right, sign = bends

    def towards_zero(u: Array, q: Parameters, sign: Array) -> Array:
        return sign * action.profile(u, q).slope

    extremum, nearest = solve.minimum(towards_zero, (left, middle, right), p[model], sign)
    crosses = nearest < 0
    # A slope that is positive around dips below zero: the minimum is where it comes back. One that is negative around
    # rises above zero: the minimum is where it first gets there.
    dips = (sign > 0)[crosses]
    return (
        np.concatenate([owner, model[crosses]]),
        np.concatenate([low, np.where(dips, extremum[crosses], left[crosses])]),
        np.concatenate([high, np.where(dips, right[crosses], extremum[crosses])]),
    )


def _scan(action: Action, p: Parameters, offset: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Evaluate the slope of the profile at the nodes of a block of models (the first of which is number ``offset``).

    Returns
    -------
    turns : model, left and right end of every cell in which the slope turns from negative to positive
    bends : model, left, middle and right node of every place where the slope comes closest to zero without reaching
        it, and its sign there; between the nodes it may reach zero
    """
    nodes = action.path(p, action.cells)
    searched = np.flatnonzero(nodes[:, -1] > nodes[:, 0])
    nodes = nodes[searched]
    slope = action.profile(nodes, p[searched].expand()).slope
    positive = slope >= 0
    row, k = np.nonzero(~positive[:, :-1] & positive[:, 1:])
    turns = (searched[row] + offset, nodes[row, k], nodes[row, k + 1])
    distance = np.abs(slope)
    near = (distance[:, 1:-1] <= distance[:, :-2]) & (distance[:, 1:-1] <= distance[:, 2:])
    alike = (positive[:, 1:-1] == positive[:, :-2]) & (positive[:, 1:-1] == positive[:, 2:])
    row, k = np.nonzero(near & alike)
    sign = np.where(positive[row, k + 1], 1.0, -1.0)
    bends = (searched[row] + offset, nodes[row, k], nodes[row, k + 1], nodes[row, k + 2], sign)
    return turns, bends


def _blocks(size: int) -> Iterator[slice]:
    for first in range(0, size, _CHUNK):
        yield slice(first, min(first + _CHUNK, size))


def _polish(action: Action, z: Point, p: Parameters) -> Point:
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


def _assemble(
    models: Model | Grid,
    estimator: Estimator,
    action: Action,
    parameters: Parameters,
    owner: NDArray[np.int64],
    z: Point,
    start: Array,
) -> Minima:
    p = parameters.ravel()[owner]
    jet = action.jet(z, p)
    eigenvalues = np.linalg.eigvalsh(jet.hessian)
    size = np.sqrt(sum(x**2 for x in z))
    scale = np.maximum(1.0, size) * np.maximum(1.0, eigenvalues[:, -1])
    gradient_norm = np.linalg.norm(jet.gradient, axis=-1) / scale
    converged = (gradient_norm <= TOLERANCE) & (eigenvalues[:, 0] > 0)

    # Lay the ragged list out as one row of branches per model, lowest action first.
    order = np.lexsort((jet.value, owner))
    rows = owner[order]
    models_count = int(np.prod(parameters.shape, dtype=int))
    count = np.bincount(rows, minlength=models_count)
    rank = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count)
    if not count.all():
        lost = models if isinstance(models, Model) else models.base
        raise ArithmeticError(
            f"{int((count == 0).sum())} of {models_count} models have no minimum that was found ({lost!r})"
        )
    width = int(count.max(initial=0))

    def lay(values: NDArray[Any], missing: Any = np.nan) -> NDArray[Any]:
        table = np.full((models_count, width, *values.shape[1:]), missing, dtype=values.dtype)
        table[rows, rank] = values[order]
        return table.reshape(*parameters.shape, width, *values.shape[1:])

    covariance = action.covariance(z, p)
    return Minima(
        models=models,
        estimator=estimator,
        count=count.reshape(parameters.shape),
        action=lay(jet.value),
        coordinates={n: lay(v) for n, v in zip(action.coordinates, action.physical(z, p), strict=True)},
        order_parameters={n: lay(v) for n, v in zip(action.order_parameters, action.order(z, p), strict=True)},
        averages={n: lay(v) for n, v in action.averages(z, p)._asdict().items()},
        copying_share=lay(action.copying_share(z, p)),
        coverage=lay(action.coverage(z, p)),
        covariance=None
        if covariance is None
        else Covariance(*(lay(np.broadcast_to(v, rows.shape)) for v in covariance)),
        loss=lay(action.loss(z, p)),
        gradient_norm=lay(gradient_norm),
        curvatures=lay(eigenvalues),
        converged=lay(converged, False),
        start=lay(start),
        caveat=action.caveat(parameters),
    )
