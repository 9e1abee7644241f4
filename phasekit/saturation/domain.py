"""Where theorems are verified: which inputs there are, their ranges, and random points that reach every corner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.checks import finite_numbers
from phasekit.errors import InputError

#: Logits of shape (rows, keys), descending; all else of shape (rows, 1).
Inputs = dict[str, NDArray[np.float64]]

#: Share of rows with exact ties, exact zeros at the top, or nearly equal logits: where bounds become equalities.
SPECIAL = 0.006
#: Share of rows whose scale is drawn from the far range.
FAR = 0.005
#: Row lengths, and how often each is drawn. With two keys many bounds are equalities, which is worth few rows.
KEYS = {2: 0.6, 3: 18, 4: 17, 5: 15, 6: 13, 7: 11, 8: 9, 9: 7, 10: 5, 11: 3, 64: 1}


def count(inputs: Inputs) -> int:
    """Return the number of rows."""
    return len(next(iter(inputs.values())))


def select(inputs: Inputs, rows: Any) -> Inputs:
    """Return some rows: a mask, a slice or indices."""
    return {name: values[rows] for name, values in inputs.items()}


def join(parts: Sequence[Inputs]) -> Inputs:
    """Return the rows of all parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True)
class Variable:
    """One input of a theorem.

    Attributes
    ----------
    kind : "logits", "logit" or "positive"
        A row of real numbers, one real number, or one number above 0.
    low, high : float
        Range of the number, or of the magnitude of a logit; random points are uniform in its logarithm.
    far : float, optional
        A larger upper end for a few rows.
    symbol : str
        How it is written.
    """

    symbol: str
    kind: Literal["logits", "logit", "positive"]
    low: float
    high: float
    far: float | None = None

    @property
    def upper(self) -> float:
        """The end of the range, far or not."""
        return max(self.high, self.far or 0.0)

    def __str__(self) -> str:
        if self.kind == "positive":
            return f"{self.symbol} {self.low:g}…{self.upper:g}"
        return f"|{self.symbol}| ≤ {self.upper:g}"


@dataclass(frozen=True)
class Domain:
    """The inputs of a theorem and their ranges.

    Attributes
    ----------
    variables : mapping of name to Variable
    extra_keys : int
        How many keys a row has besides those of the variable of kind "logits" (the winner, if given by its gap).
    condition : str
        Hypotheses beyond the ranges, in words.
    """

    variables: Mapping[str, Variable]
    extra_keys: int = 0
    condition: str = ""

    @property
    def has_rows(self) -> bool:
        """Whether there is a row of logits, of any length."""
        return any(variable.kind == "logits" for variable in self.variables.values())

    def __str__(self) -> str:
        keys = [f"m {min(KEYS)}…{max(k for k in KEYS if k < 12)}, {max(KEYS)}"] if self.has_rows else []
        parts = [*keys, *map(str, self.variables.values()), *([self.condition] if self.condition else [])]
        return "; ".join(parts)

    def shape(self, given: Mapping[str, ArrayLike]) -> Inputs:
        """Return given inputs as arrays of one number of rows, logits in descending order.

        Raises
        ------
        InputError
            For missing or unknown names, shapes that don't fit, or numbers that aren't finite.
        """
        if given.keys() != self.variables.keys():
            raise InputError("inputs", sorted(given), f"must be exactly: {', '.join(self.variables)}")
        arrays = {name: self._array(name, values) for name, values in given.items()}
        rows = {len(array) for array in arrays.values()} - {1}
        if len(rows) > 1:
            raise InputError("inputs", {name: len(a) for name, a in arrays.items()}, "numbers of rows must agree")
        count = max(rows, default=1)
        return {name: np.broadcast_to(a, (count, a.shape[1])) for name, a in arrays.items()}

    def _array(self, name: str, values: ArrayLike) -> NDArray[np.float64]:
        logits = self.variables[name].kind == "logits"
        array = finite_numbers(name, values)
        if array.ndim > 1 + logits or array.size == 0 or (logits and array.ndim == 0):
            form = "(keys,) or (rows, keys)" if logits else "() or (rows,)"
            raise InputError(name, array.shape, f"its shape must be {form}, not empty")
        array = np.atleast_2d(array) if logits else array.reshape(-1, 1)
        if logits and array.shape[1] < 2 - self.extra_keys:
            raise InputError(name, array.shape, f"needs at least {2 - self.extra_keys} keys")
        return -np.sort(-array, axis=-1) if logits else array

    def row_lengths(self, rows: int) -> dict[int, int]:
        """Return how many of the rows have how many keys."""
        if not self.has_rows:
            return {2: rows}
        weights = np.array([*KEYS.values()], dtype=float)
        counts = np.floor(rows * weights / weights.sum()).astype(int)
        counts[1] += rows - counts.sum()
        return {keys: int(count) for keys, count in zip(KEYS, counts, strict=True) if count}

    def draw(self, rng: np.random.Generator, rows: int, keys: int, special: float = SPECIAL) -> Inputs:
        """Draw random inputs, a share of them on special patterns. They need not satisfy the hypotheses."""
        drawn: Inputs = {}
        far = rng.random((rows, 1)) < FAR
        for name, variable in self.variables.items():
            top = np.where(far, variable.upper, variable.high)
            if variable.kind == "logits":
                drawn[name] = _logits(rng, rows, keys - self.extra_keys, variable.low, top, special)
            elif variable.kind == "logit":
                drawn[name] = _magnitudes(rng, (rows, 1), variable.low, top) * rng.choice([-1.0, 1.0], (rows, 1))
            else:
                drawn[name] = _magnitudes(rng, (rows, 1), variable.low, top)
        return drawn


