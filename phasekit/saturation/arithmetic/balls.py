"""Float64 arrays that know how wrong they are: midpoint-radius ("ball") arithmetic.

A ball (mid, rad) stands for a real number that is surely in [mid − rad, mid + rad]. Every operation adds to the radii
of its arguments, carried through the operation, the largest rounding error of its own result: u|mid| for + − × ÷, with
u = 2⁻⁵³, and 8u|mid| for exp, log and log1p, of which numpy promises at most 4 units in the last place (1 unit is at
most 2u|mid|). Results below the smallest normal number are covered by ``TINY``.

Radii are rounded themselves, each operation losing at most a few u of them. A formula has some hundred operations at
most, so ``SAFETY`` (2⁻²⁰ = 10⁻⁶ ≫ 100 · 10 u) at the end is far more than enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.base import Mask

U = 2.0**-53
LIBRARY = 8 * U
TINY = 2.0**-1022
SAFETY = 1 + 2.0**-20

Floats = NDArray[np.float64]


class Ball:
    """Arrays of balls."""

    __slots__ = ("mid", "rad")
    __array_ufunc__ = None  # so that float arrays leave mixed operations to this class

    def __init__(self, mid: Floats, rad: Floats) -> None:
        self.mid, self.rad = mid, rad

    @staticmethod
    def of(x: Any) -> Ball:
        """Return x if it is a ball, else the exact number x."""
        if isinstance(x, Ball):
            return x
        exact = np.asarray(x, dtype=float)
        return Ball(exact, np.zeros(()))

    @property
    def lowest(self) -> Floats:
        """The true number is at least this."""
        return self.mid - SAFETY * self.rad

    @property
    def highest(self) -> Floats:
        """The true number is at most this."""
        return self.mid + SAFETY * self.rad

    def __neg__(self) -> Ball:
        return Ball(-self.mid, self.rad)

    def __add__(self, other: Any) -> Ball:
        other = Ball.of(other)
        mid = self.mid + other.mid
        return Ball(mid, self.rad + other.rad + U * np.abs(mid))

    def __sub__(self, other: Any) -> Ball:
        return self + (-Ball.of(other))

    def __rsub__(self, other: Any) -> Ball:
        return Ball.of(other) + (-self)

    def __mul__(self, other: Any) -> Ball:
        other = Ball.of(other)
        mid = self.mid * other.mid
        carried = np.abs(self.mid) * other.rad + np.abs(other.mid) * self.rad + self.rad * other.rad
        return Ball(mid, carried + U * np.abs(mid) + TINY)

    def __truediv__(self, other: Any) -> Ball:
        other = Ball.of(other)
        mid = self.mid / other.mid
        distance = np.maximum(np.abs(other.mid) - other.rad, 0)  # of the divisor from 0
        return Ball(mid, (self.rad + np.abs(mid) * other.rad) / distance + U * np.abs(mid) + TINY)

    def __rtruediv__(self, other: Any) -> Ball:
        return Ball.of(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index: Any) -> Ball:
        return Ball(self.mid[index], np.broadcast_to(self.rad, self.mid.shape)[index])


class Balls:
    """Ball arithmetic as an :class:`~phasekit.saturation.arithmetic.base.Arithmetic`."""

    def lift(self, exact: Floats) -> Ball:
        return Ball.of(exact)

    def absolute(self, x: Any) -> Ball:
        x = Ball.of(x)
        return Ball(np.abs(x.mid), x.rad)

    def exp(self, x: Any) -> Ball:
        x = Ball.of(x)
        mid = np.exp(x.mid)
        return Ball(mid, mid * (np.expm1(x.rad) + LIBRARY) + TINY)

    def log(self, x: Any) -> Ball:
        x = Ball.of(x)
        mid = np.log(x.mid)
        return Ball(mid, x.rad / np.maximum(x.mid - x.rad, 0) + LIBRARY * np.abs(mid) + TINY)

    def log1p(self, x: Any) -> Ball:
        x = Ball.of(x)
        mid = np.log1p(x.mid)
        return Ball(mid, x.rad / (1 + np.maximum(x.mid - x.rad, 0)) + LIBRARY * mid + TINY)

    def where(self, mask: Mask, x: Any, otherwise: Any) -> Ball:
        x, otherwise = Ball.of(x), Ball.of(otherwise)
        return Ball(np.where(mask, x.mid, otherwise.mid), np.where(mask, x.rad, otherwise.rad))

    def logsumexp(self, x: Any, mask: Mask | None = None) -> Ball:
        x = Ball.of(x)
        included = x.mid if mask is None else np.where(mask, x.mid, -np.inf)
        shift: Floats = included.max(axis=-1, keepdims=True)  # any number would do: it is subtracted and added exactly
        terms = self.exp(x - shift if mask is None else self.where(mask, x - shift, 0.0))
        if mask is not None:
            terms = terms * mask.astype(float)
        total = terms.mid.sum(axis=-1, keepdims=True)  # all terms are positive: error at most (terms − 1) u total
        rad = np.broadcast_to(terms.rad, terms.mid.shape).sum(axis=-1, keepdims=True)
        return self.log(Ball(total, rad + terms.mid.shape[-1] * U * total)) + shift

    def take(self, x: Ball, column: NDArray[np.intp]) -> Ball:
        rad = np.broadcast_to(x.rad, x.mid.shape)
        return Ball(np.take_along_axis(x.mid, column, -1), np.take_along_axis(rad, column, -1))

    def ssa(self, x: Any, n: Any, b: Any) -> Ball:
        x = Ball.of(x)
        size = self.log1p(Ball.of(b) * self.absolute(x))
        return size * Ball.of(n) * Ball.of(np.sign(x.mid))

    def root(self, estimate: Floats, function: Any, slope: Any) -> Ball:
        """Enclose the root by one interval Newton step, x ↦ x₀ − f(x₀)/f'(X), which must map X into itself."""
        width = 2.0**-20 * np.abs(estimate)
        start = Ball.of(estimate)
        root = start - Ball.of(function(start)) / slope(Ball(start.mid, width))
        inside = np.abs(root.mid - start.mid) + root.rad <= width
        return Ball(root.mid, np.where(inside, root.rad, np.inf))
