"""The scaling laws that figures and tables quote: which threshold, along which axis, for which model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from phasekit.model import Model, Parameters
from phasekit.theory.closed_forms import softmax_jump
from phasekit.theory.scaling import Exponent, scaling_law
from phasekit.theory.transitions.table import parameters_without_P


@dataclass(frozen=True)
class Law:
    """A threshold followed along an axis, and the exponent that the copy-head paper claims (None: not a power)."""

    quantity: str
    axis: str
    model: Model
    first: float
    last: float
    claimed: float | None

    def compute(self, points: int) -> xr.Dataset:
        """Return the scaling law at about so many values of the axis (see :func:`phasekit.scaling_law`)."""
        values = np.unique(np.geomspace(self.first, self.last, points).round())
        return scaling_law(self.model, self.quantity, self.axis, values)


#: P₁ ~ V² needs V ≪ L, hence the long context; P₂ needs L ≫ V likewise. P* at fixed V.
ONSET = Law("P1", "V", Model(V=2, L=10**7, score="linear", inputs="token+position"), 4, 4e4, 2.0)
#: The same threshold where the vocabulary outgrows the context.
ONSET_SHORT = Law("P1", "V", Model(V=2, L=10**3, score="linear", inputs="token+position"), 4, 4e4, None)
COPYING_L = Law("P2", "L", Model(V=8, L=2, score="linear"), 16, 1e6, 1.5)
COPYING_V = Law("P2", "V", Model(V=2, L=10**7, score="linear"), 4, 4e4, 0.5)
JUMP = Law("P_star", "L", Model(V=8, L=2, score="softmax"), 16, 1e9, None)


def ratio_to_log_squared(log10_L: float, V: int) -> float:
    """Return P*/[κV/(4(V−1)σ_g²) L ln²L] from the self-consistent form, for contexts of any length.

    Lengths beyond 2^53 are no longer models, but the closed form (exact to 1e-3 from L = 1e4 on) holds there too.
    """
    base: Parameters = parameters_without_P(Model(V=V, L=2)).replace(L=10.0**log10_L)
    return float(softmax_jump(base) / (V / (4 * (V - 1)) * 10.0**log10_L * (log10_L * np.log(10)) ** 2))


def length_within(tolerance: float, V: int) -> float:
    """Return log₁₀ of the L from which P* is within ``tolerance`` of its asymptote κV/(4(V−1)σ_g²) L ln²L."""
    low, high = 3.0, 280.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if abs(ratio_to_log_squared(middle, V) - 1) < tolerance else (middle, high)
    return high


def quoted(found: Exponent) -> str:
    """Return an exponent with its limit and drift, to the digits that the drift allows (five at most)."""
    digits = 5 if found.drift < 1e-5 else min(5, int(np.ceil(-np.log10(found.drift))))
    limit = "" if found.limit is None else f"limit {found.limit:.{digits}f}, "
    return f"{found.value:.{digits}f} ({limit}drift {max(found.drift, 1e-5):.{digits}f})"