def _magnitudes(rng: np.random.Generator, shape: tuple[int, int], low: Any, high: Any) -> NDArray[np.float64]:
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))


def _logits(
    rng: np.random.Generator, rows: int, keys: int, low: float, high: Any, special: float
) -> NDArray[np.float64]:
    """Draw logits of every pattern of signs, with zeros; a few rows have ties and near ties. Descending."""
    # Magnitudes of one row lie within a range of its own, so that rows of similar and of wildly different logits occur.
    top = _magnitudes(rng, (rows, 1), low, high)
    bottom: Any = np.maximum(top * np.exp(rng.uniform(np.log(1e-3), 0, (rows, 1))), low / 10)
    z = _magnitudes(rng, (rows, keys), bottom, np.maximum(top, bottom))
    positive_share = rng.choice([0.0, 0.3, 0.5, 1.0], (rows, 1))  # all negative, …, all positive
    z *= np.where(rng.random((rows, keys)) < positive_share, 1.0, -1.0)
    with_zeros = rng.random((rows, 1)) < 0.1
    z[with_zeros & (rng.random((rows, keys)) < 0.3)] = 0.0
    chosen = np.flatnonzero(rng.random(rows) < special)
    for row, pattern in zip(chosen, rng.integers(0, 6, len(chosen)), strict=True):
        _make_special(rng, z[row], pattern)
    return -np.sort(-z, axis=-1)


def _make_special(rng: np.random.Generator, row: NDArray[np.float64], pattern: int) -> None:
    chosen = rng.random(row.size) < 0.5
    largest = row.max()
    if pattern == 0:  # ties with the winner
        row[chosen] = largest
    elif pattern == 1:  # all losers tie
        row[:] = row.min()
        row[0] = largest
    elif pattern == 2:  # near ties
        row[chosen] = largest * (1 + 1e-12 * rng.standard_normal(chosen.sum()))
    elif pattern == 3:  # the winner is 0
        row[:] = -np.abs(row)
        row[chosen] = 0.0
    elif pattern == 4:  # two opposite values
        row[:] = np.where(chosen, largest, -largest)
    else:  # all equal
        row[:] = largest
