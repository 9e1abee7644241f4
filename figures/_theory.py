"""Lines of the theory against P: the minima of linear attention, the folded curve of softmax attention."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from phasekit.model import Estimator, Model, Parameters
from phasekit.theory import solve
from phasekit.theory.action.softmax import SoftmaxMap
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Transitions
from phasekit.theory.transitions.table import parameters_without_P

_NODES = 500
_LOG_RANGE = 40.0
#: aG in the middle of its rise.
MIDDLE = 0.1


def minima_rows(model: Model, P: ArrayLike) -> pd.DataFrame:
    """Return all minima against P, one row each: branch "global" (lowest action) or "metastable"."""
    minima = find_minima(model.grid(P=P))
    columns = {
        "P": np.broadcast_to(np.asarray(P, dtype=float)[:, None], minima.action.shape),
        "branch": np.broadcast_to(np.arange(minima.action.shape[1]), minima.action.shape),
        "action": minima.action,
        **minima.order_parameters,
        "loss": minima.loss,
        "copying_share": minima.averages["g"] ** 2 / np.where(minima.averages["q"] > 0, minima.averages["q"], np.nan),
    }
    rows = pd.DataFrame({name: values.ravel() for name, values in columns.items()})[minima.converged.ravel()]
    rows["branch"] = np.where(rows["branch"] == 0, "global", "metastable")
    return rows.sort_values(["branch", "P"], ignore_index=True)


def stationary_curve(found: Transitions, largest_P: float) -> pd.DataFrame:
    """Return the stationary points of softmax attention along their curve P(gap): minima and saddle points.

    Every gap is stationary at exactly one P, so the curve is followed through its folds; ``branch`` is "global" or
    "metastable" for minima, by their action, and "saddle" between the folds. ``piece`` numbers the stretches of one
    branch, each of which is one line of a picture.
    """
    action, model = SoftmaxMap(), found.model
    p = parameters_without_P(model).ravel()
    widest = 3 * np.log(model.L) + 5
    at_jump = find_minima(model.at(P=found.values["P_star"])).coordinates["gap"] if found.order == "first" else []
    gaps = np.unique([*np.linspace(0.0, widest, _NODES + 1)[1:], *np.geomspace(1e-3, widest, _NODES), *at_jump])

    P = stationary_P(p, gaps)
    there = p.replace(P=P)
    z = action.profile(gaps, there).points
    pooling, copying = action.order(z, there)
    names = action.order_parameters
    curve = pd.DataFrame(
        {
            "P": P,
            "gap": gaps,
            "action": action.jet(z, there).value,
            names[0]: pooling,
            names[1]: copying,
            "loss": action.loss(z, there),
        }
    )
    stable = action.curvatures(z, there)[:, 0] > 0
    if found.order == "first":
        past_the_saddle = np.cumsum(~stable) > 0
        above = found.values["P_star"] <= P
        lowest = np.where(past_the_saddle, above, ~above)
    else:
        lowest = stable
    curve["branch"] = np.where(~stable, "saddle", np.where(lowest, "global", "metastable"))
    curve["piece"] = (curve["branch"] != curve["branch"].shift()).cumsum()
    return curve[curve["P"] <= largest_P].reset_index(drop=True)


def stationary_P(p: Parameters, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the P at which a gap of softmax attention is stationary; ``p`` and ``gaps`` broadcast, P is ignored."""
    action = SoftmaxMap()

    def slope(log_P: NDArray[np.float64], p: Parameters, gap: NDArray[np.float64]) -> NDArray[np.float64]:
        return action.profile(gap, p.replace(P=np.exp(log_P))).slope

    shape = np.broadcast_shapes(p.shape, gaps.shape)
    return np.exp(solve.root(slope, np.full(shape, -_LOG_RANGE), np.full(shape, _LOG_RANGE), p, gaps))


def pieces(curve: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a curve into lines: each piece's branch and its rows, joined to the first row of the next piece."""
    numbers = sorted(curve["piece"].unique())
    lines = []
    for number in numbers:
        own = curve[curve["piece"] == number]
        lines.append((str(own["branch"].iloc[0]), pd.concat([own, curve[curve["piece"] == number + 1].head(1)])))
    return lines


def passing(model: Model, estimator: Estimator = "posterior") -> float:
    """Return the P at which aG of the lowest branch passes :data:`MIDDLE`: P* where it jumps over it."""

    def above(log_P: float) -> float:
        found = find_minima(model.at(P=float(np.exp(log_P))), estimator)
        return float(found.order_parameters["aG"][0]) - MIDDLE

    low = high = np.log(2 * model.L)  # far too small; far too large a P can be beyond the theory's range
    while above(high) < 0:
        low, high = high, high + 0.5
    return float(np.exp(brentq(above, low, high, xtol=2e-3)))
