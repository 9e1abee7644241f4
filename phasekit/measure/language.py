"""Language models of a store, arm by arm: learning curves, and what each arm can do less what the reference can.

Arms of one experiment differ in the score and in how its parameters are learned, and in nothing else that a task's
description holds: shape, text, schedule, steps. Of one seed they begin with the same weights and see the same batches,
and all are tested on the same documents and pairs, so that differences are taken cell by cell (see
:mod:`phasekit.measure.arms`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.language.evaluation import Evaluation
from phasekit.language.pairs import TIE
from phasekit.language.subject import LanguageModel
from phasekit.measure.arms import Difference, Mean, compare_tests, mean_over_seeds
from phasekit.measure.bootstrap import student_interval
from phasekit.measure.examined import evaluation_of, language_tasks
from phasekit.runs.procedures.language import LanguageTraining
from phasekit.runs.store.store import Finished, Store
from phasekit.scores import Softmax

Array = NDArray[np.float64]

#: The test that is the mean over all files of pairs.
AVERAGE = "mean of all"


@dataclass(frozen=True)
class Arm:
    """Models that differ in their seed only.

    Attributes
    ----------
    subject : LanguageModel
    found : seed to result
    examined : seed to Evaluation
    """

    subject: LanguageModel
    found: dict[int, Finished] = field(default_factory=dict)
    examined: dict[int, Evaluation] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What tells it from the other arms."""
        return arm_label(self.subject)

    def curve(self, name: str) -> tuple[NDArray[np.int64], Array]:
        """Return the steps at which a number was watched, and its values, shape (seeds, looks).

        Raises
        ------
        InputError
            If it wasn't watched.
        """
        results = [self.found[seed].arrays for seed in sorted(self.found)]
        if any(f"watched_{name}" not in arrays for arrays in results):
            raise InputError("watched", name, f"wasn't watched in {self.label}")
        return results[0]["watched_at"], np.stack([arrays[f"watched_{name}"].astype(float) for arrays in results])


@dataclass(frozen=True)
class Experiment:
    """Arms that can be compared.

    Attributes
    ----------
    common : LanguageModel
        What they share; its score stands for nothing.
    procedure : LanguageTraining
    arms : label to Arm
    """

    common: LanguageModel
    procedure: LanguageTraining
    arms: dict[str, Arm]

    @property
    def seeds(self) -> list[int]:
        """The seeds that all arms have, in order."""
        return sorted(set.intersection(*(set(arm.found) for arm in self.arms.values())))

    def pairs(self, way: str) -> dict[str, dict[str, Array]]:
        """Return for each file of pairs the results of every arm, shape (seeds, pairs), by one way to score sentences.

        The test :data:`AVERAGE` comes first: all files together, each with the same weight.
        """
        examined = self._examined()
        names = list(examined[0].pairs[way])
        tests = {
            name: {
                label: self._stacked(arm, lambda one, at=name: one.pairs[way][at]) for label, arm in self.arms.items()
            }
            for name in names
        }
        counts = {name: next(iter(of.values())).shape[1] for name, of in tests.items()}
        share = {name: sum(counts.values()) / (len(counts) * count) for name, count in counts.items()}
        whole = {
            label: np.concatenate([share[name] * tests[name][label] for name in names], axis=1) for label in self.arms
        }
        return {AVERAGE: whole, **tests}

    def texts(self) -> dict[str, dict[str, Array]]:
        """Return for each text the losses of every arm, shape (seeds, documents), whose mean is that of a token.

        A document's entry is its part in Σ nats/Σ tokens, to first order: long documents weigh more than short ones.
        """
        names = list(self._examined()[0].texts)
        return {
            name: {label: self._stacked(arm, lambda one, at=name: _parts(one, at)) for label, arm in self.arms.items()}
            for name in names
        }

    def ties(self, way: str, test: str, arm: str) -> int:
        """Return how many pairs of a test are ties, over all seeds."""
        found = [self.arms[arm].examined[seed].pairs[way] for seed in self.seeds]
        return int(sum((x == TIE).sum() for one in found for name, x in one.items() if test in (AVERAGE, name)))

    @property
    def ways(self) -> list[str]:
        """The ways to score a sentence that every arm was judged by."""
        return list(self._examined()[0].pairs)

    def _examined(self) -> list[Evaluation]:
        """Return all evaluations, which hold the same tests.

        Raises
        ------
        InputError
            If they don't.
        """
        found = [arm.examined[seed] for arm in self.arms.values() for seed in self.seeds]
        if not found:
            raise InputError("seeds", 0, f"no seed is finished in all arms: {', '.join(self.arms)}")
        tests = [
            ({way: {name: x.size for name, x in of.items()} for way, of in one.pairs.items()}, list(one.texts))
            for one in found
        ]
        if any(test != tests[0] for test in tests):
            raise InputError("store", ", ".join(self.arms), "the arms weren't examined on the same texts and pairs")
        return found

    def _stacked(self, arm: Arm, of: Any) -> Array:
        return np.stack([of(arm.examined[seed]) for seed in self.seeds])


