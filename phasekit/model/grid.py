"""Many models that differ in some numbers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.checks import number_array
from phasekit.errors import InputError
from phasekit.model.parameters import AXES, INTEGER_AXES, RANGES, RULES, Parameters
from phasekit.scores import Score
from phasekit.show import Shown, Table

if TYPE_CHECKING:
    from phasekit.model.model import Model


class Grid(Shown):
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
        V, L = self.axes.get("V", np.array([base.V])), self.axes.get("L", np.array([base.L]))
        base.task.check_sizes(float(V.min()), float(L.max()))

    def table(self) -> Table:
        """Return the axes; the title says what they have in common."""
        rows = [(name, x.size, float(x.min()), float(x.max())) for name, x in self.axes.items()]
        shared = self.base.at(**dict.fromkeys(set(self.axes) & {"P"}))
        title = f"Grid of {' × '.join(map(str, self.shape))} models around {shared!r}"
        return Table(title, ["axis", "points", "from", "to"], rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(values.size for values in self.axes.values())

    def parameters(self) -> Parameters:
        """Return the numbers: axis number k varies along dimension k of the common shape."""
        if "P" not in self.axes and self.base.P is None:
            raise InputError("P", None, f"missing: {RULES['P']}")
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
    axis = np.atleast_1d(number_array(name, values))
    if axis.ndim != 1 or axis.size == 0:
        raise InputError(name, values, "a grid axis must be a list with at least one point")
    if name in AXES:
        low, high = RANGES[name]
        wrong = axis[~((axis >= low) & (axis <= high))]
        broken = axis[axis != np.round(axis)] if name in INTEGER_AXES else axis[:0]
        if wrong.size:
            raise InputError(name, wrong[0], RULES[name])
        if broken.size:
            raise InputError(name, broken[0], f"{RULES[name]}; round the points and take each once")
    else:
        for value in axis:
            base.score.at(**{name: float(value)})  # the score says what it refuses
    if np.unique(axis).size != axis.size:
        raise InputError(name, values, "a grid axis must not repeat a point")
    return axis
