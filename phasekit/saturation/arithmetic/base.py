"""What a number system offers to a formula."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Arrays of numbers of some system: they know +, -, *, / among themselves and with exact floats, and slicing.
Number = Any
Mask = NDArray[np.bool_]


class Arithmetic(Protocol):
    """Elementary functions on arrays of numbers.

    Floats and float64 arrays that meet numbers are exact. Masks and indices are always plain numpy arrays: formulas
    branch on exact inputs only, never on computed numbers.
    """

    def lift(self, exact: NDArray[np.float64]) -> Number:
        """Return numbers that are exactly these floats."""

    def absolute(self, x: Number) -> Number:
        """Return |x|."""

    def exp(self, x: Number) -> Number:
        """Return eˣ."""

    def log(self, x: Number) -> Number:
        """Return ln x, for x > 0."""

    def log1p(self, x: Number) -> Number:
        """Return ln(1 + x), for x ≥ 0."""

    def where(self, mask: Mask, x: Number, otherwise: Number) -> Number:
        """Return x where the mask is True. Both must be defined everywhere."""

    def logsumexp(self, x: Number, mask: Mask | None = None) -> Number:
        """Return ln Σ eˣ over the last axis, which is kept with length 1; only over True entries of the mask."""

    def take(self, x: Number, column: NDArray[np.intp]) -> Number:
        """Return for every row the entry of the given column: both of shape (rows, 1)."""

    def ssa(self, x: Number, n: Number, b: Number) -> Number:
        """Return the log-weight of SSA, t(x) = n·sgn(x)·ln(1 + b|x|). The sign of x must be certain."""

    def root(self, estimate: NDArray[np.float64], function: Any, slope: Any) -> Number:
        """Return the root near a float64 estimate of a function (number → number) with the given derivative."""
