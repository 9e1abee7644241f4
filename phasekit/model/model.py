"""The one description of task, head and data that theory, networks and figures share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from phasekit.errors import InputError
from phasekit.scores import Score, get_score

Inputs = Literal["positional", "token+position"]
Estimator = Literal["map", "posterior"]

#: The model's fields that may become an axis of a :class:`Grid`, in the order of :class:`Parameters`.
AXES = ("P", "V", "L", "sigma_w", "sigma_g", "kappa")
INTEGER_AXES = ("V", "L")

#: The smallest and largest value of each number. V and L end where float64, in which the theory is computed, begins to
#: skip integers; the others at magnitudes whose powers in the actions neither overflow nor vanish.
RANGES = {
    "V": (2, 2**53),
    "L": (2, 2**53),
    "P": (1e-12, 1e20),
    "sigma_w": (1e-9, 1e9),
    "sigma_g": (1e-9, 1e9),
    "kappa": (1e-9, 1e9),
}
_RULES = {
    "V": "the vocabulary size must be an integer of at least 2 (and at most 2^53)",
    "L": "the context length must be an integer of at least 2 (and at most 2^53)",
    "P": "the number of training sequences must be a number above 0 (1e-12 to 1e20)",
    "inputs": f"must be one of {', '.join(get_args(Inputs))}",
    "sigma_w": "the prior's standard deviation must be a number above 0 (1e-9 to 1e9)",
    "sigma_g": "the prior's standard deviation must be a number above 0 (1e-9 to 1e9)",
    "kappa": "the temperature must be a number above 0 (1e-9 to 1e9)",
    "key_dim": "must be None (G itself has the Gaussian prior) or a whole number of at least 1",
}


def _number(name: str, **default: Any) -> Any:
    low, high = RANGES[name]
    return Field(ge=low, le=high, **default)


@dataclass(frozen=True)
class Parameters:
    """The numbers of one model or of a whole grid, as float64 arrays that broadcast against each other.

    This is what actions compute with. ``V`` and ``L`` are real here (the theory is analytic in them).

    Attributes
    ----------
    P, V, L, sigma_w, sigma_g, kappa : arrays that broadcast to one common shape
    inputs : "positional" or "token+position"
    score : mapping of str to array
        The score function's own numbers by name (n and b of SSA; see :attr:`phasekit.scores.Score.numbers`).
    """

    P: NDArray[np.float64]
    V: NDArray[np.float64]
    L: NDArray[np.float64]
    sigma_w: NDArray[np.float64]
    sigma_g: NDArray[np.float64]
    kappa: NDArray[np.float64]
    inputs: Inputs = "positional"
    score: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(number) for number in self.numbers))

    @property
    def pooling_cost(self) -> NDArray[np.float64]:
        """λ of the prior cost λ s²/(2σ_g²) of a uniform linear attention pattern (docs/theory.md, section 4)."""
        if self.inputs == "positional":
            return self.L**2
        return (self.V * self.L / (self.V + self.L)) ** 2

    @property
    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """All arrays, those of :data:`AXES` first, then the score's own; :meth:`with_numbers` takes them back."""
        return (*(getattr(self, name) for name in AXES), *self.score.values())

    def with_numbers(self, numbers: Iterable[NDArray[np.float64]]) -> Parameters:
        """Return a copy with all arrays exchanged, in the order of :attr:`numbers`."""
        named = dict(zip((*AXES, *self.score), numbers, strict=True))
        own = {name: named.pop(name) for name in self.score}
        return Parameters(**named, inputs=self.inputs, score=own)

    def replace(self, **changes: ArrayLike) -> Parameters:
        """Return a copy with some numbers exchanged (no validation: for solvers that vary P, L or a score's n)."""
        values = dict(zip((*AXES, *self.score), self.numbers, strict=True))
        unknown = changes.keys() - values.keys()
        if unknown:
            raise TypeError(f"no such numbers: {', '.join(sorted(unknown))}")
        values.update({name: np.asarray(value, dtype=float) for name, value in changes.items()})
        return self.with_numbers(values.values())

    def ravel(self) -> Parameters:
        """Broadcast all numbers to the common shape and flatten them."""
        arrays = np.broadcast_arrays(*self.numbers)
        return self.with_numbers(np.ascontiguousarray(a).reshape(-1) for a in arrays)

    def expand(self) -> Parameters:
        """Append one axis of length 1, so that the numbers broadcast against a trailing axis of candidates."""
        return self.with_numbers(np.asarray(number)[..., None] for number in self.numbers)

    def __getitem__(self, index: Any) -> Parameters:
        """Index flattened parameters (see :meth:`ravel`)."""
        return self.with_numbers(number[index] for number in self.numbers)


