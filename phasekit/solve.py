"""Roots and minima in one unknown for many models at once: SciPy's elementwise solvers, fed with parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise

from phasekit.model import Parameters

Array = NDArray[np.float64]
#: ``f(x, parameters, *extras)``, elementwise.
Function = Callable[..., Array]


def root(
    function: Function, low: Array, high: Array, p: Parameters, *extras: Array, relative: float | None = None
) -> Array:
    """Return where ``function(x, p, *extras)`` changes sign between ``low`` and ``high``, element by element.

    ``p`` and ``extras`` broadcast against the bracket. The result is exact to ``relative`` (rounding if None), and NaN
    where the ends have the same sign.
    """
    low, high = np.broadcast_arrays(low, high)
    if low.size == 0:
        return np.array(low)
    args = (*_numbers(p, low.shape), *extras)
    tolerances = None if relative is None else {"xrtol": relative}
    solution = elementwise.find_root(_on_numbers(function, p), (low, high), args=args, tolerances=tolerances)
    return np.where(solution.success, solution.x, np.nan)


def minimum(
    function: Function, bracket: tuple[Array, Array, Array], p: Parameters, *extras: Array
) -> tuple[Array, Array]:
    """Return position and value of a local minimum of ``function(x, p, *extras)`` inside a three-point bracket.

    The middle point of the bracket must not lie above its ends; NaN where it does.
    """
    if bracket[0].size == 0:
        return np.array(bracket[1]), np.array(bracket[1])
    args = (*_numbers(p, bracket[0].shape), *extras)
    solution = elementwise.find_minimum(_on_numbers(function, p), bracket, args=args)
    return np.where(solution.success, solution.x, np.nan), np.where(solution.success, solution.f_x, np.nan)


def _numbers(p: Parameters, shape: tuple[int, ...]) -> list[Array]:
    return [np.broadcast_to(number, shape) for number in p.numbers]


def _on_numbers(function: Function, p: Parameters) -> Function:
    """Rewrite a function of parameters as one of bare arrays (the solvers drop elements as they converge)."""
    count = len(p.numbers)

    def on_numbers(x: Array, *numbers: Array) -> Array:
        return function(x, p.with_numbers(numbers[:count]), *numbers[count:])

    return on_numbers
