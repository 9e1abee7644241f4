"""The course of an action whose stationary points form one curve: a jump where the curve folds, else a crossover.

At a given path coordinate u the force of the data grows with P, so exactly one P makes u stationary: the stationary
points are a curve P(u). It folds where dP/du = 0, which is where a Hessian eigenvalue vanishes: the spinodals. Two
folds bound a window of two minima, however narrow; without folds the copy grows smoothly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Coarse, Curved, Fluctuating
from phasekit.theory.action.two_level import TwoLevelMap
from phasekit.theory.transitions.coexistence import coexistence
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.crossover import global_minimum
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.passage import Passage, State, Threshold, phase_of, state_at
from phasekit.theory.transitions.rest import beyond_fold, first_fold, interior_lowest, jump_from_rest, reached, sides

EQUAL_ACTIONS = Threshold("P_star", "$P^*$", "where both minima have the same action")
STEEPEST = Threshold(
    "P_x", r"$P_\times$", "steepest point of the crossover: the largest d ln g/d ln P (g: copy overlap)"
)
#: Of P: how far from the first node of a curve its end is searched (in ln P), and what counts as the same.
_FAR, _SAME = 7.0, 1e-9
#: In the evidence of a jump, where the action has them.
_ESTIMATES = ("P_star_error", "P_star_with_fluctuations")


class Folds(Course):
    """The copy overlap jumps at P_star between two minima, or rises smoothly, fastest at P_x."""

    name: ClassVar[str] = "folds"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, STEEPEST)
    meanings: ClassVar[Mapping[str, str]] = {
        "jump a1": "pooling, before and after P_star",
        "jump aG": "copying, before and after P_star",
        "jump loss": "training loss, before and after P_star",
        "spinodals": "two minima exist between these",
        "action": "of both minima at P_star",
        "barrier": "action of the saddle point above the minima at P_star",
    }
    can_end: ClassVar[bool] = True

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the jump or the crossover.

        Returns
        -------
        dict of arrays
            ``softest``: lowest Hessian eigenvalue along the curve, whitened (negative if and only if the curve folds);
            ``P_x``: steepest point of a smooth crossover, the largest d ln g/d ln P (g the copy overlap);
            ``P_star``, ``spinodals`` (lower, upper), ``barrier`` (from the minima to the saddle point between them, at
            P*), and ``action``, ``loss`` and both order parameters on the (low, high) branch at P*; where the low one
            is even attention at every P, ``rest_ends``, up to which that is a minimum; for the posterior
            also ``P_star_error`` (standard error of the row averages) and ``P_star_with_fluctuations`` (where the
            branches are equal with the Gaussian fluctuations around each); ``failed``.
        """
        assert isinstance(action, Curved)
        curve = StationaryCurves(action, p)
        rests = action.rests(p) if isinstance(action, TwoLevelMap) else np.zeros(p.shape, dtype=bool)
        moving, resting = np.flatnonzero(~rests), np.flatnonzero(rests & np.isfinite(curve.nodes).all(1))
        u, softest = np.full(p.shape, np.nan), np.full(p.shape, np.nan)
        u[moving], softest[moving] = curve[moving].softest()
        folded, smooth = np.flatnonzero(softest < 0), np.flatnonzero(softest >= 0)
        parts = [(smooth, {"P_x": curve[smooth].steepest()}), (folded, _jump(curve[folded], u[folded]))]
        if resting.size:
            parts.append((resting, _from_rest(curve[resting])))
        result: dict[str, Any] = {"softest": softest}
        for rows, part in parts:
            for name, values in part.items():
                result.setdefault(name, np.full((*p.shape, *values.shape[1:]), np.nan))[rows] = values
        result["failed"] = np.isnan(result["softest"]) | (((softest < 0) | rests) & np.isnan(result["P_star"]))
        if isinstance(action, Coarse):  # whose curve ends where rows can't be averaged, and never in a kink
            result["failed"] |= (softest >= 0) & np.isnan(result["P_x"])
        return result

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        evidence: dict[str, Any] = {"smallest_curvature": float(row["softest"])}
        if np.isfinite(row.get("rest_ends", np.nan)):
            return _judged_from_rest(action, row, evidence)
        if row["softest"] < 0:
            evidence["why"] = (
                "the curve of stationary points folds: between the spinodals there are two minima, with a saddle point "
                "of that smallest Hessian eigenvalue (whitened) between them"
            )
            evidence["barrier"] = "along the one-parameter path, so an upper bound"
            evidence |= {name: nan_to_none(row[name]) for name in _ESTIMATES if name in row}
            return Verdict("first", (_passage(action, row),), evidence)
        P_x = nan_to_none(row["P_x"])
        if P_x is None:
            evidence["why"] = "one minimum at every P, and no steepest point of d ln g/d ln P"
            return Verdict("none", (), evidence)
        evidence["why"] = "one minimum at every P: the smallest Hessian eigenvalue (whitened) along it stays positive"
        there = p.replace(P=np.full(p.shape, P_x))
        state = state_at(action, global_minimum(action, there), there)
        return Verdict("crossover", (Passage("P_x", "crossover", P_x, state, state),), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        if not passages:
            return {"P_x": None}
        (passage,) = passages
        if passage.window is None:
            return {passage.name: passage.P}
        return {
            "P_star": passage.P,
            "spinodals": [end if np.isfinite(end) else None for end in passage.window],
            "jump": passage.jump,
            "action": passage.before.action,
            "barrier": passage.evidence["barrier"],
        }


def _passage(action: Action, row: Mapping[str, Array]) -> Passage:
    before, after = (
        State(
            phase_of(float(row["copying_share"][side]), True),
            {name: float(row[name][side]) for name in action.order_parameters},
            float(row["loss"][side]),
            float(row["action"][side]),
        )
        for side in (0, 1)
    )
    low, high = (float(end) for end in row["spinodals"])
    if low >= float(row["P_star"]) * (1 - _SAME):
        return Passage("P_star", "onset", float(row["P_star"]), before, before)
    return Passage(
        "P_star", "jump", float(row["P_star"]), before, after, (low, high), {"barrier": float(row["barrier"])}
    )


def _from_rest(curve: StationaryCurves) -> dict[str, Array]:
    """Describe what follows even attention, where that is stationary at every P: a jump, or an onset (L = 2)."""
    action = curve.action
    assert isinstance(action, TwoLevelMap)
    curve = reached(curve)
    first = first_fold(curve)
    p, nothing = curve.p, tuple(np.zeros(curve.p.shape) for _ in action.coordinates)

    def at_rest(log_P: Array, p: Parameters) -> Array:
        return action.curvatures(nothing, p.replace(P=np.exp(log_P)))[..., 0]

    about = np.log(curve.at(curve.nodes[:, 0], p).P)
    ends = np.exp(solve.root(at_rest, about - _FAR, about + _FAR, p))
    there = p.replace(P=ends)
    found = {
        "P_star": ends.copy(), "spinodals": np.stack([ends, ends], axis=-1), "barrier": np.zeros(p.shape),
        "action": action.unstructured(there)[0], **sides(action, nothing, nothing, there),
    }  # fmt: skip
    jumps = np.flatnonzero(first != 0)
    rest = curve[jumps]
    endless = np.full(jumps.size, np.inf)
    folds = np.full((jumps.size, 2), np.nan)
    for name, values in jump_from_rest(rest, first[jumps], first[jumps], folds, endless).items():
        if name in found:
            found[name][jumps] = values
    _, softness = interior_lowest(beyond_fold(rest, first[jumps]))
    again = jumps[softness < 0]  # a second window further on: nothing here would tell which jump comes first
    found["P_star"][again] = np.nan
    softest = np.zeros(p.shape)
    softest[jumps] = rest.curvature(first[jumps] / 2, rest.p)
    both = np.stack([found["action"], found["action"]], axis=-1)
    return {**found, "action": both, "rest_ends": ends, "softest": softest}


def _judged_from_rest(action: Action, row: Mapping[str, Array], evidence: dict[str, Any]) -> Verdict:
    passage = _passage(action, row)
    evidence["even_attention_ends"] = float(row["rest_ends"])
    if passage.kind == "onset":
        evidence["why"] = (
            "copying grows out of even attention, which is stationary at every P, where that turns unstable"
        )
        return Verdict("second", (passage,), evidence)
    evidence["why"] = (
        "even attention is stationary at every P, because different tokens of a whole vocabulary tell it nothing; the "
        "minimum that follows it exists from the lower spinodal on. Even attention turns at its own end into a minimum "
        "that looks anywhere but at the copy, so there is no upper one"
    )
    evidence["barrier"] = "along the one-parameter path, so an upper bound"
    return Verdict("first", (passage,), evidence)


def _jump(curve: StationaryCurves, softest: Array) -> dict[str, Array]:
    """Describe the jump of curves that fold, ``softest`` between their folds."""
    action = curve.action
    found = coexistence(curve, softest)
    there = curve.p.replace(P=np.exp(found.log_P))
    points = [action.profile(u, there).points for u in (found.low, found.saddle, found.high)]
    values = [action.jet(z, there).value for z in points]
    pair = low, high = points[0], points[2]
    result = {
        "P_star": there.P,
        "spinodals": np.exp(found.log_window),
        "barrier": np.where(np.isnan(found.barrier), values[1] - values[0], found.barrier),
        "action": np.stack([values[0], values[2]], axis=-1),
        "loss": np.stack([action.loss(z, there) for z in pair], axis=-1),
        "copying_share": np.stack([action.copying_share(z, there) for z in pair], axis=-1),
    }
    # F₁ − F₂ changes with P at the rate (loss₁ − loss₂)/(2κ): the envelope theorem.
    rate = (result["loss"][..., 1] - result["loss"][..., 0]) / (2 * there.kappa)
    if isinstance(action, Fluctuating):
        shifts = [action.fluctuation(z, there) for z in pair]
        result["P_star_error"] = np.abs(action.uncertainty(low, high, there) / rate)
        result["P_star_with_fluctuations"] = there.P - (shifts[1] - shifts[0]) / rate
    orders = [action.order(z, there) for z in pair]
    for k, name in enumerate(action.order_parameters):
        result[name] = np.stack([np.broadcast_to(order[k], there.shape) for order in orders], axis=-1)
    return result
