"""What a sweep can do with a model and a data set."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.model import Estimator, Model

T = TypeVar("T")

#: A model, of the kind that the procedure takes, and the seed of its data set.
Case = tuple[Any, int]


@dataclass(frozen=True)
class Outcome:
    """The result of one task.

    Attributes
    ----------
    values : name to array, shape (members,)
        Numbers and words about each member: a row of the collected table.
    arrays : name to array
        Anything else worth keeping.
    about : plain JSON values about how it was computed (precision, steps, …)
    """

    values: dict[str, NDArray[Any]]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


class Stopped(Exception):
    """The procedure was asked to stop, and has saved what it needs to go on."""


@dataclass
class Workplace:
    """Where a procedure works.

    Attributes
    ----------
    device : "cpu", "cuda" or "auto"
    checkpoint : path, optional
        File (.npz) for the state of a long task; if it exists, the task goes on from it.
    save_every : float
        Seconds between two checkpoints.
    stop_file : path, optional
        When it appears, whoever works here should save a checkpoint and raise :class:`Stopped`.
    notes : list of str
        What the user should know about the work.
    """

    device: str = "cpu"
    checkpoint: Path | None = None
    save_every: float = 60.0
    stop_file: Path | None = None
    notes: list[str] = field(default_factory=list)
    _saved: float = field(default_factory=time.monotonic, repr=False)

    def must_stop(self) -> bool:
        """Whether the runner has asked to stop."""
        return self.stop_file is not None and self.stop_file.exists()

    def must_save(self) -> bool:
        """Whether a checkpoint is due; counts from the last time the answer was yes."""
        now = time.monotonic()
        if self.checkpoint is None or now - self._saved < self.save_every:
            return False
        self._saved = now
        return True

    def pause(self, save: Callable[[], None]) -> None:
        """Save where it is time to; called now and then by long work, with what saves its checkpoint.

        Raises
        ------
        Stopped
            If the runner has asked to stop.
        """
        stop = self.must_stop()
        if self.checkpoint is not None and (stop or self.must_save()):
            save()
        if stop:
            raise Stopped

    def resuming(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; if its checkpoint is damaged or belongs to something else, it begins anew."""
        try:
            return work()
        except InputError as error:
            if error.field != "checkpoint" or self.checkpoint is None:
                raise
            self.notes.append(f"checkpoint {self.checkpoint.name} {error.allowed}; its ensemble begins anew")
            self.checkpoint.unlink(missing_ok=True)
            return work()


class Procedure(Description, ABC):
    """A way of getting numbers for a model and a data set; its fields are its settings.

    Attributes
    ----------
    name : str
        How sweeps call it, for those that come with phasekit; others are called by ``module:Class``.
    version : int
        Part of every task's id: raise it when the same settings no longer give the same numbers.
    theory : "map" or "posterior"
        The theory that its numbers are to be held against.
    residues : tuple of str
        Columns that say how near a solver came: noise, which differs between processors.
    takes : type
        The kind of model that it takes, a :class:`phasekit.describe.Description`: heads, unless it says otherwise.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    theory: ClassVar[Estimator] = "map"
    residues: ClassVar[tuple[str, ...]] = ("gradient_norm", "excess")
    takes: ClassVar[type[Description]] = Model

    def describe(self) -> dict[str, Any]:
        """Return name, version and settings as plain JSON values; ``get_procedure`` takes them back."""
        return {**super().describe(), "version": self.version}

    def together(self, model: Any) -> Hashable:
        """Return what models must agree in to be computed as one ensemble: heads in all but P, others in everything."""
        return model.at(P=None) if isinstance(model, Model) else model

    def check(self, model: Any) -> None:
        """Raise InputError if the procedure can't do this model, before any work is spent."""

    def require(self, model: Any) -> None:
        """Raise InputError if what computing needs, and no description holds, isn't here: a text, say.

        Not asked for tasks whose results are there already.
        """

    def operations(self, model: Any) -> float:
        """Return about how many multiplications a task takes: to put the longest first."""
        return 1.0

    @property
    def length(self) -> int:
        """How many equal steps a task takes, after its preparation; 1 if it has none to speak of."""
        return 1

    def shortened(self, length: int) -> Procedure:
        """Return a version with that many steps, to measure speed with."""
        return self

    @classmethod
    def predict(cls, models: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the theory's columns, by name, for models that aren't heads (those have their actions)."""
        return [{} for _ in models]

    @abstractmethod
    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        """Compute all cases as one ensemble; they agree in :meth:`together`.

        Raises
        ------
        Stopped
            If ``place`` asked for it.
        """


def member_count(outcome: Outcome) -> int:
    """Return how many members an outcome has.

    Raises
    ------
    ValueError
        If its values differ in length or aren't one-dimensional: a mistake in the procedure.
    """
    lengths = {np.shape(values) for values in outcome.values.values()}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise ValueError(f"values of an outcome must be 1-D and of one length, got {sorted(lengths)}")
    return int(next(iter(lengths))[0])
