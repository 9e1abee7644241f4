"""Do all, or do any, of the numbers so far lie above 0? (O. Naim et al., arXiv:2508.14685)"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from phasekit.errors import InputError
from phasekit.tasks.in_context.base import TASKS, Array, Loss, Prompts, Shift, Task, interleaved, shifted_inputs

Quantifier = Literal["every", "some"]


class Quantified(Task):
    """Label y_i = +1 if a quantifier holds of x_1 … x_i > 0, else −1.

    A test counts a prompt as wrong if any answer from the fourth on is: "always −1" is then wrong in 1/16 of the
    prompts of *every*, because so many begin with four numbers above 0.

    Parameters
    ----------
    labels : "each" or "last"
        "each": x1, y1, x2, y2, …, a label behind every number. "last": x1 … xn and one label for all. Half of these
        prompts (the even ones) are made such that the quantifier's rare answer holds, by the signs of their numbers.
    """

    loss: ClassVar[Loss] = "logistic"
    whole: ClassVar[bool] = True
    quantifiers: ClassVar[tuple[Quantifier, ...]]

    skip: int = Field(default=3, ge=0)
    labels: Literal["each", "last"] = "each"

    @model_validator(mode="after")
    def _one_label_tells_of_one_quantifier(self) -> Quantified:
        if self.labels == "last" and len(self.quantifiers) > 1:
            raise InputError(
                "labels", self.labels, f"must be each for {self.name}: earlier labels tell which rule holds"
            )
        return self

    @property
    def inputs(self) -> int:
        return 1

    def tokens_in(self, points: int) -> int:
        return 2 * points - 1 if self.labels == "each" else points

    def make(self, draws: np.random.Generator, prompts: int, points: int, shift: Shift) -> Prompts:
        which = draws.integers(len(self.quantifiers), size=prompts)
        x = shifted_inputs(draws, prompts, points, 1, shift)
        if self.labels == "last":
            x[::2] = np.abs(x[::2]) if self.quantifiers == ("every",) else -np.abs(x[::2])
            if shift.deviant is not None:
                x[:, shift.place, 0] = shift.deviant
        labels = np.stack([label(x[..., 0], quantifier) for quantifier in self.quantifiers])
        y = labels[which, np.arange(prompts)]
        if self.labels == "last":
            return Prompts(x, np.array([points - 1]), y[:, -1:], np.ones((prompts, 1), bool), x)
        tokens, places = interleaved(x, y)
        return Prompts(tokens, places, y, np.ones(y.shape, bool), x)

    def trivial(self, prompts: Prompts) -> Array:
        """Return what is right most often: never for *every*, always for *some* (a coin's side for both)."""
        often = -1.0 if "every" in self.quantifiers else 1.0
        return np.full((*prompts.targets.shape, 1), often)

    def optimal(self, prompts: Prompts) -> Array:
        """Return the label by the quantifiers that agree with the labels so far; +1, a guess, where they differ.

        With one quantifier that is "last label and sign of x", and always right.
        """
        labels = np.stack([label(prompts.x[..., 0], quantifier) for quantifier in self.quantifiers])
        if self.labels == "last":
            return np.asarray(labels[0][:, -1:, None])
        agrees = np.cumprod(labels == prompts.targets, axis=2).astype(bool)
        possible = np.concatenate([np.ones_like(agrees[..., :1]), agrees[..., :-1]], axis=2)
        vote = np.where(possible, labels, 0).sum(0)
        return np.where(vote == 0, 1.0, np.sign(vote))[..., None]


@TASKS.register
class Every(Quantified):
    """Label y_i = +1 if all of x_1 … x_i lie above 0."""

    name: ClassVar[str] = "every"
    quantifiers: ClassVar[tuple[Quantifier, ...]] = ("every",)


@TASKS.register
class Some(Quantified):
    """Label y_i = +1 if any of x_1 … x_i lies above 0."""

    name: ClassVar[str] = "some"
    quantifiers: ClassVar[tuple[Quantifier, ...]] = ("some",)


@TASKS.register
class EveryOrSome(Quantified):
    """*every* in half of the prompts and *some* in the others; the labels tell which."""

    name: ClassVar[str] = "every-or-some"
    quantifiers: ClassVar[tuple[Quantifier, ...]] = ("every", "some")


def label(x: Array, quantifier: Quantifier) -> Array:
    """Return ±1 for every beginning x_1 … x_i of the rows of x."""
    above = x > 0
    holds = np.logical_and.accumulate(above, 1) if quantifier == "every" else np.logical_or.accumulate(above, 1)
    return np.where(holds, 1.0, -1.0)
