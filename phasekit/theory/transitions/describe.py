"""The transitions of one model, with the verdict on their order and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Estimator, Model, given_model, in_words
from phasekit.show import Shown, Table, shown
from phasekit.theory.action import action_for
from phasekit.theory.action.two_level import TwoLevelMap
from phasekit.theory.transitions.course import COURSES, THRESHOLDS, course_of, nan_to_none
from phasekit.theory.transitions.passage import Passage
from phasekit.theory.transitions.precision import check_error, locate
from phasekit.theory.transitions.table import parameters_without_P


@dataclass(frozen=True, repr=False)
class Transitions(Shown):
    """What happens to the minima of one model as P grows.

    Attributes
    ----------
    model : Model
        Its P, if given, plays no role.
    estimator : "map" or "posterior"
    order : "second", "first", "crossover", "front" (of a masked head: row by row) or "none": what kind of transition
        the first passage is
    passages : tuple of Passage
        In order of P.
    values : the passages as plain JSON values, as the command line prints them
    evidence : the numbers that decide the order, and a sentence that says how
    caveat : where this theory is known to be approximate, in one sentence; None if it is not
    """

    model: Model
    estimator: Estimator
    order: str
    passages: tuple[Passage, ...]
    evidence: dict[str, Any] = field(default_factory=dict)
    caveat: str | None = None

    def threshold(self, name: str) -> float | None:
        """Return the P of the passage that goes by a name ("P_star"); None if there is none."""
        return next((passage.P for passage in self.passages if passage.name == name), None)

    def passage(self, name: str) -> Passage:
        """Return the passage that goes by a name.

        Raises
        ------
        InputError
            If this model has none of that name.
        """
        for passage in self.passages:
            if passage.name == name:
                return passage
        known = ", ".join(passage.name for passage in self.passages) or "none at all"
        raise InputError("passage", name, f"this model has none; it has {known}")

    @property
    def values(self) -> dict[str, Any]:
        found = course_of(action_for(self.model, self.estimator)).values(self.passages)
        errors = {f"{each.name}_error": each.error for each in self.passages if each.error is not None}
        return {key: value for name in found for key, value in ((name, found[name]), *_beside(name, errors))}

    def table(self) -> Table:
        """Return every number with what it means, the evidence, and the caveat as notes."""
        found = self.describe()
        numbers = {
            name: value for name, value in found.items() if name not in ("model", "estimator", "caveat", "evidence")
        }
        known = meanings(self.estimator)
        rows = [(name, shown(value), known.get(name, "")) for name, value in _flat(numbers)]
        notes = ["nothing changes at any P"] if self.order == "none" else []
        notes += [f"evidence: {name} = {shown(value)}" for name, value in _flat(self.evidence)]
        notes += [] if self.caveat is None else [f"caveat: {self.caveat}"]
        title = f"Transitions ({in_words(self.model, self.estimator, varied=['P'])})"
        return Table(title, ["", "", ""], rows, notes)

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


def meanings(estimator: str) -> dict[str, str]:
    """Return what the entries of an answer mean, by name; of thresholds, whose they are."""
    known = {"order": "second: continuous with a kink; first: a jump; crossover: smooth; front: row by row"}
    known |= {name: f"{estimator}: {threshold.meaning}" for name, threshold in THRESHOLDS.items()}
    known |= {
        f"{name}_error": "its error: how far a finer computation lies, or a standard error" for name in THRESHOLDS
    }
    for course in COURSES.values():
        known |= course.meanings
    return known


def _beside(name: str, errors: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return what stands beside a threshold: its error, if it has one."""
    return [(f"{name}_error", errors[f"{name}_error"])] if f"{name}_error" in errors else []


def _flat(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested entries as a flat list, their names joined by spaces."""
    entries: list[tuple[str, Any]] = []
    for name, value in document.items():
        entries += _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return entries


def find_transitions(model: Model, estimator: Estimator = "map", *, error: float | None = None) -> Transitions:
    """Locate and classify the transitions of a model as P grows.

    Parameters
    ----------
    model : Model
    estimator : "map" or "posterior"
    error : float, optional
        Relative error of the posterior's thresholds, at most: looser ones are found faster.

    Raises
    ------
    InputError
        If there is no theory for the score and estimator, or no such error can be asked for.
    ArithmeticError
        If the search failed.
    """
    model = given_model(model, "for a grid there is transition_table")
    action = action_for(model, estimator)
    p = parameters_without_P(model).ravel()
    course = course_of(action)
    row = {name: values[0] for name, values in locate(action, p, check_error(action, error)).items()}
    if row["failed"]:
        why = "the search failed" if error is None else f"the search failed, or the error {error:g} can't be reached"
        raise ArithmeticError(f"the transitions of {in_words(model, estimator, varied=['P'])} weren't found: {why}")
    order, passages, evidence = course.judge(action, p, row)
    passages = tuple(replace(each, error=nan_to_none(row.get(f"{each.name}_error", np.nan))) for each in passages)
    if model.inputs == "token+position" and isinstance(action, TwoLevelMap) and "mean" not in action.coordinates:
        evidence["inputs"] = (
            "as with positional inputs: this score ignores what is added to all logits of a row, and the pattern needs "
            "the position-position block of G only"
        )
    return Transitions(model, estimator, order, passages, evidence, action.caveat(p))
