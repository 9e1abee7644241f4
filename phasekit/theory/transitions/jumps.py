"""The course of an action whose origin stays a minimum however strong the data: every passage is a jump.

The nuclear norm of factorised heads costs in proportion to a pattern's strength, while data gain with its square: a
small pattern never pays, and a pattern appears at full size once it does. Which minimum is lowest is read off over a
range of P, phase by phase (no pattern, pooling, copying), and each change is located by root-finding on the actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from phasekit.model import Parameters
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.minima import minima_of
from phasekit.theory.transitions.course import Course, Verdict
from phasekit.theory.transitions.crossover import COPYING_SETS_IN
from phasekit.theory.transitions.folds import EQUAL_ACTIONS
from phasekit.theory.transitions.onset import POOLING_SETS_IN
from phasekit.theory.transitions.passage import COPYING, PHASES, Passage, State, Threshold

_SCAN = 400  # values of P at which the minima are compared
_RANGE = 1e3  # they span this factor; the search goes on with the next span until a head copies
_LARGEST = 1e20
_REFINE = 100  # nodes of each refinement of the end of a window


class Jumps(Course):
    """A head jumps from nothing to pooling and from there to copying, or to copying at once."""

    name: ClassVar[str] = "jumps"
    thresholds: ClassVar[tuple[Threshold, ...]] = (POOLING_SETS_IN, COPYING_SETS_IN, EQUAL_ACTIONS)

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the thresholds, and the jump to copying.

        Returns
        -------
        dict of arrays
            ``P1`` (linear attention): the first jump, and ``P2``: the second, to copying (NaN if the first leads
            there); ``P_star`` (normalised scores): the jump to copying. ``spinodals``, ``action``, ``loss`` and both
            order parameters (low, high) belong to the last jump; ``failed``.
        """
        names = _names(action)
        columns = ("spinodals", "action", *action.order_parameters, "loss")
        result = {name: np.full(p.shape, np.nan) for name in names}
        result |= {name: np.full((*p.shape, 2), np.nan) for name in columns}
        result["action"] = np.full(p.shape, np.nan)
        result["failed"] = np.zeros(p.shape, dtype=bool)
        for k in range(p.shape[0]):
            try:
                passages = jumps_of(action, p[k : k + 1])
            except ArithmeticError:
                result["failed"][k] = True
                continue
            for passage in passages:
                result[passage.name][k] = passage.P
            last = passages[-1]
            result["spinodals"][k], result["action"][k] = last.window, last.before.action
            for name, pair in last.jump.items():
                result[name][k] = pair
        return result

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        why = (
            "the prior of a small pattern grows linearly and the data's gain quadratically: both minima exist at a jump"
        )
        return Verdict("first", jumps_of(action, p), {"why": why})

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {passage.name: passage.P for passage in passages}
        if "P_star" not in found:
            found.setdefault("P2", None)
        jumps = [
            {
                "P": passage.P,
                "from": passage.before.phase,
                "to": passage.after.phase,
                "spinodals": [end if np.isfinite(end) else None for end in passage.window or ()],
                "jump": passage.jump,
                "action": passage.before.action,
            }
            for passage in passages
        ]
        return {**found, "jumps": jumps}


def jumps_of(action: Action, p: Parameters) -> tuple[Passage, ...]:
    """Return the jumps of one model (flat parameters of length 1, P ignored) in the order in which they come.

    Raises
    ------
    ArithmeticError
        If the pattern doesn't change within the range that is searched.
    """
    first = float(p.with_strength(1.0).P[0]) * 1e-2
    if not np.isfinite(first):
        raise ArithmeticError("a number of the model is missing")
    while _lowest(action, p, np.array([first])).argmin() != 0:
        first /= _RANGE
    jumps: list[Passage] = []
    while first < _LARGEST:
        P = np.geomspace(first, first * _RANGE, _SCAN)
        values = _lowest(action, p, P)
        for k in np.flatnonzero(np.diff(values.argmin(1))):
            jumps.append(_jump(action, p, P, values, int(k), _names(action)[len(jumps)]))
        if values[-1].argmin() == PHASES.index(COPYING):
            return tuple(jumps)
        first = float(P[-1])
    if not jumps:
        raise ArithmeticError("no jump was found")
    return tuple(jumps)  # linear attention with d = 1 has no room to copy


def _names(action: Action) -> tuple[str, ...]:
    """Return what the jumps are called, in their order: linear attention may pool before it copies."""
    return ("P1", "P2") if action.order_parameters[0] == "c1" else ("P_star",)


def _lowest(action: Action, p: Parameters, P: Array) -> Array:
    """Return the lowest action of each class at every P, shape (P, 3); inf where a class has no minimum."""
    owner, z, _ = minima_of(action, _at(p, P))
    there = _at(p, P)[owner]
    values = np.full((P.size, 3), np.inf)
    np.minimum.at(values, (owner, _class(z)), action.jet(z, there).value)
    return values


def _class(z: Point) -> NDArray[np.int64]:
    """Return 0 at the origin, 2 where the copying coordinate isn't zero (the last one), else 1."""
    nothing = np.all(np.stack(z) == 0, axis=0)
    return np.where(nothing, 0, np.where(np.abs(z[-1]) > 1e-6, 2, 1)).astype(np.int64)


def _jump(action: Action, p: Parameters, P: Array, values: Array, k: int, name: str) -> Passage:
    before, after = int(values[k].argmin()), int(values[k + 1].argmin())

    def advantage(log_P: float) -> float:
        found = _lowest(action, p, np.exp([log_P]))[0]
        return float(found[before] - found[after])

    where = float(np.exp(brentq(advantage, *np.log(P[[k, k + 1]]), xtol=1e-13, rtol=1e-12)))
    owner, z, _ = minima_of(action, _at(p, np.array([where])))
    there = _at(p, np.array([where]))[owner]
    value, kind = action.jet(z, there).value, _class(z)
    order, loss = action.order(z, there), action.loss(z, there)

    def state(which: int) -> State:
        lowest = np.flatnonzero(kind == which)[value[kind == which].argmin()]
        named = {name: float(x[lowest]) for name, x in zip(action.order_parameters, order, strict=True)}
        return State(PHASES[which], named, float(loss[lowest]), float(value[lowest]))

    window = (_end(action, p, where, after, -1), _end(action, p, where, before, +1))
    return Passage(name, "jump", where, state(before), state(after), window)


def _end(action: Action, p: Parameters, P: float, kind: int, direction: int) -> float:
    """Return how far from P, up or down, a class still has a minimum (to a relative 1e-7); inf if up to 10⁴ P."""
    inside, outside = np.log(P), np.log(P) + direction * np.log(1e4)
    while abs(outside - inside) > 1e-7:
        nodes = np.linspace(inside, outside, _REFINE)
        gone = np.flatnonzero(~np.isfinite(_lowest(action, p, np.exp(nodes))[1:, kind])) + 1
        if gone.size == 0:
            return float("inf")
        inside, outside = nodes[gone[0] - 1], nodes[gone[0]]
    return float(np.exp(inside))


def _at(p: Parameters, P: Array) -> Parameters:
    """Return one model's parameters at several P, flat."""
    return p.replace(P=P).ravel()