class Model(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    V: int = _number("V")
    L: int = _number("L")
    P: float | None = _number("P", default=None)
    score: SerializeAsAny[Score]
    inputs: Inputs = "positional"
    sigma_w: float = _number("sigma_w", default=1.0)
    sigma_g: float = _number("sigma_g", default=1.0)
    kappa: float = _number("kappa", default=1.0)
    key_dim: int | None = Field(default=None, ge=1, le=2**31)

    def __init__(self, **data: Any) -> None:
        if not isinstance(data.setdefault("score", "softmax"), Score):
            data["score"] = get_score(data["score"])
        try:
            super().__init__(**data)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else "model"
            if first["type"] == "extra_forbidden":
                known = ", ".join(type(self).model_fields)
                raise InputError(field, first["input"], f"unknown; fields are {known}") from None
            if first["type"] == "missing":
                raise InputError(field, None, f"missing: {_RULES[field]}") from None
            raise InputError(field, first["input"], _RULES.get(field, first["msg"])) from None

    def at(self, **changes: Any) -> Model:
        """Return a copy with some fields changed, validated again."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def describe(self) -> dict[str, Any]:
        """Return the model as plain JSON values; ``Model(**model.describe())`` gives it back.

        ``key_dim`` is left out where it is None, so that descriptions (and the identities of stored results made from
        them) are those of heads before there were factorised ones.
        """
        left_out = {"score"} if self.key_dim is not None else {"score", "key_dim"}
        return {**self.model_dump(exclude=left_out), "score": self.score.describe()}

    def parameters(self) -> Parameters:
        """Return the numbers as 0-d arrays.

        Raises
        ------
        InputError
            If P was left out.
        """
        if self.P is None:
            raise InputError("P", None, f"missing: {_RULES['P']}")
        numbers = {name: np.asarray(getattr(self, name), dtype=float) for name in AXES}
        own = {name: np.asarray(value, dtype=float) for name, value in self.score.numbers.items()}
        return Parameters(**numbers, inputs=self.inputs, score=own)

    def grid(self, **axes: ArrayLike) -> Grid:
        """Return the models obtained by varying some numbers: ``model.grid(P=[...], L=[...], n=[...])``."""
        return Grid(self, axes)


class Grid:
    """A base model and labelled axes over some of its numbers.

    Parameters
    ----------
    base : Model
    axes : mapping of name to a 1-D array of values
        Fields of the model (P, V, L, sigma_w, sigma_g, kappa), or numbers of its score function (n, b, alpha, T, …).

    Raises
    ------
    InputError
        For an unknown axis, an axis without points, repeated points, or a value that :class:`Model`, or the score,
        would refuse.
    """

    def __init__(self, base: Model, axes: Mapping[str, ArrayLike]) -> None:
        self.base = base
        self.axes: dict[str, NDArray[np.float64]] = {name: _axis(base, name, values) for name, values in axes.items()}
        if not self.axes:
            raise InputError("grid", None, f"has no axes; choose from {', '.join(axes_of(base.score))}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(values.size for values in self.axes.values())

    def parameters(self) -> Parameters:
        """Return the numbers: axis number k varies along dimension k of the common shape."""
        if "P" not in self.axes and self.base.P is None:
            raise InputError("P", None, f"missing: {_RULES['P']}")
        base = self.base.at(P=1.0) if self.base.P is None else self.base
        dimensions = len(self.axes)
        return base.parameters().replace(
            **{
                name: values.reshape([-1 if j == k else 1 for j in range(dimensions)])
                for k, (name, values) in enumerate(self.axes.items())
            }
        )


def axes_of(score: Score) -> tuple[str, ...]:
    """Return the names that a grid over models with this score may vary: a model's fields, then the score's numbers."""
    return (*AXES, *(name for name in score.numbers if name not in AXES))


def _axis(base: Model, name: str, values: ArrayLike) -> NDArray[np.float64]:
    if name not in axes_of(base.score):
        raise InputError("grid axis", name, f"must be one of {', '.join(axes_of(base.score))}")
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise InputError(name, values, _RULES.get(name, "must be numbers")) from None
    if axis.ndim != 1 or axis.size == 0:
        raise InputError(name, values, "a grid axis must be a list with at least one point")
    for value in axis:
        if name not in AXES:
            base.score.at(**{name: float(value)})  # the score says what it refuses
            continue
        low, high = RANGES[name]
        if not (low <= value <= high and (name not in INTEGER_AXES or value == round(value))):
            raise InputError(name, float(value), _RULES[name])
    if np.unique(axis).size != axis.size:
        raise InputError(name, values, "a grid axis must not repeat a point")
    return axis
