"""Minima and saddle points of one model, continued in P through the folds of their curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasekit.errors import InputError
from phasekit.theory import solve
from phasekit.theory.action import action_for
from phasekit.theory.action.base import Array, Curved, Posterior
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.describe import Transitions
from phasekit.theory.transitions.table import parameters_without_P

if TYPE_CHECKING:
    import pandas as pd

_POINTS = 1000
_FIRST = 1e-3  # of the last node: where the curve begins


def stationary_curve(
    found: Transitions, between: tuple[float, float] = (0.0, np.inf), points: int = _POINTS
) -> pd.DataFrame:
    """Return the stationary points of a model along their curve P(u): all minima, and the saddle points between them.

    Every path coordinate u is stationary at exactly one P, so the curve is followed through its folds.

    Parameters
    ----------
    found : Transitions
    between : pair of float
        Only points whose P is in this range.
    points : int
        About how many; under the posterior each takes some hundredths of a second.

    Returns
    -------
    DataFrame, one row per point, in order of u
        ``P``; the action's coordinates; ``action``; both order parameters; ``loss``; ``coverage``; under the posterior
        ``variance``, that of the second order parameter (infinite at a fold); ``branch``: "global" or
        "metastable" for minima, by their action, and "saddle" between the folds; ``piece`` numbers the stretches of
        one branch. The curve ends where g > 0.99, or where a minimum enters a kink.

    Raises
    ------
    InputError
        If the stationary points aren't one curve (linear attention).
    """
    import pandas as pd

    action = action_for(found.model, found.estimator)
    if not isinstance(action, Curved):
        raise InputError("score", found.model.score.name, "has stationary points that aren't one curve in P")
    curve = StationaryCurves(action, parameters_without_P(found.model).ravel())
    u, jump = _coordinates(curve, found.threshold("P_star"), between, points)
    there = curve.at(u, curve.p)
    z = curve.point(u, there)
    table = {
        "P": there.P,
        **dict(zip(action.coordinates, action.physical(z, there), strict=True)),
        "action": action.jet(z, there).value,
        **dict(zip(action.order_parameters, action.order(z, there), strict=True)),
        "loss": action.loss(z, there),
        "coverage": action.coverage(z, there),
    }
    if isinstance(action, Posterior):
        table["variance"] = action.covariance(z, there).second
    stable = action.curvatures(z, there)[:, 0] > 0
    # Of two minima with the same action at P*, that with less copying is the lowest below it.
    lowest = stable if jump is None else (u < jump[0]) | (u >= jump[1])
    table["branch"] = np.where(~stable, "saddle", np.where(lowest, "global", "metastable"))
    rows = pd.DataFrame(table)
    rows["piece"] = (rows["branch"] != rows["branch"].shift()).cumsum()
    return rows


def _coordinates(
    curve: StationaryCurves, P_star: float | None, between: tuple[float, float], points: int
) -> tuple[Array, tuple[float, float] | None]:
    """Return path coordinates along the curve of one model, and those of both minima at P*, which are among them."""
    last = float(curve.nodes[0, -1])
    u = np.union1d(np.linspace(0.0, last, _POINTS // 2 + 1)[1:], np.geomspace(_FIRST * last, last, _POINTS // 2))
    P = curve.at(u, curve.p).P
    shown = u[(between[0] <= P) & (between[1] >= P)]
    if shown.size > points:
        shown = shown[np.linspace(0, shown.size - 1, points).round().astype(int)]
    if P_star is None:
        return shown, None
    beyond = P_star < P
    k = np.flatnonzero(beyond[1:] != beyond[:-1])
    at_jump = solve.root(lambda x, q: curve.at(x, q).P - P_star, u[k], u[k + 1], curve.p)
    return np.union1d(shown, at_jump), (float(at_jump[0]), float(at_jump[-1]))
