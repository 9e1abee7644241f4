"""The courses of transitions: which passages an action goes through as P grows, and how they are found.

An action names its course (:attr:`phasekit.theory.action.Action.course`). A course is one file with all that is known
of its passages: how they are located for many models at once, and the words and the JSON of one model. A new one is
registered with :func:`register`; then tables, scaling laws, the command line and pictures know its thresholds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Action, Array
from phasekit.theory.transitions.passage import Passage, Threshold

#: All courses and all thresholds by name; see :func:`register`.
COURSES: dict[str, Course] = {}
THRESHOLDS: dict[str, Threshold] = {}


class Verdict(NamedTuple):
    """What one model goes through: the order of its transition, its passages in order of P, and the evidence."""

    order: str
    passages: tuple[Passage, ...]
    evidence: dict[str, Any]


class Course(ABC):
    """What the minima of some actions go through as P grows.

    Attributes
    ----------
    name : str
        As actions name it.
    thresholds : tuple of Threshold
        Those that its passages go by.
    meanings : mapping
        One line for each other entry of :meth:`values`.
    can_end : bool
        Whether its stationary points are one curve, whose folds may come and go: its line of jumps then ends somewhere.
    """

    name: ClassVar[str]
    thresholds: ClassVar[tuple[Threshold, ...]]
    meanings: ClassVar[Mapping[str, str]] = {}
    can_end: ClassVar[bool] = False

    @abstractmethod
    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Locate the passages of every model; ``p`` is flat and its P is ignored.

        Returns
        -------
        dict of arrays, one row per model
            NaN where a quantity doesn't exist; and ``failed``, true where a search failed, so that NaN says nothing.
        """

    @abstractmethod
    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        """Say in words what the row that :meth:`locate` found for one model (``p`` of length 1) means."""

    @abstractmethod
    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        """Return passages as plain JSON values."""


def register(course: Course) -> None:
    """Make a course and its thresholds known by their names.

    Raises
    ------
    InputError
        If the name of the course is taken, or one of its thresholds has the name of a different one.
    """
    if course.name in COURSES:
        raise InputError("course", course.name, "is taken by another course of transitions")
    for threshold in course.thresholds:
        if THRESHOLDS.get(threshold.name, threshold).symbol != threshold.symbol:
            raise InputError("threshold", threshold.name, "is taken by one with another symbol")
    COURSES[course.name] = course
    for threshold in course.thresholds:
        THRESHOLDS.setdefault(threshold.name, threshold)


def course_of(action: Action) -> Course:
    """Return the course that an action names."""
    return COURSES[action.course]


def nan_to_none(value: float | Array) -> float | None:
    """Return a plain float, or None for NaN (JSON has no NaN)."""
    return None if np.isnan(value) else float(value)
