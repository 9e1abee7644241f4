"""The course of a masked head: the front of copying runs from the beginning of the context to its end as P grows.

Each row jumps by itself; where the vocabulary is large for the context, many do so at once, at the start of the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array
from phasekit.theory.action.front import FrontMap, values_of
from phasekit.theory.action.rows import Rows, Stationary
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.folds import EQUAL_ACTIONS
from phasekit.theory.transitions.passage import Passage, State, Threshold, phase_of

END_OF_FRONT = Threshold("P_end", r"$P_{\mathrm{end}}$", "where the last position begins to copy")
#: The front is looked for over this factor of P below its end, at so many values; a jump moves the copy weight of more
#: than a few rows at once.
_RANGE, _SCAN, _FEW = 100.0, 40, 3.0
_LARGEST = 1e20
_CLOSE, _PRECISE = 1e-4, 1e-9


class Front(Course):
    """Copying spreads along the context; P_star is the place of a jump of many rows, if there is one."""

    name: ClassVar[str] = "front"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, END_OF_FRONT)
    meanings: ClassVar[Mapping[str, str]] = {"front": "positions that copy, before and after P_star"}

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the end of the front, and the jump at its start.

        Returns
        -------
        dict of arrays
            ``P_end``: the smallest P at which the last position copies; ``largest_step``: the largest
            change of Σα at one P, in rows; where it is more than a few, ``P_star`` and ``spinodals`` (between which
            descents from both ends end on their own side), and both order parameters, ``loss``, ``front`` (low, high).
        """
        assert isinstance(action, FrontMap)
        columns = ("spinodals", *action.order_parameters, "loss", "front", "copying_share")
        result = {name: np.full(p.shape, np.nan) for name in ("P_end", "P_star", "largest_step", "action")}
        result |= {name: np.full((*p.shape, 2), np.nan) for name in columns}
        result["failed"] = np.zeros(p.shape, dtype=bool)
        for k in range(p.shape[0]):
            try:
                for name, value in _of_one(action, p[k]).items():
                    result[name][k] = value
            except ArithmeticError:
                result["failed"][k] = True
        return result

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        assert isinstance(action, FrontMap)
        step, P_end = float(row["largest_step"]), float(row["P_end"])
        evidence: dict[str, Any] = {"largest_step": step}
        there = _state(action, p[0].replace(P=P_end))
        end = Passage("P_end", "crossover", P_end, there, there)
        if np.isnan(row["P_star"]):
            evidence["why"] = "rows begin to copy one after the other, each with a jump of its own"
            return Verdict("front", (end,), evidence)
        evidence["why"] = "the copy weight of many rows, largest_step of them, moves at one P: both states are minima"
        before, after = (
            State(
                phase_of(float(row["copying_share"][side]), True),
                {name: float(row[name][side]) for name in action.order_parameters},
                float(row["loss"][side]),
                float(row["action"]),
            )
            for side in (0, 1)
        )
        low, high = (float(one) for one in row["spinodals"])
        fronts = {"front": [float(one) for one in row["front"]]}
        jump = Passage("P_star", "jump", float(row["P_star"]), before, after, (low, high), fronts)
        return Verdict("first", tuple(sorted((jump, end), key=lambda each: each.P)), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {passage.name: passage.P for passage in passages}
        for passage in passages:
            if passage.window is not None:
                found["spinodals"] = [nan_to_none(end) for end in passage.window]
                found["jump"] = {**passage.jump, **passage.evidence}
                found["action"] = passage.before.action
        return found


def _of_one(action: FrontMap, p: Parameters) -> dict[str, Any]:
    """Return what :meth:`Front.locate` finds for one model (0-d parameters)."""

    def at(P: float) -> tuple[Rows, Stationary]:
        rows = action.rows(p.replace(P=P))
        return rows, rows.lowest()

    def ended(P: float) -> bool:
        rows, state = at(P)
        # On the way from 1/n, attention spread evenly, to 1/w, what the readout asks for.
        return bool(state.rows.alpha[-1] > (rows.keys[-1] * state.w) ** -0.5)

    P_end = float(p.replace(P=1.0).kappa * p.V * p.L / p.logit_scale**2)
    if not np.isfinite(P_end):
        raise ArithmeticError("a number of the model is missing")
    while not ended(P_end):
        P_end *= 2
        if P_end > _LARGEST:
            raise ArithmeticError("the front doesn't reach the end")
    while ended(P_end):
        P_end /= 2
    P_end = _first(ended, P_end, 2 * P_end)

    P = np.geomspace(P_end / _RANGE, 1.2 * P_end, _SCAN)
    number = action.rows(p.replace(P=P_end)).number
    g = np.array([at(x)[1].g for x in P])
    k = int(np.diff(g).argmax())
    low, high, g_low, g_high = P[k], P[k + 1], g[k], g[k + 1]
    while high / low - 1 > _CLOSE and (g_high - g_low) * number > _FEW:
        middle = float(np.sqrt(low * high))
        g_middle = at(middle)[1].g
        if g_middle - g_low > g_high - g_middle:
            high, g_high = middle, g_middle
        else:
            low, g_low = middle, g_middle
    found: dict[str, Any] = {"P_end": P_end, "largest_step": (g_high - g_low) * number}
    if found["largest_step"] <= _FEW:
        return found
    border = (g_low + g_high) / 2
    P_star = _first(lambda x: at(x)[1].g > border, low, high)
    sides = [values_of(*at(P_star * (1 + sign * 3 * _PRECISE))) for sign in (-1, 1)]
    whole = round(float(p.L))
    upper = _first(lambda x: action.rows(p.replace(P=x)).descended(0).g > border, P_star, 10 * P_star)
    lower = _first(lambda x: action.rows(p.replace(P=x)).descended(whole).g > border, P_star / 10, P_star)
    return {
        **found,
        "P_star": P_star,
        "spinodals": (lower, upper),
        "action": sides[0]["action"],
        **{name: [side["order_parameters"][name] for side in sides] for name in action.order_parameters},
        **{name: [side[name] for side in sides] for name in ("loss", "copying_share")},
        "front": [side["coordinates"]["front"] for side in sides],
    }


def _first(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Return the P between two at which something is reached, by halving; NaN if it isn't at the upper end."""
    if not reached(high):
        return float("nan")
    while high / low - 1 > _PRECISE:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _state(action: FrontMap, p: Parameters) -> State:
    rows = action.rows(p)
    values = values_of(rows, rows.lowest())
    phase = phase_of(values["copying_share"], True)
    return State(phase, values["order_parameters"], values["loss"], values["action"])
