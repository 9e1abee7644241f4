"""In-context networks of a sweep, arm by arm: their tests as tables of seeds and prompts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures._sweeps import results
from phasekit.drawing.presets import Preset
from phasekit.measure.arms import Mean, mean_over_seeds
from phasekit.runs.procedures.icl import InContextLearning
from phasekit.runs.store.store import Finished
from phasekit.transformers.decoder import PRESETS
from phasekit.transformers.in_context import InContext

Array = NDArray[np.float64]

#: Sweeps of arms that are compared on one task each.
LINEAR, EVERY, SCORES = "icl_linear", "icl_every", "icl_scores"
COLOURS = {"softmax": "C0", "ssa": "C1", "temperature": "C2"}
_NOT_THE_SHIFT = ("error", "trivial", "optimal", "answer_error", "error_at_deviant", "error_behind_deviant")


@dataclass
class Arm:
    """Networks that differ in their seed only.

    Attributes
    ----------
    subject : InContext
    procedure : InContextLearning
    found : seed to result
    """

    subject: InContext
    procedure: InContextLearning
    found: dict[int, Finished] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The arm in words: score, how its parameters are learned, and what differs from the small architecture."""
        score, small = self.subject.score, PRESETS["small"].describe()
        fixed = self.subject.learned == "no" and score.learnable
        numbers = ", ".join(f"{name} = {value:g}" for name, value in score.numbers.items())
        of_layer = " (one for a layer)" if self.subject.learned == "layer" else ""
        words = f"{score.name} ({numbers})" if fixed else f"{score.name}{of_layer}"
        if hasattr(score, "scores"):
            words = f"{score.name} of {' and '.join(part.name for part in score.scores)}"
        shape = self.subject.architecture.describe()
        said = {"attention_norm": "no norm before attention", "squash": "asinh read-in", "mlp": "no MLP"}
        said["attention"] = "no attention"
        other = [said[name] for name, value in shape.items() if name in said and value != small[name]]
        return ", ".join([words, *other])

    @property
    def seeds(self) -> list[int]:
        return sorted(self.found)

    def rows(self) -> pd.DataFrame:
        """Return the tests, one row each, without what was found; the same for all seeds."""
        values = self.found[self.seeds[0]].values
        return pd.DataFrame({name: x for name, x in values.items() if name not in _NOT_THE_SHIFT})

    def column(self, name: str) -> Array:
        """Return a column for all seeds, shape (seeds, tests)."""
        return np.stack([self.found[seed].values[name] for seed in self.seeds])

    def array(self, name: str) -> Array:
        """Return an array that all seeds kept, with a first axis of seeds."""
        return np.stack([self.found[seed].arrays[name] for seed in self.seeds]).astype(float)

    def errors(self, test: int) -> Array:
        """Return the errors of one test, shape (seeds, prompts)."""
        return self.array("errors")[:, test]

    def mean(self, test: int) -> Mean:
        """Return the mean error of a test over seeds and prompts."""
        return mean_over_seeds(self.errors(test))


@cache
def arms(preset: Preset, name: str) -> tuple[Arm, ...]:
    """Return the arms of a sweep, in its order."""
    found: dict[InContext, Arm] = {}
    for task, result in results(preset, name):
        assert isinstance(task.model, InContext)
        assert isinstance(task.procedure, InContextLearning)
        found.setdefault(task.model, Arm(task.model, task.procedure)).found[task.data_seed] = result
    return tuple(found.values())


def tests(arm: Arm, **wanted: object) -> list[int]:
    """Return the numbers of an arm's tests with these values, unchanged networks unless asked otherwise."""
    rows = arm.rows()
    keep = np.ones(len(rows), dtype=bool)
    for name, value in {"intervention": "", **wanted}.items():
        column = rows[name].to_numpy()
        keep &= (column == value) if value == value else np.array([x != x for x in column])  # NaN: no deviant value
    return [int(k) for k in np.flatnonzero(keep)]


def plain(arm: Arm, **wanted: object) -> list[int]:
    """Return tests without deviant value or other law, at standard scales where nothing else is asked for."""
    law = arm.subject.task.laws[0]
    standard = {"x_scale": 1.0, "coefficient_scale": 1.0, "law": law, "place": -1}
    return tests(arm, **{**standard, **wanted})


def summary(arm: Arm, numbers: list[int]) -> pd.DataFrame:
    """Return one row for each of some tests: the shift, the mean error with its interval, both predictors."""
    rows = arm.rows().iloc[numbers].reset_index(drop=True)
    means = [arm.mean(k) for k in numbers]
    trivial, optimal = (arm.column(name).mean(0)[numbers] for name in ("trivial", "optimal"))
    low, high = np.array([mean.interval for mean in means]).reshape(-1, 2).T
    of_seeds = arm.column("error")[:, numbers]
    return rows.assign(
        arm=arm.label,
        error=[mean.value for mean in means],
        low=low,
        high=high,
        **{"lowest seed": of_seeds.min(0), "highest seed": of_seeds.max(0)},
        trivial=trivial,
        optimal=optimal,
        seeds=len(arm.seeds),
        prompts=arm.array("errors").shape[2],
    )


def caption(arm: Arm) -> str:
    """Return what a reader has to know of an arm's training, in a line."""
    settings, task = arm.procedure, arm.subject.task
    grown = "" if settings.curriculum.first is None else f"{settings.curriculum.first} to "
    return f"{grown}{task.points} points, {settings.steps} steps of {settings.batch} prompts, {len(arm.seeds)} seeds"
