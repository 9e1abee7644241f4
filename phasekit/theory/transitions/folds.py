"""Transitions of an action whose stationary points form one curve: first order where the curve folds, else smooth.

At a given path coordinate u the force of the data grows with P, so exactly one P makes u stationary: the stationary
points are a curve P(u). It folds where dP/du = 0, which is where a Hessian eigenvalue vanishes: the spinodals. Two
folds bound a window of two minima, however narrow; without folds the copy grows smoothly.
"""

from __future__ import annotations

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.transitions.curve import Curve


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
    curve = Curve(action, p)
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


def _first_order(curve: Curve, u: Array) -> dict[str, Array]:
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
    # If data are scarce the upper branch leaves the nodes (g → 1) before the upper spinodal, but long after P*.
    window = np.log([spinodals[:, 0], np.minimum(spinodals[:, 1], curve.at(curve.nodes[:, -1], p).P)])
    inside = 1e-9 * (window[1] - window[0])
    log_P = solve.root(advantage, window[0] + inside, window[1] - inside, p, *folds)
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
