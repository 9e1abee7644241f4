"""What a model is trained on: copying by one head, or induction by two layers.

A task is one frozen description, found by name. It says which models make sense, and which numbers of its own the
theory needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, SerializeAsAny, field_validator

from phasekit.describe import Description, Registry
from phasekit.errors import InputError
from phasekit.scores import Score, get_score

if TYPE_CHECKING:
    from phasekit.model.model import Model


class Task(Description):
    """A task; its fields are what it leaves open.

    Attributes
    ----------
    name : str
        How models and the command line call it.
    """

    name: ClassVar[str]

    @property
    def numbers(self) -> Mapping[str, float]:
        """Numbers that the theory computes with, beside the score's; their names must differ from those."""
        return {}

    def check(self, model: Model) -> None:
        """Raise InputError if a model, of any P, makes no sense on this task."""

    def check_sizes(self, V: float, L: float) -> None:
        """Raise InputError if a vocabulary (the smallest of a grid) is too small for a context (the longest)."""


TASKS: Registry[Task] = Registry("task", Task)


@TASKS.register
class Copy(Task):
    """One head predicts the token before each position; tokens are independent and uniform (docs/theory.md)."""

    name: ClassVar[str] = "copy"


@TASKS.register
class Induction(Task):
    """Two layers predict the token after an earlier copy of the query; the tokens are distinct (docs/induction.md).

    Parameters
    ----------
    first : Score or str, optional
        Score function of layer 1; None: that of layer 2, the model's ``score``.
    weight : float
        Share of the sequences that ask what layer 1 alone can answer: which token came before a given position. 0, or
        up to but without 1.
    """

    name: ClassVar[str] = "induction"
    rules: ClassVar[Mapping[str, str]] = {"first": "must be a score function, or None: that of layer 2"}
    added: ClassVar[tuple[str, ...]] = ("weight",)

    first: SerializeAsAny[Score] | None = Field(default=None, description="score function of layer 1")
    weight: float = Field(default=0.0, ge=0, lt=1, description="share of questions that layer 1 alone can answer")

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    @field_validator("first", mode="before")
    @classmethod
    def _read_score(cls, given: Any) -> Score | None:
        return None if given is None else get_score(given)

    @property
    def numbers(self) -> Mapping[str, float]:
        own = {} if self.first is None else {f"first_{name}": value for name, value in self.first.numbers.items()}
        return {**own, "weight": self.weight} if self.weight else own

    def check(self, model: Model) -> None:
        self.check_sizes(model.V, model.L)
        if model.inputs != "positional":
            raise InputError("inputs", model.inputs, "layer 1 of an induction head attends by position: positional")
        if model.key_dim is not None:
            raise InputError("key_dim", model.key_dim, "must be None for induction: there is no theory of factors yet")
        if model.mask.hides:
            raise InputError("mask", model.mask.name, "must be none for induction: the context is cyclic")
        if not model.tokens.uniform:
            raise InputError("tokens", model.tokens.name, "must be uniform for induction (drawn without repetition)")

    def check_sizes(self, V: float, L: float) -> None:
        if V < L:
            raise InputError("V", V, f"must be at least L = {L:g} for induction: the tokens of a sequence are distinct")
