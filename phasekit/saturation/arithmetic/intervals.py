"""Intervals of mpmath.iv with any number of digits, in object arrays: they arbitrate what float64 can't decide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from mpmath import iv
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.base import Mask

_lift = np.frompyfunc(lambda x: iv.mpf(float(x)), 1, 1)
_exp = np.frompyfunc(lambda x: iv.exp(x), 1, 1)
_log = np.frompyfunc(lambda x: iv.log(x), 1, 1)
_sign = np.frompyfunc(lambda x: float(np.sign(float(x.mid.a))), 1, 1)


SMALLEST = float(np.nextafter(0, 1))


@contextmanager
def digits(count: int) -> Iterator[None]:
    """Compute with this many decimal digits inside the block."""
    before = iv.prec
    iv.dps = count
    try:
        yield
    finally:
        iv.prec = before


def ends(intervals: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends of every interval in float64: infinite if beyond it; what is too small for it keeps its sign."""

    def number(exact: Any) -> float:
        rounded = float(exact.mid)
        if rounded == 0 and exact != 0:
            return SMALLEST if exact > 0 else -SMALLEST
        return rounded

    with np.errstate(over="ignore"):
        low, high = np.vectorize(lambda x: (number(x.a), number(x.b)), otypes=[float, float])(intervals)
    return np.asarray(low), np.asarray(high)


class Intervals:
    """Interval arithmetic as an :class:`~phasekit.saturation.arithmetic.base.Arithmetic`."""

    def lift(self, exact: NDArray[np.float64]) -> Any:
        return np.asarray(_lift(exact), dtype=object)

    def absolute(self, x: Any) -> Any:
        return np.abs(x)

    def exp(self, x: Any) -> Any:
        return _exp(x)

    def log(self, x: Any) -> Any:
        return _log(x)

    def log1p(self, x: Any) -> Any:
        return _log(1 + x)

    def where(self, mask: Mask, x: Any, otherwise: Any) -> Any:
        return np.where(mask, self._numbers(x), self._numbers(otherwise))

    def logsumexp(self, x: Any, mask: Mask | None = None) -> Any:
        # numbers of mpmath neither overflow nor underflow, so nothing needs to be shifted
        terms = _exp(x) if mask is None else np.where(mask, _exp(x), self.lift(np.zeros(())))
        return _log(terms.sum(axis=-1, keepdims=True))

    def take(self, x: Any, column: NDArray[np.intp]) -> Any:
        return np.take_along_axis(x, column, -1)

    def ssa(self, x: Any, n: Any, b: Any) -> Any:
        return n * _sign(x) * self.log1p(b * np.abs(x))

    def root(self, estimate: NDArray[np.float64], function: Any, slope: Any) -> Any:
        """Enclose the root by interval Newton steps, x ↦ x₀ − f(x₀)/f'(X): the first must map X into itself.

        Each step doubles the number of right digits.
        """
        around = iv.mpf([1 - 2.0**-20, 1 + 2.0**-20])
        box = self.lift(estimate) * around
        for step in range(12):
            middle = np.frompyfunc(lambda x: iv.mpf(x.mid), 1, 1)(box)
            image = middle - function(middle) / slope(box)
            contained = np.frompyfunc(lambda inner, outer: bool(inner.a >= outer.a and inner.b <= outer.b), 2, 1)
            if step == 0 and not np.all(contained(image, box)):
                raise ArithmeticError("the estimate isn't close enough to a root to enclose it")
            if not np.any(np.frompyfunc(lambda new, old: bool(new.delta < old.delta / 2), 2, 1)(image, box)):
                break
            box = image
        return box

    def _numbers(self, x: Any) -> Any:
        x = np.asarray(x)
        return x if x.dtype == object else self.lift(x)
