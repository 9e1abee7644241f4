"""What procedures of many heads on one data set have in common: where heads start, and what a gradient costs."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Hashable
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from phasekit.model import Copy, Estimator, Induction, Model, Task
from phasekit.runs.procedures.base import Procedure


class HeadsProcedure(Procedure, ABC):
    """A procedure that needs many gradients of many heads.

    Parameters
    ----------
    members : int
        Heads that differ in nothing but their random numbers.
    seed : int
        Of the heads' starts (and noise).

    Attributes
    ----------
    tasks : types of Task
        Those that it has networks for.
    """

    tasks: ClassVar[tuple[type[Task], ...]] = (Copy,)

    members: int = Field(1, ge=1)
    seed: int = Field(0, ge=0)

    def check(self, model: Model) -> None:
        from phasekit.heads.energy import common_model
        from phasekit.tasks.copy import check_room

        check_room(model)
        common_model([model], *self.tasks)

    @property
    def heads(self) -> int:
        """Heads on one data set."""
        return self.members

    @property
    def gradients(self) -> int:
        """Gradients that one head takes."""
        return self.length

    def operations(self, model: Model) -> float:
        from phasekit.heads import induction
        from phasekit.heads.build import choose_path
        from phasekit.heads.energy import multiplications

        two_layers = isinstance(model.task, Induction)
        each = induction.multiplications(model) if two_layers else multiplications(model, choose_path(model))
        return self.gradients * self.heads * each


_START = re.compile(r"uniform|copy(:\d+)?|random(:(?=.*[1-9])\d*\.?\d+)?")


class StartedHeads(HeadsProcedure, ABC):
    """A procedure whose members are heads that begin at several starts.

    Parameters
    ----------
    starts : "uniform", "copy", "copy:K", "random", "random:SIZE"
        "uniform" begins where all keys weigh the same, "copy" where a head attends to the token to be copied: the two
        phases of a first-order transition. "copy:K" does so in the first K positions only. "random" draws from the
        prior, "random:0.1" a tenth of it. For induction "copy" is the planted end, with both layers formed, and
        "uniform" the unstructured state.
    members : int
        Heads from each start.
    seed : int
        Of the heads' starts (and noise).
    """

    #: From 2 on, copy starts of scores with slow tails are no higher than any head can afford.
    version: ClassVar[int] = 2

    starts: tuple[str, ...] = ("uniform", "copy")

    @field_validator("starts")
    @classmethod
    def _some_starts(cls, starts: tuple[str, ...]) -> tuple[str, ...]:
        if not starts or len(set(starts)) != len(starts):
            raise ValueError("must be a list of different starts, with at least one")
        if not all(_START.fullmatch(start) for start in starts):
            raise ValueError("must be a list of uniform, copy, copy:K, random and random:SIZE")
        return starts

    def together(self, model: Model) -> Hashable:
        # The way the energy is computed is chosen for each model by itself, whoever shares its ensemble.
        from phasekit.heads.build import choose_path

        return model.at(P=None), choose_path(model)

    @property
    def heads(self) -> int:
        return self.members * len(self.starts)


class SampledHeads(HeadsProcedure, ABC):
    """A procedure that samples exp(-U); its numbers are those of the posterior.

    Parameters
    ----------
    draws, thin, warmup : int
        Draws to record for each chain, one every ``thin`` updates after ``warmup`` updates.
    dtype : "float32" or "float64"
    """

    theory: ClassVar[Estimator] = "posterior"

    draws: int = Field(500, ge=1)
    thin: int = Field(1, ge=1)
    warmup: int = Field(500, ge=0)
    dtype: Literal["float32", "float64"] = "float64"

    @property
    def gradients(self) -> int:
        return self.length * int(getattr(self, "leaps", 1))

    @property
    def length(self) -> int:
        return self.warmup + self.draws * self.thin

    def shortened(self, length: int) -> Procedure:
        return self.model_copy(update={"warmup": 0, "draws": max(1, length), "thin": 1})
