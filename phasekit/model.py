"""The one description of task, head and data that theory, networks and figures share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from phasekit.errors import InputError
from phasekit.scores import Score, get_score

Inputs = Literal["positional", "token+position"]
Estimator = Literal["map", "posterior"]

#: The fields that may become an axis of a :class:`Grid`, in the order of :class:`Parameters`.
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
    """

    P: NDArray[np.float64]
    V: NDArray[np.float64]
    L: NDArray[np.float64]
    sigma_w: NDArray[np.float64]
    sigma_g: NDArray[np.float64]
    kappa: NDArray[np.float64]
    inputs: Inputs = "positional"

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(getattr(self, name)) for name in AXES))

    @property
    def pooling_cost(self) -> NDArray[np.float64]:
        """λ of the prior cost λ s²/(2σ_g²) of a uniform linear attention pattern (docs/theory.md, section 4)."""
        if self.inputs == "positional":
            return self.L**2
        return (self.V * self.L / (self.V + self.L)) ** 2

    def replace(self, **changes: ArrayLike) -> Parameters:
        """Return a copy with some numbers exchanged (no validation: for solvers that vary P or L)."""
        values: dict[str, Any] = {name: getattr(self, name) for name in AXES}
        values.update({name: np.asarray(value, dtype=float) for name, value in changes.items()})
        return Parameters(**values, inputs=self.inputs)

    def ravel(self) -> Parameters:
        """Broadcast all numbers to the common shape and flatten them."""
        arrays = np.broadcast_arrays(*self._numbers())
        return self._from(np.ascontiguousarray(a).reshape(-1) for a in arrays)

    def expand(self) -> Parameters:
        """Append one axis of length 1, so that the numbers broadcast against a trailing axis of candidates."""
        return self._from(np.asarray(number)[..., None] for number in self._numbers())

    def __getitem__(self, index: Any) -> Parameters:
        """Index flattened parameters (see :meth:`ravel`)."""
        return self._from(number[index] for number in self._numbers())

    def _numbers(self) -> list[NDArray[np.float64]]:
        return [getattr(self, name) for name in AXES]

    def _from(self, numbers: Iterable[NDArray[np.float64]]) -> Parameters:
        return Parameters(**dict(zip(AXES, numbers, strict=True)), inputs=self.inputs)


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
        """Return the model as plain JSON values; ``Model(**model.describe())`` gives it back."""
        return {**self.model_dump(exclude={"score"}), "score": self.score.describe()}

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
        return Parameters(**numbers, inputs=self.inputs)

    def grid(self, **axes: ArrayLike) -> Grid:
        """Return the models obtained by varying some fields: ``model.grid(P=[...], L=[...])``."""
        return Grid(self, axes)


class Grid:
    """A base model and labelled axes over some of its numbers.

    Parameters
    ----------
    base : Model
    axes : mapping of field name (P, V, L, sigma_w, sigma_g, kappa) to a 1-D array of values

    Raises
    ------
    InputError
        For an unknown axis, an axis without points, repeated points, or a value that :class:`Model` would refuse.
    """

    def __init__(self, base: Model, axes: Mapping[str, ArrayLike]) -> None:
        self.base = base
        self.axes: dict[str, NDArray[np.float64]] = {name: _axis(name, values) for name, values in axes.items()}
        if not self.axes:
            raise InputError("grid", None, f"has no axes; choose from {', '.join(AXES)}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(values.size for values in self.axes.values())

    def parameters(self) -> Parameters:
        """Return the numbers: axis number k varies along dimension k of the common shape."""
        numbers: dict[str, NDArray[np.float64]] = {}
        for k, (name, values) in enumerate(self.axes.items()):
            numbers[name] = values.reshape([-1 if j == k else 1 for j in range(len(self.axes))])
        if "P" not in numbers and self.base.P is None:
            raise InputError("P", None, f"missing: {_RULES['P']}")
        for name in AXES:
            numbers.setdefault(name, np.asarray(getattr(self.base, name), dtype=float))
        return Parameters(**numbers, inputs=self.base.inputs)


def _axis(name: str, values: ArrayLike) -> NDArray[np.float64]:
    if name not in AXES:
        raise InputError("grid axis", name, f"must be one of {', '.join(AXES)}")
    try:
        axis = np.atleast_1d(np.asarray(values, dtype=float))
    except (TypeError, ValueError):
        raise InputError(name, values, _RULES[name]) from None
    if axis.ndim != 1 or axis.size == 0:
        raise InputError(name, values, "a grid axis must be a list with at least one point")
    low, high = RANGES[name]
    for value in axis:
        if not (low <= value <= high and (name not in INTEGER_AXES or value == round(value))):
            raise InputError(name, float(value), _RULES[name])
    if np.unique(axis).size != axis.size:
        raise InputError(name, values, "a grid axis must not repeat a point")
    return axis
