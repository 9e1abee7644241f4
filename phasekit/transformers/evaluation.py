"""A trained network under shift, beside the trivial and the best predictor, on the same prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from phasekit.errors import InputError
from phasekit.tasks.in_context import NO_SHIFT, Prompts, Shift, Task
from phasekit.transformers.in_context import InContext, answer

Array = NDArray[np.float64]

#: Deviant values of arXiv:2508.14685, of both signs.
DEVIANTS = tuple(sign * size for size in (10.0, 100.0, 1000.0, 20_000.0) for sign in (1, -1))
_SCALES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
_QUANTIFIER_SCALES = (1.0, 3.0, 5.0, 9.0, 15.0, 29.0)
_LENGTHS = (10, 40, 80, 200)
#: Deviant values are tested in prompts that are no longer than this.
_WITH_DEVIANT = 11


@dataclass(frozen=True)
class Evaluation:
    """What became of one set of shifted prompts.

    Attributes
    ----------
    shift : Shift
    errors : name of predictor ("network", "trivial", "optimal") to array, shape (prompts,)
        What a test counts (see :class:`phasekit.tasks.in_context.Task`); "optimal" is missing where nobody knows it.
    answer_errors : array, shape (prompts, answers)
        Of the network; NaN where nothing counts.
    """

    shift: Shift
    errors: dict[str, Array]
    answer_errors: Array

    def row(self) -> dict[str, Any]:
        """Return the means, the error at and behind a deviant value, and the shift, as numbers and words by name."""
        place, here, behind = self.shift.place, np.nan, np.nan
        if place is not None and place < self.answer_errors.shape[1]:
            here, behind = mean(self.answer_errors[:, place]), mean(self.answer_errors[:, place + 1 :])
        return {
            **{name: getattr(self.shift, name) for name in ("points", "x_scale", "coefficient_scale", "law")},
            "deviant": np.nan if self.shift.deviant is None else self.shift.deviant,
            "place": -1 if place is None else place,
            "error": mean(self.errors["network"]),
            "answer_error": mean(self.answer_errors),
            "error_at_deviant": here,
            "error_behind_deviant": behind,
            "trivial": mean(self.errors["trivial"]),
            "optimal": mean(self.errors["optimal"]) if "optimal" in self.errors else np.nan,
        }


def evaluate(model: nn.Module, task: Task, shift: Shift = NO_SHIFT, *, prompts: int = 256, seed: int = 0) -> Evaluation:
    """Test a network on shifted prompts.

    Parameters
    ----------
    model : nn.Module
    task : Task
    shift : Shift
    prompts : int
    seed : int
        Of the prompts: networks tested with the same seed see the same ones.

    Raises
    ------
    InputError
        For a shift that the task doesn't know, or prompts that are longer than the network's positions.
    """
    shift = shift.at(points=task.points if shift.points is None else shift.points, law=shift.law or task.laws[0])
    drawn = task.draw("test", seed, 0, prompts, shift)
    return judged(task, shift, drawn, answer(model, drawn))


def judged(task: Task, shift: Shift, drawn: Prompts, found: Array) -> Evaluation:
    """Return the evaluation of given answers."""
    predictors = {"network": found, "trivial": task.trivial(drawn)}
    if (best := task.optimal(drawn)) is not None:
        predictors["optimal"] = best
    errors = {name: task.prompt_errors(drawn, given) for name, given in predictors.items()}
    each = np.where(task.counted(drawn), task.errors(drawn, found), np.nan)
    return Evaluation(shift, errors, each)


def grid(task: Task, name: str) -> list[Shift]:
    """Return the shifts of a test by its name.

    Parameters
    ----------
    task : Task
    name : "none", "few", "scales", "deviants" or "all"
        Prompts like those of training; a few of each kind; lengths and standard deviations as in arXiv:2508.14685 (a
        coarser grid of the same range), and the laws of inputs; one deviant value at each place; all of these.

    Raises
    ------
    InputError
        For another name.
    """
    parts = {"none": [NO_SHIFT], "few": few(task), "scales": _scales(task), "deviants": _deviants(task)}
    if name != "all" and name not in parts:
        raise InputError("tests", name, f"must be one of {', '.join([*parts, 'all'])}")
    names = tuple(parts) if name == "all" else ("none", name)
    chosen = [shift for part in names for shift in parts[part]]
    return list(dict.fromkeys(shift.at(points=shift.points or task.points) for shift in chosen))


def few(task: Task) -> list[Shift]:
    """Return prompts like those of training, magnified ones, and one value made deviant in the middle."""
    points = min(task.points, _WITH_DEVIANT)
    if "x_scale" not in task.shifts:
        return [NO_SHIFT, Shift(points=2 * task.points)]
    scaled = [Shift(points=points, x_scale=scale) for scale in (1.0, 3.0, 10.0, 29.0)]
    deviant = [Shift(points=points, deviant=value, place=points // 2) for value in DEVIANTS]
    if "coefficient_scale" in task.shifts:
        scaled += [Shift(points=points, coefficient_scale=scale) for scale in (3.0, 10.0)]
    return [*scaled, *deviant]


def _scales(task: Task) -> list[Shift]:
    laws = [Shift(law=law) for law in task.laws[1:]]
    if "x_scale" not in task.shifts:
        return [*laws, *(Shift(points=points) for points in _LENGTHS)]
    if "coefficient_scale" not in task.shifts:
        return [*laws, *(Shift(points=points, x_scale=s) for points in _LENGTHS for s in _QUANTIFIER_SCALES)]
    short, long = min(9, task.points), max(40, task.points)
    lengths = (short, task.points, long)
    inputs = [Shift(points=points, x_scale=scale) for points in lengths for scale in _SCALES]
    return [*laws, *inputs, *(Shift(points=points, coefficient_scale=s) for points in lengths for s in _SCALES)]


def _deviants(task: Task) -> list[Shift]:
    if "deviant" not in task.shifts:
        return []
    points = min(task.points, _WITH_DEVIANT)
    return [Shift(points=points, deviant=value, place=place) for value in DEVIANTS for place in range(points)]


def check_grid(subject: InContext, shifts: Sequence[Shift]) -> None:
    """Raise InputError unless a network has positions for all of these prompts."""
    for shift in shifts:
        subject.task.check(shift)
        subject.check_points(shift.points or subject.task.points)


def mean(values: Array) -> float:
    """Return the mean over what isn't NaN; NaN if nothing is left."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if kept.size else float("nan")
