"""The one description of task, head and data that theory, networks and figures share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, SerializeAsAny, field_validator, model_validator

from phasekit.describe import Description, in_line
from phasekit.encodings import ENCODINGS, Encoding, OneHot, TokenAndPosition
from phasekit.errors import InputError
from phasekit.masks import MASKS, Mask, NoMask
from phasekit.model.grid import Grid
from phasekit.model.parameters import AXES, RANGES, RULES, Inputs, Parameters, Setting
from phasekit.model.task import TASKS, Copy, Task
from phasekit.scores import Score, Softmax, get_score
from phasekit.show import Table, shown
from phasekit.tokens import TOKEN_LAWS, TokenLaw, Uniform


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
        What queries and keys see: words for the encodings "one-hot" and "token+position".
    sigma_w, sigma_g : float
        Prior standard deviations of the entries of W and G.
    kappa : float
        Temperature (ridge) of the squared-error likelihood.
    key_dim : int, optional
        Key dimension d of a factorised head, G = W_Qᵀ W_K with d rows in W_Q and in W_K, whose entries have the prior
        variance σ_g/√d: an entry of G then has variance σ_g² (docs/theory.md, section 9). None: G itself has
        independent Gaussian entries, the limit of the posterior for d → ∞.
    encoding : Encoding or str, optional
        How logits depend on positions (docs/beyond.md). None: what ``inputs`` says.
    mask : Mask or str
        Which keys a position sees (default "none").
    tokens : TokenLaw or str
        How often each token is drawn (default "uniform").
    task : Task or str
        "copy" (default), or "induction": two layers, of which ``score`` is that of the second (docs/induction.md).

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
    added: ClassVar[tuple[str, ...]] = ("key_dim", "encoding", "mask", "tokens", "task")

    def table(self) -> Table:
        """Return every number of the model, those at their defaults, too."""
        described = {name: in_line(x) if isinstance(x, Mapping) else x for name, x in self.describe().items()}
        rows = [(name, shown(x), RULES.get(name, "").partition(" must")[0]) for name, x in described.items()]
        return Table("Model", ["", "", ""], rows)

    def _repr_html_(self) -> str:
        return self.table().html()

    V: int = _number("V")
    L: int = _number("L")
    P: float | None = _number("P", default=None)
    score: SerializeAsAny[Score] = Softmax()
    inputs: Inputs = "positional"
    sigma_w: float = _number("sigma_w", default=1.0)
    sigma_g: float = _number("sigma_g", default=1.0)
    kappa: float = _number("kappa", default=1.0)
    key_dim: int | None = Field(default=None, ge=1, le=2**31)
    encoding: SerializeAsAny[Encoding] | None = None
    mask: SerializeAsAny[Mask] = NoMask()
    tokens: SerializeAsAny[TokenLaw] = Uniform()
    task: SerializeAsAny[Task] = Copy()

    if TYPE_CHECKING:  # numbers may be the words that a user typed, and a score its name

        def __init__(self, **fields: Any) -> None: ...

    @field_validator("score", mode="before")
    @classmethod
    def _read_score(cls, given: Any) -> Score:
        return get_score(given)

    @field_validator("task", mode="before")
    @classmethod
    def _read_task(cls, given: Any) -> Task:
        return TASKS.given(given)

    @field_validator("encoding", mode="before")
    @classmethod
    def _read_encoding(cls, given: Any) -> Encoding | None:
        return None if given is None else ENCODINGS.given(given)

    @field_validator("mask", mode="before")
    @classmethod
    def _read_mask(cls, given: Any) -> Mask:
        return MASKS.given(given)

    @field_validator("tokens", mode="before")
    @classmethod
    def _read_tokens(cls, given: Any) -> TokenLaw:
        return TOKEN_LAWS.given(given)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Say ``inputs`` for the two encodings that have a word there, so that a model has one description."""
        self.tokens.check(self.V, self.L)
        if self.encoding is not None:
            self.encoding.check(self.L)
            words: dict[type[Encoding], Inputs] = {OneHot: "positional", TokenAndPosition: "token+position"}
            word = words.get(type(self.encoding), "positional")
            if self.inputs not in ("positional", word):
                raise InputError("inputs", self.inputs, f"the encoding is {self.encoding.name}; leave one of them out")
            if type(self.encoding) in words:
                self.__dict__.update(inputs=word, encoding=None)
        self.task.check(self)
        return self

    @property
    def beyond(self) -> dict[str, str]:
        """What the model says of encoding, mask and token law beside ``inputs``: names by field."""
        said = {
            "encoding": None if self.encoding is None else self.encoding.name,
            "mask": self.mask.name if self.mask.hides else None,
            "tokens": None if self.tokens.uniform else self.tokens.name,
        }
        return {field: name for field, name in said.items() if name is not None}

    def refuse(self, allowed: str, *fields: str) -> None:
        """Raise InputError, with what is ``allowed``, if one of these fields (all, if none is named) says something.

        For what knows heads with positional or token+position inputs, no mask and uniform tokens only.
        """
        for field, name in self.beyond.items():
            if not fields or field in fields:
                raise InputError(field, name, allowed)

    @property
    def positions(self) -> Encoding:
        """How logits depend on positions: the encoding, or what ``inputs`` says."""
        return self.encoding or (OneHot() if self.inputs == "positional" else TokenAndPosition())

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
        given = {**self.score.numbers, **self.task.numbers}
        own = {name: np.asarray(value, dtype=float) for name, value in given.items()}
        setting = Setting(self.positions, self.mask, self.tokens)
        return Parameters(**numbers, setting=setting, score=own)

    def grid(self, **axes: ArrayLike) -> Grid:
        """Return the models obtained by varying some numbers: ``model.grid(P=[...], L=[...], n=[...])``."""
        return Grid(self, axes)
