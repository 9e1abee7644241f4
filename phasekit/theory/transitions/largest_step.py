"""Jumps of minima that are listed: where the copy overlap of the global minimum changes most at one P."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappush, heapreplace
from typing import Any

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.listed import Listed

_CLOSE, _PRECISE = 1e-4, 1e-9


def jump_between(action: Listed, p: Parameters, P: Array, few: float) -> dict[str, Any]:
    """Return the largest step of g between values of P, and the jump there if it is more than ``few``.

    Of several jumps that is the largest one.

    Returns
    -------
    dict
        ``largest_step`` of g; where that is a jump ``P_star``, ``spinodals`` (beyond which descents from both ends end
        on the same side), ``action``, and by [before, after] both order parameters, ``loss``, ``copying_share``, and
        what the action calls its coordinates.
    """

    def g_at(x: float) -> float:
        return float(action.lowest(p.replace(P=x))["averages"]["g"])

    low, high, g_low, g_high = _largest_rise(g_at, P, few)
    found: dict[str, Any] = {"largest_step": g_high - g_low}
    if found["largest_step"] <= few:
        return found
    border = (g_low + g_high) / 2
    P_star = first(lambda x: g_at(x) > border, low, high)
    sides = [action.lowest(p.replace(P=P_star * (1 + sign * 3 * _PRECISE))) for sign in (-1, 1)]
    upper = first(lambda x: action.from_end(p.replace(P=x), False) > border, P_star, 10 * P_star)
    lower = first(lambda x: action.from_end(p.replace(P=x), True) > border, P_star / 10, P_star)
    pairs = {name: [side[name] for side in sides] for name in ("loss", "copying_share")}
    for group in ("order_parameters", "coordinates"):
        pairs |= {name: [side[group][name] for side in sides] for name in sides[0][group]}
    return {**found, "P_star": P_star, "spinodals": (lower, upper), "action": sides[0]["action"], **pairs}


def _largest_rise(g_at: Callable[[float], float], P: Array, few: float) -> tuple[float, float, float, float]:
    """Return (low, high, g at low, g at high) of the cell of P with the largest rise of g, halved until that is sharp.

    It is always the cell with the largest rise that is halved: a smooth rise shrinks with its cell, and gives way to a
    jump in another one, which doesn't. It ends with a cell that is narrow, the largest jump, or with a rise of ``few``,
    which no other cell exceeds.
    """
    g = [g_at(x) for x in P]
    cells = [
        (below - above, low, high, below, above)
        for low, high, below, above in zip(P[:-1], P[1:], g[:-1], g[1:], strict=True)
    ]
    heapify(cells)
    while True:
        fall, low, high, below, above = cells[0]
        if -fall <= few or high / low - 1 <= _CLOSE:
            return float(low), float(high), below, above
        middle = float(np.sqrt(low * high))
        between = g_at(middle)
        heapreplace(cells, (below - between, low, middle, below, between))
        heappush(cells, (between - above, middle, high, between, above))


def first(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Return the P between two at which something is reached, by halving; NaN if it isn't at the upper end."""
    if not reached(high):
        return float("nan")
    while high / low - 1 > _PRECISE:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
