"""Roots and minima in one unknown for many models at once: SciPy's elementwise solvers, fed with parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise

from phasekit.model import Parameters

_NEWTON_STEPS = 200
_NEWTON_PRECISION = 4e-16

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


def newton(function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array, start: Array) -> Array:
    """Return the root of ``function``, which returns (value, slope), between ``low`` and ``high``, elementwise.

    Newton's method, with halving where a step leaves what is left of the bracket: for functions so cheap that the
    bookkeeping of :func:`root` would cost most of the time. The value must not fall from ``low`` to ``high``. Where it
    has one sign throughout, the end nearest to its root is returned.
    """
    x = np.clip(start, low, high)
    for _ in range(_NEWTON_STEPS):
        value, slope = function(x)
        low, high = np.where(value < 0, x, low), np.where(value > 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - value / slope
        inside = (step >= low) & (step <= high)
        new = np.where(value == 0, x, np.where(inside, step, (low + high) / 2))
        moved, x = np.abs(new - x), new
        if (moved <= _NEWTON_PRECISION * np.abs(x)).all():
            break
    return np.asarray(x)


def _numbers(p: Parameters, shape: tuple[int, ...]) -> list[Array]:
    return [np.broadcast_to(number, shape) for number in p.numbers]


def _on_numbers(function: Function, p: Parameters) -> Function:
    """Rewrite a function of parameters as one of bare arrays (the solvers drop elements as they converge)."""
    count = len(p.numbers)

    def on_numbers(x: Array, *numbers: Array) -> Array:
        return function(x, p.with_numbers(numbers[:count]), *numbers[count:])

    return on_numbers
