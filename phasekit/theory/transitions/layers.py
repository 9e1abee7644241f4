"""The course of an induction head: the unstructured state gives way in a jump, to both layers or to the first alone.

The unstructured state is stationary at every P; the minima that follow it lie on a curve P(u), as those of one head do
(:mod:`.folds`). The curve leaves the unstructured state at its spinodal, as a saddle point, turns into a minimum at its
first fold, and may fold twice more: then there are two such minima. On the first one layer 1 attends to the previous
token while layer 2 hardly attends to anything; on the second one both layers are formed. The lowest action decides who
follows whom. Without further folds, layer 2 may still come later than layer 1, in a crossover.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action, InductionMap
from phasekit.theory.action.base import Array
from phasekit.theory.transitions.coexistence import coexistence
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.crossover import global_minimum
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.folds import EQUAL_ACTIONS
from phasekit.theory.transitions.passage import Passage, State, Threshold, phase_of, state_at
from phasekit.theory.transitions.rest import beyond_fold, first_fold, interior_lowest, jump_from_rest, sides

SECOND_LAYER = Threshold(
    "P_layer2", "$P_{(2)}$", "where layer 2 forms, if after layer 1: a jump, or the steepest point"
)
_NODES = 400
_LEARNT = 0.5  # layer 2 has formed at P_star if the loss falls below this share there


class Layers(Course):
    """Both layers form at P_star, or layer 1 alone and layer 2 at P_layer2."""

    name: ClassVar[str] = "layers"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, SECOND_LAYER)
    meanings: ClassVar[Mapping[str, str]] = {
        "jump alpha1": "weight of the previous token in layer 1, before and after P_star",
        "jump alpha2": "weight of the right key in layer 2, before and after P_star",
    }

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return both passages.

        Returns
        -------
        dict of arrays
            ``P_star``: where the unstructured state stops being the global minimum; ``spinodals``: where the minimum
            that follows it begins, and where the unstructured state ends (infinite for V = L); ``barrier``;
            ``action``; ``loss``, ``alpha1``, ``alpha2``, ``copying_share`` before and after.
            ``P_layer2``: where layer 2 follows; NaN if it formed at P_star, which is said to be so if the loss falls by
            more than half there, or if its weight rises fastest right after. For a jump ``layer2_spinodals``,
            ``layer2_action``, ``layer2_loss``, … at it; NaN for a crossover. ``failed``.
        """
        assert isinstance(action, InductionMap)
        curve = StationaryCurves(action, p)
        found = {name: np.full((*p.shape, 2), np.nan) for name in _pairs("") + _pairs("layer2_")}
        found |= {name: np.full(p.shape, np.nan) for name in ("P_star", "barrier", "action", "P_layer2")}
        found["layer2_action"], found["layer2_barrier"] = np.full(p.shape, np.nan), np.full(p.shape, np.nan)
        known = np.flatnonzero(np.isfinite(curve.nodes).all(1))
        first = first_fold(curve[known])
        beyond = beyond_fold(curve[known], first)
        soft, softness = interior_lowest(beyond)
        two = np.flatnonzero(softness < 0)
        start = first.copy()
        second = _second_jump(beyond[two], soft[two])
        start[two] = np.where(np.isnan(second["P_layer2"]), second["folds"][:, 1], first[two])
        folds = np.full((known.size, 2), np.nan)
        folds[two] = second.pop("folds")
        for name, values in second.items():
            found[name][known[two]] = values
        after = jump_from_rest(curve[known], first, start, folds, action.spinodal(p[known]))
        for name, values in after.items():
            if name in found:
                found[name][known] = values
        unlearnt = after["loss"][:, 1] > _LEARNT * after["loss"][:, 0]
        alone = np.flatnonzero((softness >= 0) & np.isfinite(after["place"]) & unlearnt)
        found["P_layer2"][known[alone]] = _crossover(curve[known[alone]], after["place"][alone])
        found["failed"] = np.isnan(found["P_star"])
        return found

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        assert isinstance(action, InductionMap)
        first, second = _passage(action, row, "", "P_star"), nan_to_none(row["P_layer2"])
        jumps = first.spinodals[0] < first.P * (1 - 1e-9)
        passages = [first if jumps else Passage("P_star", "onset", first.P, first.before, first.before)]
        why = (
            "the unstructured state and the minimum that follows it both exist between the spinodals: the price of "
            "the second layer's odds has a kink there"
            if jumps
            else "the minimum that follows the unstructured state grows out of it at its spinodal (L = 2)"
        )
        evidence: dict[str, Any] = {"why": why, "barrier": "within two parameters, so an upper bound"}
        if second is None:
            evidence["layers"] = "both form at P_star"
        elif np.isfinite(row["layer2_action"]):
            passages.append(_passage(action, row, "layer2_", "P_layer2"))
            evidence["layers"] = "layer 1 forms at P_star, layer 2 at P_layer2, in a second jump"
        else:
            there = p.replace(P=np.full(p.shape, second))
            state = _state_on_curve(action, there)
            passages.append(Passage("P_layer2", "crossover", second, state, state))
            evidence["layers"] = "layer 1 forms at P_star; layer 2 follows smoothly, fastest at P_layer2"
        return Verdict("first" if jumps else "second", tuple(passages), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        first, *others = passages
        result = {"P_star": first.P, **(_jump_in_json(first) if first.window else {}), "P_layer2": None}
        for second in others:
            result["P_layer2"] = second.P
            result["layer2"] = {"kind": second.kind, **(_jump_in_json(second) if second.window else {})}
        return result


def _pairs(prefix: str) -> list[str]:
    return [prefix + name for name in ("spinodals", "loss", "copying_share", *InductionMap.order_parameters)]


def _second_jump(curve: StationaryCurves, soft: Array) -> dict[str, Array]:
    """Describe what curves do that fold twice more, ``soft`` between those folds.

    Two jumps follow each other if, where both minima on the curve are equal, they lie below the unstructured state.
    """
    result: dict[str, Array] = {}
    action = curve.action
    both = coexistence(curve, soft)
    there = curve.p.replace(P=np.exp(both.log_P))
    assert isinstance(action, InductionMap)
    low, high = (action.profile(u, there).points for u in (both.low, both.high))
    saddle = action.profile(both.saddle, there).points
    value = action.jet(low, there).value
    separate = value < action.unstructured(there)[0]
    result["P_layer2"] = np.where(separate, there.P, np.nan)
    result["layer2_action"] = np.where(separate, value, np.nan)
    result["layer2_spinodals"] = np.where(separate[:, None], np.exp(both.log_window), np.nan)
    barrier = np.where(np.isnan(both.barrier), action.jet(saddle, there).value - value, both.barrier)
    result["layer2_barrier"] = np.where(separate, barrier, np.nan)
    for name, pair in sides(action, low, high, there).items():
        result[f"layer2_{name}"] = np.where(separate[:, None], pair, np.nan)
    ends = (curve.nodes[:, 0], soft, curve.nodes[:, -1])
    result["folds"] = np.stack([solve.root(curve.curvature, *pair, curve.p) for pair in pairwise(ends)], axis=-1)
    return result


def _crossover(curve: StationaryCurves, place: Array) -> Array:
    """Return the P at which the weight of the right key rises fastest beyond ``place``; NaN if at that place itself."""
    last = curve.nodes[:, -1]
    nodes = place[:, None] + (last - place)[:, None] * np.linspace(0.0, 1.0, _NODES)
    return StationaryCurves(curve.action, curve.p, nodes).steepest()


def _passage(action: InductionMap, row: Mapping[str, Array], prefix: str, name: str) -> Passage:
    before, after = (
        State(
            phase_of(float(row[prefix + "copying_share"][side]), True),
            {each: float(row[prefix + each][side]) for each in action.order_parameters},
            float(row[prefix + "loss"][side]),
            float(row[prefix + "action"]),
        )
        for side in (0, 1)
    )
    low, high = (float(end) for end in row[prefix + "spinodals"])
    evidence = {"barrier": float(row[prefix + "barrier"])}
    return Passage(name, "jump", float(row[name]), before, after, (low, high), evidence)


def _state_on_curve(action: InductionMap, p: Parameters) -> State:
    """Return the global minimum of one model."""
    return state_at(action, global_minimum(action, p), p)


def _jump_in_json(passage: Passage) -> dict[str, Any]:
    ends = [end if np.isfinite(end) else None for end in passage.spinodals]
    return {
        "spinodals": ends,
        "jump": passage.jump,
        "action": passage.before.action,
        "barrier": passage.evidence["barrier"],
    }
