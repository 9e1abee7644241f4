"""Courses of actions whose minima are listed: the front of a masked head, and patterns that an encoding can make.

Each row of a masked head jumps by itself; where the vocabulary is large for the context, many do so at once, at the
start of the front.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array
from phasekit.theory.action.listed import Listed
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.folds import EQUAL_ACTIONS, STEEPEST
from phasekit.theory.transitions.largest_step import first, jump_between
from phasekit.theory.transitions.passage import Passage, State, Threshold, phase_of

END_OF_FRONT = Threshold(
    "P_end", r"$P_{\mathrm{end}}$", "where the last position begins to copy: its weight on the token passes 1/√(n w)"
)
#: Passages are looked for over this factor of P below the end, at so many values.
_RANGE, _SCAN = 100.0, 40
_LARGEST = 1e20


class ListedCourse(Course):
    """A jump of the global minimum, if there is one, and another threshold that is always there."""

    other: ClassVar[Threshold]

    @abstractmethod
    def passed(self, values: Mapping[str, Any]) -> bool:
        """Return whether a state lies beyond the end of what is looked for."""

    @abstractmethod
    def of_one(self, action: Listed, p: Parameters, end: float, P: Array) -> dict[str, Any]:
        """Return what :meth:`locate` finds for one model, whose passages lie among ``P`` and which ends at ``end``."""

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the jump and the other threshold.

        Returns
        -------
        dict of arrays
            The other threshold (``P_end``: the smallest P at which the last position copies; ``P_x``: steepest point of
            a pattern that grows smoothly); ``largest_step``: the largest change of g at one P; where that is a jump
            ``P_star``, ``spinodals`` (between which descents from both ends stay on their sides), and both order
            parameters and ``loss`` (low, high); ``failed``.
        """
        assert isinstance(action, Listed)
        pairs = ("spinodals", *action.order_parameters, "loss", "copying_share", *action.coordinates)
        result = {name: np.full(p.shape, np.nan) for name in (self.other.name, "P_star", "largest_step", "action")}
        result |= {name: np.full((*p.shape, 2), np.nan) for name in pairs}
        result["failed"] = np.zeros(p.shape, dtype=bool)
        for k in range(p.shape[0]):
            try:
                found = self._found(action, p[k])
            except ArithmeticError:
                result["failed"][k] = True
                continue
            for name, value in found.items():
                result[name][k] = value
        return result

    def _found(self, action: Listed, p: Parameters) -> dict[str, Any]:
        def ended(P: float) -> bool:
            return self.passed(action.lowest(p.replace(P=P)))

        end = float(p.kappa * p.V * p.L / p.sigma_g**2)
        if not np.isfinite(end):
            raise ArithmeticError("a number of the model is missing")
        while not ended(end):
            end *= 2
            if end > _LARGEST:
                raise ArithmeticError("nothing copies")
        while ended(end):
            end /= 2
        end = first(ended, end, 2 * end)
        return self.of_one(action, p, end, np.geomspace(end / _RANGE, 1.2 * end, _SCAN))

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        assert isinstance(action, Listed)
        evidence: dict[str, Any] = {"largest_step": float(row["largest_step"])}
        passages: list[Passage] = []
        if np.isfinite(row[self.other.name]):
            where = float(row[self.other.name])
            values = action.lowest(p[0].replace(P=where))
            phase = phase_of(values["copying_share"], True)
            there = State(phase, values["order_parameters"], values["loss"], values["action"])
            passages.append(Passage(self.other.name, "crossover", where, there, there))
        if np.isnan(row["P_star"]):
            order = "front" if self.other is END_OF_FRONT else "crossover"
            evidence["why"] = (
                "no P at which the copy overlap of the global minimum changes by more than a row or a hair"
            )
            return Verdict(order, tuple(passages), evidence)
        evidence["why"] = "the copy overlap changes by largest_step at one P: the states on both sides are minima there"
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
        beside = {name: [float(one) for one in row[name]] for name in action.coordinates}
        passages.append(Passage("P_star", "jump", float(row["P_star"]), before, after, (low, high), beside))
        return Verdict("first", tuple(sorted(passages, key=lambda each: each.P)), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {passage.name: passage.P for passage in passages}
        for passage in passages:
            if passage.window is not None:
                found["spinodals"] = [nan_to_none(end) for end in passage.window]
                found["jump"] = {**passage.jump, **passage.evidence}
                found["action"] = passage.before.action
        return found


class Front(ListedCourse):
    """Copying spreads along the context; P_star is the place of a jump of many rows, if there is one."""

    name: ClassVar[str] = "front"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, END_OF_FRONT)
    meanings: ClassVar[Mapping[str, str]] = {
        "jump front": "up to the last position that copies well, w α > 1/2, before and after P_star",
        "jump readout": "gain of the readout, before and after P_star",
    }
    other: ClassVar[Threshold] = END_OF_FRONT
    #: A jump moves the copy weight of more rows than this at once.
    few: ClassVar[float] = 3.0

    def passed(self, values: Mapping[str, Any]) -> bool:
        # On the way from 1/n, attention spread evenly, to 1/w, what the readout asks for.
        return bool(values["positions"]["copy"][-1] > (values["last_keys"] * values["coordinates"]["readout"]) ** -0.5)

    def of_one(self, action: Listed, p: Parameters, end: float, P: Array) -> dict[str, Any]:
        number = action.lowest(p.replace(P=end))["positions"]["copy"].size
        return {"P_end": end, **jump_between(action, p, P, self.few / number)}


class Patterns(ListedCourse):
    """A pattern appears at P_star, or grows smoothly, fastest at P_x."""

    name: ClassVar[str] = "patterns"
    thresholds: ClassVar[tuple[Threshold, ...]] = (EQUAL_ACTIONS, STEEPEST)
    other: ClassVar[Threshold] = STEEPEST
    #: A jump changes g by more than this.
    few: ClassVar[float] = 0.02

    def passed(self, values: Mapping[str, Any]) -> bool:
        return bool(values["averages"]["g"] > 0.5)

    def of_one(self, action: Listed, p: Parameters, end: float, P: Array) -> dict[str, Any]:
        found = jump_between(action, p, P, self.few)
        if "P_star" not in found:
            log_P = np.linspace(np.log(P[0]), np.log(P[-1]), 4 * P.size)
            log_g = np.log([action.lowest(p.replace(P=np.exp(x)))["averages"]["g"] for x in log_P])
            slope, middle = np.diff(log_g), (log_P[1:] + log_P[:-1]) / 2
            k = int(np.clip(slope.argmax(), 1, slope.size - 2))
            bend = slope[k - 1] - 2 * slope[k] + slope[k + 1]
            found["P_x"] = float(
                np.exp(middle[k] + (middle[1] - middle[0]) * (slope[k - 1] - slope[k + 1]) / (2 * bend))
            )
        return found
