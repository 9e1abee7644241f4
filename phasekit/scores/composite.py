"""Scores made of several scores: what a mixture in each head and a division of the heads have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializeAsAny, field_validator

from phasekit.describe import split_outside
from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.registry import get_score

if TYPE_CHECKING:
    from torch import Tensor

    from phasekit.scores.base import Learned


class Composite(Score):
    """A score with component scores.

    Parameters
    ----------
    scores : tuple of Score, or of what ``get_score`` takes, or one string of names joined by commas or +
        At least one; a component's own numbers stand in brackets: ``softmax+ssa(n=2,b=1)``.
    """

    scores: tuple[SerializeAsAny[Score], ...] = Field(
        default=("softmax", "ssa"),
        validate_default=True,
        min_length=1,
        description="names joined by commas or +",
    )

    @field_validator("scores", mode="before")
    @classmethod
    def _read_scores(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = split_outside(given, ",+")
        if not isinstance(given, list | tuple) or not given:
            raise InputError("scores", given, "must be one or more scores: names joined by commas or +, or a list")
        return tuple(get_score(score) for score in given)

    @property
    def normalised(self) -> bool:  # type: ignore[override]
        """Whether the rows of every component sum to one."""
        return all(score.normalised for score in self.scores)

    @property
    def uses_logits(self) -> bool:  # type: ignore[override]
        """Whether every component is a function of the logits."""
        return all(score.uses_logits for score in self.scores)

    def component_parameters(self, parameters: Learned) -> list[dict[str, Tensor] | None]:
        """Take the mapping apart: ``"1.n"`` is the parameter n of component 1.

        Raises
        ------
        InputError
            For a name that starts with no component's number.
        """
        if parameters is None:
            return [None] * len(self.scores)
        parts: list[dict[str, Tensor]] = [{} for _ in self.scores]
        for name, value in parameters.items():
            number, dot, own = name.partition(".")
            if not (dot and number.isdecimal() and int(number) < len(parts)):
                raise InputError(f"score {self.name}: parameters", name, "must be a component's number, a dot, a name")
            parts[int(number)][own] = value
        return list(parts)
