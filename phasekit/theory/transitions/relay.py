"""The course of two layers of which the first has questions of its own: each forms in its turn, or both at once.

A layer has formed where most of its attention pattern is the pattern that it is asked for (its g²/q is above 1/2). At
each P the lowest of all minima is asked; where that changes is bracketed on a scan of P and narrowed down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory.action import Action, TwoLayers
from phasekit.theory.action.base import Array, Mask
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.crossover import global_minimum
from phasekit.theory.transitions.folds import EQUAL_ACTIONS
from phasekit.theory.transitions.layers import SECOND_LAYER
from phasekit.theory.transitions.passage import Passage, Threshold, state_at

FIRST_LAYER = Threshold("P_layer1", "$P_{(1)}$", "where layer 1 forms: a jump, or its g²/q passes 1/2")
_FORMED = 0.5
_STEP = 1.1  # of the scan
_LONGEST = 400  # steps of the scan
_AT_ONCE = 40  # of them
_PARTS, _ROUNDS = 24, 7  # into which a bracket is cut, and how often: 1e-11 of P
_BESIDE = 1e-9  # how far from a passage its two sides are looked at, relative
_JUMPS = 1e-3  # a larger change of a layer's weight between the two sides is a jump


class Relay(Course):
    """Layer 1 forms at P_layer1 and layer 2 at P_layer2; where these are one jump it is P_star."""

    name: ClassVar[str] = "relay"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, FIRST_LAYER, SECOND_LAYER)

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return where each layer forms.

        Returns
        -------
        dict of arrays
            ``P_layer1``, ``P_layer2``; ``P_star``: both, if they form in one jump, else NaN; ``layer1_jump``,
            ``layer2_jump``: by how much the weights of the previous token and of the right key change there (0: a
            crossover); ``failed``.
        """
        assert isinstance(action, TwoLayers)
        low, high = _brackets(action, p)
        found: dict[str, Array] = {}
        for layer in (0, 1):
            a, b = np.log(low[layer]), np.log(high[layer])
            known = np.flatnonzero(np.isfinite(a + b))
            P = np.full(p.shape, np.nan)
            P[known] = _narrowed(action, p[known], layer, a[known], b[known])
            found[f"P_layer{layer + 1}"] = P
            found[f"layer{layer + 1}_jump"] = np.full(p.shape, np.nan)
            sides = [_weights(action, p[known].replace(P=P[known] * (1 + s * _BESIDE)))[layer] for s in (-1, 1)]
            found[f"layer{layer + 1}_jump"][known] = sides[1] - sides[0]
        joint = np.abs(found["P_layer2"] / found["P_layer1"] - 1) < _BESIDE
        found["P_star"] = np.where(joint, found["P_layer1"], np.nan)
        found["failed"] = np.isnan(found["P_layer1"] + found["P_layer2"])
        return found

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        joint = nan_to_none(row["P_star"])
        names = ["P_star"] if joint else sorted(("P_layer1", "P_layer2"), key=lambda name: float(row[name]))
        passages = []
        for name in names:
            P = float(row[name])
            sides = [p.replace(P=np.full(p.shape, P * (1 + s * _BESIDE))) for s in (-1, 1)]
            before, after = (state_at(action, global_minimum(action, side), side) for side in sides)
            jumps = joint or abs(float(row[f"layer{name[-1]}_jump"])) > _JUMPS
            passages.append(Passage(name, "jump" if jumps else "crossover", P, before, after))
        order = "first" if any(passage.kind == "jump" for passage in passages) else "crossover"
        how = "both layers form in one jump" if joint else "the layers form one after the other"
        evidence = {"layers": how, "why": "the lowest of all minima over P: a layer has formed if g²/q > 1/2"}
        return Verdict(order, tuple(passages), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {"P_star": None}
        for passage in passages:
            found[passage.name] = passage.P
            kept = {"kind": passage.kind, **({"jump": passage.jump} if passage.kind == "jump" else {})}
            found["both" if passage.name == "P_star" else passage.name.removeprefix("P_")] = kept
        return found


def _weights(action: TwoLayers, p: Parameters) -> tuple[Array, Array]:
    """Return both layers' weights at the lowest minimum."""
    return action.order(global_minimum(action, p), p)


def _formed(action: TwoLayers, p: Parameters) -> tuple[Mask, Mask]:
    """Return which layers have formed at the lowest minimum."""
    first, second = (
        np.asarray(alpha**2 > _FORMED * (alpha**2 + (1 - alpha) ** 2 / (p.L - 1))) for alpha in _weights(action, p)
    )
    return first, second


def _brackets(action: TwoLayers, p: Parameters) -> tuple[list[Array], list[Array]]:
    """Return the P of a scan between which each layer forms for the first time; NaN where it doesn't."""
    low, high = ([np.full(p.shape, np.nan) for _ in range(2)] for _ in range(2))
    P = p.with_strength(1e-2).P
    some: NDArray[np.int64] = np.flatnonzero(np.isfinite(P) & (p.L > 2))
    for first in range(0, _LONGEST, _AT_ONCE):
        nodes = P[some, None] * _STEP ** np.arange(first, first + _AT_ONCE)
        for layer, formed in enumerate(_formed_at(action, p[some], nodes)):
            new = np.flatnonzero(formed.any(1) & np.isnan(high[layer][some]))
            high[layer][some[new]] = nodes[new, formed[new].argmax(1)]
            low[layer][some[new]] = high[layer][some[new]] / _STEP
        some = some[np.isnan(high[0][some] + high[1][some])]
        if not some.size:
            break
    return low, high


def _narrowed(action: TwoLayers, p: Parameters, layer: int, low: Array, high: Array) -> Array:
    """Return the P at which a layer forms, from a bracket of its logarithm."""
    rows = np.arange(p.shape[0])
    for _ in range(_ROUNDS):
        nodes = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, _PARTS + 1)
        formed = _formed_at(action, p, np.exp(nodes))[layer]
        formed[:, 0], formed[:, -1] = False, True
        k = formed.argmax(1)
        low, high = nodes[rows, k - 1], nodes[rows, k]
    return np.asarray(np.exp((low + high) / 2))


def _formed_at(action: TwoLayers, p: Parameters, P: Array) -> tuple[Mask, Mask]:
    """Return which layers have formed at several P of each model, shape (models, P)."""
    flat = p[np.repeat(np.arange(p.shape[0]), P.shape[1])].replace(P=P.ravel())
    first, second = _formed(action, flat)
    return first.reshape(P.shape), second.reshape(P.shape)
