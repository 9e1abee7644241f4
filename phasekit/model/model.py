"""The one description of task, head and data that theory, networks and figures share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, SerializeAsAny, field_validator

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.model.grid import Grid
from phasekit.model.parameters import AXES, RANGES, RULES, Inputs, Parameters
from phasekit.scores import Score, Softmax, get_score


def _number(name: str, **default: Any) -> Any:
    low, high = RANGES[name]
    return Field(ge=low, le=high, **default)


class Model(Description):
    """One attention head on the copy task (docs/theory.md, section 1).

    Parameters
    ----------
    V : int
        Vocabulary size, at least 2.
    L : int
        Context length, at least 2.
    P : float, optional
        Number of training sequences, above 0. Theory takes any real number; networks need an integer.
        Left out where P is the unknown (transitions, scaling laws).
    score : Score or str
        Score function: a :class:`phasekit.scores.Score`, the name of one, or what its ``describe`` returned
        (default softmax).
    inputs : "positional" or "token+position"
        What queries and keys see.
    sigma_w, sigma_g : float
        Prior standard deviations of the entries of W and G.
    kappa : float
        Temperature (ridge) of the squared-error likelihood.
    key_dim : int, optional
        Key dimension d of a factorised head, G = W_Qᵀ W_K with d rows in W_Q and in W_K, whose entries have the prior
        variance σ_g/√d: an entry of G then has variance σ_g² (docs/theory.md, section 9). None: G itself has
        independent Gaussian entries, the limit of the posterior for d → ∞.

    Raises
    ------
    InputError
        One line that names the field, the value and what is allowed.
    """

    rules: ClassVar[Mapping[str, str]] = {
        **RULES,
        "inputs": f"must be one of {', '.join(get_args(Inputs))}",
        "key_dim": "must be None (G itself has the Gaussian prior) or a whole number of at least 1",
    }
    added: ClassVar[tuple[str, ...]] = ("key_dim",)

    V: int = _number("V")
    L: int = _number("L")
    P: float | None = _number("P", default=None)
    score: SerializeAsAny[Score] = Softmax()
    inputs: Inputs = "positional"
    sigma_w: float = _number("sigma_w", default=1.0)
    sigma_g: float = _number("sigma_g", default=1.0)
    kappa: float = _number("kappa", default=1.0)
    key_dim: int | None = Field(default=None, ge=1, le=2**31)

    if TYPE_CHECKING:  # numbers may be the words that a user typed, and a score its name

        def __init__(self, **fields: Any) -> None: ...

    @field_validator("score", mode="before")
    @classmethod
    def _read_score(cls, given: Any) -> Score:
        return get_score(given)

    def parameters(self) -> Parameters:
        """Return the numbers as 0-d arrays.

        Raises
        ------
        InputError
            If P was left out.
        """
        if self.P is None:
            raise InputError("P", None, f"missing: {RULES['P']}")
        numbers = {name: np.asarray(getattr(self, name), dtype=float) for name in AXES}
        own = {name: np.asarray(value, dtype=float) for name, value in self.score.numbers.items()}
        return Parameters(**numbers, inputs=self.inputs, score=own)

    def grid(self, **axes: ArrayLike) -> Grid:
        """Return the models obtained by varying some numbers: ``model.grid(P=[...], L=[...], n=[...])``."""
        return Grid(self, axes)
