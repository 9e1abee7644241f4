"""Lines of the theory against P: minima by branch, and the pieces of a folded curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from phasekit.drawing.plotting import Branch
from phasekit.model import Estimator, Model
from phasekit.theory.minima import find_minima

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
        "copying_share": np.where(minima.averages["q"] > 0, minima.copying_share, np.nan),
    }
    rows = pd.DataFrame({name: values.ravel() for name, values in columns.items()})[minima.converged.ravel()]
    rows["branch"] = np.where(rows["branch"] == 0, "global", "metastable")
    return rows.sort_values(["branch", "P"], ignore_index=True)


def pieces(curve: pd.DataFrame) -> list[tuple[Branch, pd.DataFrame]]:
    """Split a curve into lines: each piece's branch and its rows, joined to the first row of the next piece."""
    numbers = sorted(curve["piece"].unique())
    lines = []
    for number in numbers:
        own = curve[curve["piece"] == number]
        branch: Branch = own["branch"].iloc[0]
        lines.append((branch, pd.concat([own, curve[curve["piece"] == number + 1].head(1)])))
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
