"""Transitions of an action whose origin stays a minimum however strong the data: every transition is a jump.

The nuclear norm of factorised heads costs in proportion to a pattern's strength, while data gain with its square: a
small pattern never pays, and a pattern appears at full size once it does. Which minimum is lowest is read off over a
range of P, class by class (no pattern, pooling, copying), and each change is located by root-finding on the actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from phasekit.model import Parameters
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.minima import minima_of

NOTHING, POOLING, COPYING = "nothing", "pooling", "copying"
_CLASSES = (NOTHING, POOLING, COPYING)
_SCAN = 400  # values of P at which the minima are compared
_RANGE = 1e3  # they span this factor; the search goes on with the next span until a head copies
_LARGEST = 1e20
_REFINE = 100  # nodes of each refinement of the end of a window


class Jump(NamedTuple):
    """A change of the lowest minimum.

    Attributes
    ----------
    P : where both minima have the same action
    before, after : "nothing", "pooling" or "copying"
    order : name to the (lower, upper) value of each order parameter, and of the loss
    action : S of both
    window : P from which the upper minimum exists, and up to which the lower one does (inf: for ever)
    """

    P: float
    before: str
    after: str
    order: dict[str, tuple[float, float]]
    action: float
    window: tuple[float, float]


def pinned_jumps(action: Action, p: Parameters) -> list[Jump]:
    """Return the jumps of one model (flat parameters of length 1, P ignored) in the order in which they come.

    Raises
    ------
    ArithmeticError
        If the pattern doesn't change within the range that is searched.
    """
    first = float(p.with_strength(1.0).P[0]) * 1e-2
    while _lowest(action, p, np.array([first])).argmin() != 0:
        first /= _RANGE
    jumps: list[Jump] = []
    while first < _LARGEST:
        P = np.geomspace(first, first * _RANGE, _SCAN)
        values = _lowest(action, p, P)
        jumps += [_jump(action, p, P, values, int(k)) for k in np.flatnonzero(np.diff(values.argmin(1)))]
        if values[-1].argmin() == 2:
            return jumps
        first = float(P[-1])
    if not jumps:
        raise ArithmeticError("no jump was found")
    return jumps  # linear attention with d = 1 has no room to copy


def pinned_transitions(action: Action, p: Parameters) -> dict[str, Array]:
    """Locate the jumps of every model; ``p`` is flat and its P is ignored.

    Returns
    -------
    dict of arrays, one row per model
        ``P1`` (linear attention): the first jump, and ``P2``: the second, to copying (NaN if the first leads there);
        ``P_star`` (normalised scores): the jump to copying. ``spinodals``, ``action``, ``loss`` and both order
        parameters (low, high) belong to the jump to copying.
    """
    rows = [pinned_jumps(action, p[k : k + 1]) for k in range(p.shape[0])]
    last = [jumps[-1] for jumps in rows]
    result: dict[str, Array] = {}
    if action.order_parameters[0] == "c1":
        result["P1"] = np.array([jumps[0].P for jumps in rows])
        result["P2"] = np.array([jumps[1].P if len(jumps) > 1 else np.nan for jumps in rows])
    else:
        result["P_star"] = np.array([jump.P for jump in last])
    result["spinodals"] = np.array([jump.window for jump in last])
    result["action"] = np.array([jump.action for jump in last])
    for name in (*action.order_parameters, "loss"):
        result[name] = np.array([jump.order[name] for jump in last])
    return result


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


def _jump(action: Action, p: Parameters, P: Array, values: Array, k: int) -> Jump:
    before, after = int(values[k].argmin()), int(values[k + 1].argmin())

    def advantage(log_P: float) -> float:
        found = _lowest(action, p, np.exp([log_P]))[0]
        return float(found[before] - found[after])

    where = float(np.exp(brentq(advantage, *np.log(P[[k, k + 1]]), xtol=1e-13, rtol=1e-12)))
    owner, z, _ = minima_of(action, _at(p, np.array([where])))
    there = _at(p, np.array([where]))[owner]
    value, kind = action.jet(z, there).value, _class(z)
    pair = [np.flatnonzero(kind == c)[value[kind == c].argmin()] for c in (before, after)]
    columns = dict(zip(action.order_parameters, action.order(z, there), strict=True)) | {"loss": action.loss(z, there)}
    return Jump(
        where,
        _CLASSES[before],
        _CLASSES[after],
        {name: (float(x[pair[0]]), float(x[pair[1]])) for name, x in columns.items()},
        float(value[pair[0]]),
        (_end(action, p, where, after, -1), _end(action, p, where, before, +1)),
    )


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
