"""Jumps of minima that are listed: where the copy overlap of the global minimum changes most at one P."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.listed import Listed

_CLOSE, _PRECISE = 1e-4, 1e-9


def jump_between(action: Listed, p: Parameters, P: Array, few: float) -> dict[str, Any]:
    """Return the largest step of g between values of P, and the jump there if it is more than ``few``.

    Returns
    -------
    dict
        ``largest_step`` of g; where that is a jump ``P_star``, ``spinodals`` (beyond which descents from both ends end
        on the same side), ``action``, and by [before, after] both order parameters, ``loss``, ``copying_share``, and
        what the action calls its coordinates.
    """

    def g_at(x: float) -> float:
        return float(action.lowest(p.replace(P=x))["averages"]["g"])

    g = np.array([g_at(x) for x in P])
    k = int(np.diff(g).argmax())
    low, high, g_low, g_high = float(P[k]), float(P[k + 1]), float(g[k]), float(g[k + 1])
    while high / low - 1 > _CLOSE and g_high - g_low > few:
        middle = float(np.sqrt(low * high))
        g_middle = g_at(middle)
        if g_middle - g_low > g_high - g_middle:
            high, g_high = middle, g_middle
        else:
            low, g_low = middle, g_middle
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


def first(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Return the P between two at which something is reached, by halving; NaN if it isn't at the upper end."""
    if not reached(high):
        return float("nan")
    while high / low - 1 > _PRECISE:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
