"""Where theory's lowest branch passes the middle of its rise."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from phasekit.model import Estimator, Model
from phasekit.theory.minima import find_minima

#: aG in the middle of its rise.
MIDDLE = 0.1


def passing(model: Model, estimator: Estimator = "posterior") -> float:
    """Return the P at which aG of the lowest branch passes :data:`MIDDLE`: P* where it jumps over it."""

    def above(log_P: float) -> float:
        found = find_minima(model.at(P=float(np.exp(log_P))), estimator)
        return float(found.order_parameters["aG"][0]) - MIDDLE

    low = high = np.log(2 * model.L)  # far too small; far too large a P can be beyond the theory's range
    while above(high) < 0:
        low, high = high, high + 0.5
    return float(np.exp(brentq(above, low, high, xtol=2e-3)))
