"""The transitions of one model, with the verdict on their order and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasekit.model import Estimator, Model
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import Array
from phasekit.theory.transitions.pinned import pinned_jumps
from phasekit.theory.transitions.table import locate, nan_to_none, parameters_without_P

#: A passage is a jump if g²/q changes by more between two neighbouring P.
_JUMP = 0.01


@dataclass(frozen=True)
class Transitions:
    """What happens to the minima of one model as P grows.

    Attributes
    ----------
    model : Model
        Its P, if given, plays no role.
    estimator : "map" or "posterior"
    order : "second", "first", "crossover" or "none"
    values : the thresholds and jumps, ready for JSON
        second order: ``P1`` (onset), ``P2`` (g²/q = 1/2 on the global branch, or None), and the same for a posterior
        without an onset (P1 None; "crossover", or "first" if the global minimum changes at P2);
        first order: ``P_star``, ``spinodals`` [lower, upper], ``jump`` {order parameter and loss: [low, high]},
        ``barrier``; crossover: ``P_x``, the steepest point. Factorised heads: every transition is of first order;
        ``P1`` and ``P2`` or ``P_star``, and ``jumps``, each with what it leads from and to
    evidence : the numbers that decide the order, and a sentence that says how
    caveat : where this theory is known to be approximate, in one sentence; None if it is not
    """

    model: Model
    estimator: Estimator
    order: str
    values: dict[str, Any]
    evidence: dict[str, Any] = field(default_factory=dict)
    caveat: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return everything as plain JSON values (the command line's contract)."""
        model = self.model.describe()
        model.pop("P")
        return {
            "model": model,
            "estimator": self.estimator,
            **({} if self.caveat is None else {"caveat": self.caveat}),
            "order": self.order,
            **self.values,
            "evidence": self.evidence,
        }


def find_transitions(model: Model, estimator: Estimator = "map") -> Transitions:
    """Locate and classify the transitions of a model as P grows.

    Raises
    ------
    InputError
        If there is no theory for the score and estimator.
    """
    action = action_for(model, estimator)
    if action.pinned:
        return Transitions(model, estimator, "first", *_pinned(action, model))
    parameters = parameters_without_P(model)
    located = locate(action, parameters.ravel())
    row = {name: values[0] for name, values in located.items()}
    if action.smooth:
        order, values, evidence = _smooth(row)
    else:
        order, values, evidence = _symmetric(row) if action.symmetric else _folded(row, action.order_parameters)
    return Transitions(model, estimator, order, values, evidence, action.caveat(parameters))


def _symmetric(row: dict[str, Array]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    # A jump would give beta = 0. Where both modes soften at nearly the same P (V close to L) the measured exponent can
    # exceed 1/2 at these distances, without any jump.
    continuous = row["quartic"] > 0 and row["beta"] > 0.25
    evidence = {
        "quartic": float(row["quartic"]),
        "beta": float(row["beta"]),
        "copying_share_at_onset": float(row["copying_at_onset"]),
        "why": "the origin is unstable above P1; the quartic term along the critical mode is positive and the order "
        "parameter was measured to grow as (P - P1)^beta from 0"
        if continuous
        else "the order parameter does not grow continuously from the onset",
    }
    P2 = nan_to_none(row["P2"])
    if P2 is not None:
        evidence["P2"] = "crossover: g^2/q passes 1/2 smoothly on the global branch"
    elif row["copying_at_onset"] >= 0.5:
        evidence["P2"] = "none: the mode that grows at P1 is copying already (g^2/q above 1/2)"
    else:
        evidence["P2"] = "none found: g^2/q stays below 1/2"
    return "second" if continuous else "first", {"P1": float(row["P1"]), "P2": P2}, evidence


def _smooth(row: dict[str, Array]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    why = "pooling over the vocabulary is a vector, all components of which fluctuate: its mean grows without an onset"
    values, evidence = {"P1": None, "P2": nan_to_none(row["P2"])}, {"why": why}
    if values["P2"] is None:
        return "none", values, {**evidence, "P2": "none found: g^2/q stays below 1/2"}
    below, above = (float(share) for share in row["share"])
    jumps = above - below > _JUMP
    words = "the global minimum changes" if jumps else "g^2/q passes 1/2 smoothly on the global branch"
    return "first" if jumps else "crossover", values, {**evidence, "P2": words, "copying_share_at_P2": [below, above]}


def _pinned(action: Action, model: Model) -> tuple[dict[str, Any], dict[str, Any]]:
    jumps = pinned_jumps(action, parameters_without_P(model).ravel())
    thresholds: dict[str, float | None] = {"P_star": jumps[-1].P}
    if not model.score.normalised:
        thresholds = {"P1": jumps[0].P, "P2": jumps[1].P if len(jumps) > 1 else None}
    described = [
        {
            "P": jump.P,
            "from": jump.before,
            "to": jump.after,
            "spinodals": [end if np.isfinite(end) else None for end in jump.window],
            "jump": {name: list(pair) for name, pair in jump.order.items()},
            "action": jump.action,
        }
        for jump in jumps
    ]
    why = "the prior of a small pattern grows linearly and the data's gain quadratically: both minima exist at a jump"
    return {**thresholds, "jumps": described}, {"why": why}


def _folded(row: dict[str, Array], names: tuple[str, str]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    evidence: dict[str, Any] = {"smallest_curvature": float(row["softest"])}
    if row["softest"] < 0:
        evidence["why"] = (
            "the curve of stationary points folds: between the spinodals there are two minima, with a saddle point of "
            "that smallest Hessian eigenvalue (whitened) between them"
        )
        evidence["barrier"] = "along the one-parameter path, so an upper bound"
        for name in ("P_star_error", "P_star_with_fluctuations"):
            if name in row:
                evidence[name] = nan_to_none(row[name])
        jump = {name: [float(x) for x in row[name]] for name in (*names, "loss")}
        values = {
            "P_star": float(row["P_star"]),
            "spinodals": [float(x) for x in row["spinodals"]],
            "jump": jump,
            "action": float(row["action"][0]),
            "barrier": float(row["barrier"]),
        }
        return "first", values, evidence
    P_x = nan_to_none(row["P_x"])
    if P_x is None:
        evidence["why"] = "one minimum at every P, and no steepest point of d ln g/d ln P"
        return "none", {"P_x": None}, evidence
    evidence["why"] = "one minimum at every P: the smallest Hessian eigenvalue (whitened) along it stays positive"
    return "crossover", {"P_x": P_x}, evidence
