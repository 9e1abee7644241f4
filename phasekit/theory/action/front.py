"""Masked heads, map estimator: a front that runs along the context (docs/beyond.md).

Position i sees n_i keys, so that each position has a copy weight of its own. They meet in a common field
(:mod:`.rows`), in which the global minimum is a scan over one variable. Other minima are as many as there are rows with
two states; reported are those that descents from attention spread evenly, and from copying everywhere, end in.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.listed import Branch, Listed
from phasekit.theory.action.price import Price
from phasekit.theory.action.rows import Rows, Stationary

#: States whose copy weights differ by no more than this are one.
_SAME = 1e-6


class FrontMap(Listed):
    """S of a normalised score under a mask.

    Parameters
    ----------
    price : Price
    """

    coordinates: tuple[str, ...] = ("readout", "front")
    course: ClassVar[str] = "front"

    def __init__(self, price: Price) -> None:
        self.price = price

    def rows(self, p: Parameters) -> Rows:
        """Return the rows of one model (0-d parameters)."""
        return Rows(self.price, p)

    def branches(self, p: Parameters) -> list[Branch]:
        """Return the global minimum, and those that descents from both ends reach."""
        rows = self.rows(p)
        found = [(rows.lowest(), np.nan)]
        for first in (0, round(float(p.L))):
            state = rows.descended(first)
            if all(np.abs(state.rows.alpha - other.rows.alpha).max() > _SAME for other, _ in found):
                found.append((state, first))
        found.sort(key=lambda each: each[0].action)
        return [Branch(start, values_of(rows, state)) for state, start in found]

    def lowest(self, p: Parameters) -> dict[str, Any]:
        rows = self.rows(p)
        return values_of(rows, rows.lowest())

    def from_end(self, p: Parameters, copying: bool) -> float:
        return self.rows(p).descended(round(float(p.L)) if copying else 0).g


def values_of(rows: Rows, state: Stationary) -> dict[str, Any]:
    """Return the numbers of a state by name, those of :class:`phasekit.theory.minima.Minima` and by position."""
    p, g, q, w = rows.p, state.g, state.q, state.w
    V, pooled = float(p.V), float(rows.count @ (1 / rows.keys)) / rows.number
    copying = (g - pooled) / (1 - pooled)
    known = copying * (copying + 2 * (1 - copying) * pooled) + (1 - copying) ** 2 * pooled
    # The mean of what is to be predicted is learned by the other part of the readout, t/(1 + t), whatever the rows do.
    mean = (1 / (1 + rows.t)) ** 2 / V
    by_row = mean + (1 - 1 / V) * (1 + w * (w * state.rows.q - 2 * state.rows.alpha))
    place = np.searchsorted(rows.keys, p.setting.mask.keys(round(float(p.L))))
    return {
        "action": state.action,
        "coordinates": {"readout": w, "front": front(rows, state)},
        "order_parameters": {"a1": 1 - copying, "aG": copying},
        "averages": {"s": 1.0, "s2": 1.0, "g": g, "q": q},
        "copying_share": g**2 / q,
        "coverage": known / q,
        "loss": float(rows.count @ by_row) / rows.number,
        "gradient_norm": state.gradient_norm,
        "curvature": state.softest,
        "last_keys": float(rows.keys[-1]),
        "positions": {"copy": state.rows.alpha[place], "q": state.rows.q[place], "loss": by_row[place]},
    }


def front(rows: Rows, state: Stationary) -> float:
    """Return i_c: how many positions there are up to the last one that copies, w α > 1/2; 1 if none does."""
    copies = state.w * state.rows.alpha > 0.5
    last = rows.keys[copies].max(initial=1.0)
    keys = rows.p.setting.mask.keys(round(float(rows.p.L)))
    return float(np.flatnonzero(keys <= last).max(initial=-1) + 2) if copies.any() else 1.0