def arm_label(subject: LanguageModel) -> str:
    """Return the score, its fixed numbers, and how its parameters are learned where that isn't one for each head."""
    score, how = subject.score, subject.learned
    if score.learnable and how == "no":
        return f"{score.name} ({', '.join(f'{name} = {value:g}' for name, value in score.numbers.items())})"
    return f"{score.name} (one for a layer)" if score.learnable and how == "layer" else score.name


def experiments(store: Store, sweep: str | None = None) -> list[Experiment]:
    """Return the language models of a store as experiments, in the order in which they were asked for.

    Parameters
    ----------
    store : Store
    sweep : str, optional
        Only its tasks, NAME or NAME:PRESET.

    Raises
    ------
    InputError
        If there are none.
    """
    found: dict[tuple[LanguageModel, LanguageTraining], Experiment] = {}
    for task, result in language_tasks(store, sweep):
        subject, procedure = task.model, task.procedure
        assert isinstance(subject, LanguageModel)
        assert isinstance(procedure, LanguageTraining)
        common = subject.at(score=Softmax(), learned="head")
        experiment = found.setdefault((common, procedure), Experiment(common, procedure, {}))
        arm = Arm(subject)
        arm = experiment.arms.setdefault(arm.label, arm)
        arm.found[task.data_seed] = result
        arm.examined[task.data_seed] = evaluation_of(store, task.id, result)
    if not found:
        raise InputError("store", str(store.path), "holds no language model that is trained")
    return list(found.values())


def compare(experiment: Experiment, reference: str | None = None) -> pd.DataFrame:
    """Return one row for each test and arm: what it can do, and the difference from the reference.

    Columns: ``test``, ``way`` (how sentences are scored; "" for texts), ``arm``; ``value`` (share of pairs judged
    rightly, or nats a token) with ``low`` and ``high``, ``ties``; ``difference`` with its interval, ``p``,
    ``corrected`` (Holm's, over all tests of one way and all arms; the mean of all pairs is a family of its own),
    ``resolvable``, ``detectable`` and ``verdict`` (see :class:`phasekit.measure.arms.Difference`); ``seeds``,
    ``items``. Intervals of 95 % are over seeds and items.

    Parameters
    ----------
    experiment : Experiment
    reference : str, optional
        An arm's label; softmax, or else the first arm, if left out.

    Raises
    ------
    InputError
        For an unknown reference, fewer than two arms or seeds, or arms that weren't examined alike.
    """
    arms = list(experiment.arms)
    if len(arms) < 2:
        raise InputError("arms", len(arms), f"must be at least 2; there is {', '.join(arms)}")
    reference = reference or ("softmax" if "softmax" in arms else arms[0])
    rows: list[dict[str, Any]] = []
    for way in experiment.ways:
        tests = experiment.pairs(way)
        average = {AVERAGE: tests.pop(AVERAGE)}
        for family in (average, tests):
            for row in _rows(family, reference):
                row["ties"] = experiment.ties(way, row["test"], row["arm"])
                row["low"], row["high"] = max(row["low"], 0.0), min(row["high"], 1.0)  # a share lies between
                rows.append({"way": way, **row})
    if texts := experiment.texts():
        rows += [{"way": "", **row} for row in _rows(texts, reference)]
    if not rows:
        raise InputError("store", ", ".join(arms), "no model was examined on anything")
    return pd.DataFrame(rows)


def band(values: Array) -> tuple[Array, Array, Array]:
    """Return the mean over seeds of values (seeds, points), and the ends of its 95 % interval (Student's)."""
    seeds = len(values)
    mean = values.mean(axis=0)
    if seeds < 2:
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    ends = np.array([student_interval(float(m), float(e), seeds) for m, e in zip(mean, error, strict=True)])
    return mean, ends[:, 0], ends[:, 1]


def _rows(tests: Mapping[str, Mapping[str, Array]], reference: str) -> list[dict[str, Any]]:
    compared = compare_tests(tests, reference)
    rows = []
    for test, of in tests.items():
        against = {difference.arm: difference for difference in compared[test]}
        for arm, values in of.items():
            mean = mean_over_seeds(values, resamples=None)
            rows.append({"test": test, "arm": arm, **_told(mean, against.get(arm))})
    return rows


def _told(mean: Mean, difference: Difference | None) -> dict[str, Any]:
    told: dict[str, Any] = {"value": mean.value, "low": mean.interval[0], "high": mean.interval[1], "ties": -1}
    names = ("difference", "difference_low", "difference_high", "p", "corrected", "resolvable", "detectable")
    found: Sequence[float] = (
        [np.nan] * len(names)
        if difference is None
        else (
            difference.mean.value,
            *difference.mean.interval,
            difference.p,
            difference.corrected,
            difference.resolvable,
            difference.detectable,
        )
    )
    verdict = "reference" if difference is None else difference.verdict
    return {
        **told,
        **dict(zip(names, found, strict=True)),
        "verdict": verdict,
        "seeds": mean.seeds,
        "items": mean.prompts,
    }


def _parts(examined: Evaluation, name: str) -> Array:
    text = examined.texts[name]
    nats, tokens = text.nats.sum(axis=1), text.tokens.sum(axis=1)
    return np.asarray(text.loss + (nats - text.loss * tokens) / tokens.mean())
