"""Transitions of an action whose stationary points form one curve: first order where the curve folds, else smooth.

At a given path coordinate u the force of the data grows with P, so exactly one P makes u stationary: the stationary
points are a curve P(u). It folds where dP/du = 0, which is where a Hessian eigenvalue vanishes: the spinodals. Two
folds bound a window of two minima, however narrow; without folds the copy grows smoothly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasekit import solve
from phasekit.action import Action
from phasekit.action.base import Array, Point
from phasekit.minima import curvatures
from phasekit.model import Parameters

_LOG_RANGE = 80.0  # half the range of ln P that is searched around ln(κV/σ_w²)


def fold_transitions(action: Action, p: Parameters) -> dict[str, Array]:
    """Locate and describe the transition of every model; ``p`` is flat and its P is ignored.

    Returns
    -------
    dict of arrays, one row per model, NaN where a quantity doesn't exist
        ``softest``: lowest Hessian eigenvalue along the curve, whitened (negative if and only if the curve folds);
        ``P_x``: steepest point of a smooth crossover, the largest d ln g/d ln P (g the copy overlap);
        ``P_star``, ``spinodals`` (lower, upper), ``barrier`` (from the minima to the saddle point between them, at
        P*), and ``action``, ``loss`` and both order parameters on the (low, high) branch at P*; for the posterior also
        ``P_star_error`` (standard error of the row averages) and ``P_star_with_fluctuations`` (where the branches are
        equal with the Gaussian fluctuations around each).
    """
    curve = _Curve(action, p)
    u, softest = curve.softest()
    folded = np.flatnonzero(softest < 0)
    smooth = np.flatnonzero(softest >= 0)
    parts = [(smooth, {"P_x": curve[smooth].steepest()}), (folded, _first_order(curve[folded], u[folded]))]
    result: dict[str, Array] = {"softest": softest}
    for rows, part in parts:
        for name, values in part.items():
            result[name] = np.full((*p.shape, *values.shape[1:]), np.nan)
            result[name][rows] = values
    return result


class _Curve:
    """The curves of stationary points of several models, with nodes along each."""

    def __init__(self, action: Action, p: Parameters, nodes: Array | None = None) -> None:
        self.action, self.p = action, p
        self.nodes = action.curve_nodes(p) if nodes is None else nodes

    def __getitem__(self, rows: NDArray[np.int64]) -> _Curve:
        return _Curve(self.action, self.p[rows], self.nodes[rows])

    def at(self, u: Array, p: Parameters) -> Parameters:
        """Return the parameters with the P that makes ``u`` stationary."""
        strength = self.action.balancing_strength(u, p)
        if strength is not None:
            return p.replace(P=strength * p.kappa * p.V / p.sigma_w**2)
        centre = np.log(p.kappa * p.V / p.sigma_w**2) + np.zeros(np.shape(u))
        log_P = solve.root(self._slope_at_log_P, centre - _LOG_RANGE, centre + _LOG_RANGE, p, u)
        return p.replace(P=np.exp(log_P))

    def _slope_at_log_P(self, log_P: Array, p: Parameters, u: Array) -> Array:
        return self.action.profile(u, p.replace(P=np.exp(log_P))).slope

    def point(self, u: Array, p: Parameters) -> Point:
        return self.action.profile(u, p).points

    def curvature(self, u: Array, p: Parameters) -> Array:
        """Return the lowest Hessian eigenvalue at the stationary point ``u``."""
        there = self.at(u, p)
        return curvatures(self.action, self.point(u, there), there)[..., 0]

    def flatness(self, u: Array, p: Parameters) -> Array:
        """Return d ln P/d ln g at the stationary point ``u``, by a central difference."""
        ends = []
        for x in (u * (1 - 1e-4), u * (1 + 1e-4)):
            there = self.at(x, p)
            ends.append((np.log(there.P), np.log(self.action.averages(self.point(x, there), there).g)))
        (log_P, log_g), (log_P_after, log_g_after) = ends
        return np.asarray((log_P_after - log_P) / (log_g_after - log_g))

    def softest(self) -> tuple[Array, Array]:
        """Return where the lowest Hessian eigenvalue is smallest, and its value there."""
        return self._lowest(self.curvature)

    def steepest(self) -> Array:
        """Return the P at which ln g rises fastest with ln P; NaN if that is at an end of the curve."""
        u, _ = self._lowest(self.flatness)
        inside = (u > self.nodes[:, 0]) & (u < self.nodes[:, -1])
        return np.where(inside, self.at(u, self.p).P, np.nan)

    def _lowest(self, function: solve.Function) -> tuple[Array, Array]:
        """Return position and value of the smallest value of a function along the curve."""
        values = function(self.nodes, self.p.expand())
        rows, k = np.arange(values.shape[0]), values.argmin(axis=1)
        at_end = (k == 0) | (k == values.shape[1] - 1)
        inner = np.clip(k, 1, values.shape[1] - 2)
        x, value = solve.minimum(function, tuple(self.nodes[rows, inner + shift] for shift in (-1, 0, 1)), self.p)
        return np.where(at_end, self.nodes[rows, k], x), np.where(at_end, values[rows, k], value)


def _first_order(curve: _Curve, u: Array) -> dict[str, Array]:
    action, p = curve.action, curve.p
    low_fold = solve.root(curve.curvature, curve.nodes[:, 0], u, p)
    high_fold = solve.root(curve.curvature, u, curve.nodes[:, -1], p)
    spinodals = np.stack([curve.at(high_fold, p).P, curve.at(low_fold, p).P], axis=-1)

    def branches(log_P: Array, p: Parameters, *folds: Array) -> tuple[Parameters, list[Point]]:
        """Return the low minimum, the saddle point and the high minimum between the spinodals."""
        first, low_fold, high_fold, last = folds
        there = p.replace(P=np.exp(log_P))
        ends = [(first, low_fold), (low_fold, high_fold), (high_fold, last)]
        roots = [solve.root(lambda x, q: action.profile(x, q).slope, *pair, there) for pair in ends]
        return there, [action.profile(x, there).points for x in roots]

    def advantage(log_P: Array, p: Parameters, *folds: Array) -> Array:
        there, (low, _, high) = branches(log_P, p, *folds)
        return action.jet(high, there).value - action.jet(low, there).value

    folds = (np.zeros(u.shape), low_fold, high_fold, curve.nodes[:, -1])
    inside = 1e-9 * np.log(spinodals[:, 1] / spinodals[:, 0])
    log_P = solve.root(advantage, np.log(spinodals[:, 0]) + inside, np.log(spinodals[:, 1]) - inside, p, *folds)
    there, points = branches(log_P, p, *folds)
    low, saddle, high = points
    pair = [low, high]
    result = {
        "P_star": np.exp(log_P),
        "spinodals": spinodals,
        "barrier": action.jet(saddle, there).value - action.jet(low, there).value,
        "action": np.stack([action.jet(z, there).value for z in pair], axis=-1),
        "loss": np.stack([action.loss(z, there) for z in pair], axis=-1),
    }
    # F₁ − F₂ changes with P at the rate (loss₁ − loss₂)/(2κ): the envelope theorem.
    rate = (result["loss"][..., 1] - result["loss"][..., 0]) / (2 * there.kappa)
    error, shifts = action.uncertainty(low, high, there), [action.fluctuation(z, there) for z in pair]
    if error is not None:
        result["P_star_error"] = np.abs(error / rate)
    if shifts[0] is not None and shifts[1] is not None:
        result["P_star_with_fluctuations"] = there.P - (shifts[1] - shifts[0]) / rate
    orders = [action.order(z, there) for z in pair]
    for k, name in enumerate(action.order_parameters):
        result[name] = np.stack([np.broadcast_to(order[k], p.shape) for order in orders], axis=-1)
    return result
