"""Checks of what callers hand in. Each returns the value as a plain Python one, or raises a one-line InputError.

NumPy's numbers count as numbers everywhere, ``True`` and ``False`` nowhere.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.errors import InputError

T = TypeVar("T")


def whole_number(field: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number as an int; ``least`` and ``most`` are allowed themselves.

    Raises
    ------
    InputError
        For anything else: floats too, even if they are whole.
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or (least is not None and value < least) or (most is not None and value > most):
        raise InputError(field, value, f"must be a whole number{bounds(least=least, most=most)}")
    return int(value)


def real_number(
    field: str, value: Any, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> float:
    """Return a finite number as a float, above ``above``, at least ``least`` and at most ``most``.

    Raises
    ------
    InputError
        For what is no number, NaN, infinities, and numbers out of range.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if (
        not real
        or (above is not None and value <= above)
        or (least is not None and value < least)
        or (most is not None and value > most)
    ):
        raise InputError(field, value, f"must be a finite number{bounds(above=above, least=least, most=most)}")
    return float(value)


def one_of(field: str, value: Any, allowed: Iterable[T]) -> T:
    """Return the word of ``allowed`` that ``value`` is.

    Raises
    ------
    InputError
        If it is none of them.
    """
    allowed = tuple(allowed)
    for word in allowed:
        if isinstance(value, type(word)) and value == word:
            return word
    raise InputError(field, value, f"must be one of {', '.join(map(str, allowed))}")


def distinct(field: str, values: Any) -> Sequence[Any]:
    """Return a list (tuple, range, 1-D array) of at least one entry, in which none occurs twice.

    Raises
    ------
    InputError
        For an empty list, a repeated entry, or no list at all.
    """
    entries = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(entries, str) or not isinstance(entries, Sequence) or len(entries) == 0:
        raise InputError(field, values, "must be a list with at least one entry")
    if any(entry in entries[:k] for k, entry in enumerate(entries)):
        raise InputError(field, values, "must not repeat an entry")
    return entries


def finite_numbers(field: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return values as a float64 array of the same shape.

    Raises
    ------
    InputError
        For what is no number, complex numbers, masked entries, NaN and infinities: they would spread into all that is
        computed from them.
    """
    array = number_array(field, values)
    if not np.isfinite(array).all():
        raise InputError(field, array[~np.isfinite(array)].tolist(), "must be finite numbers")
    return array


def number_array(field: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return real numbers as a float64 array; NaN and infinities may be among them.

    Raises
    ------
    InputError
        For what is no number, complex numbers (their imaginary part would be lost), and arrays with masked entries
        (their mask would be lost).
    """
    if np.ma.is_masked(values):
        raise InputError(field, values, "must be numbers, none of them masked")
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "iuf" and given.size:
            given = np.asarray([float(word) for word in _flat(given)]).reshape(given.shape)
        return given.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, values, "must be numbers") from None


def _flat(given: NDArray[Any]) -> Iterable[Any]:
    """Return entries that may still be words for numbers; bool, bytes and complex numbers are none."""
    for entry in given.ravel().tolist():
        if isinstance(entry, bool | bytes | complex):
            raise TypeError
        yield entry


def bounds(
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> str:
    """Return a range in words, to be put behind "a number": " of at least 1", " above 0 and at most 10"."""
    lower = (
        f"above {in_full(above)}" if above is not None else f"at least {in_full(least)}" if least is not None else ""
    )
    upper = f"below {in_full(below)}" if below is not None else f"at most {in_full(most)}" if most is not None else ""
    words = " and ".join(part for part in (lower, upper) if part)
    return f" {'of ' if words.startswith('at') else ''}{words}" if words else ""


def in_full(number: float) -> str:
    """Return a number as people write it, with as many digits as tell it from all others: 2, 0.5, 1e+09, 1.000001."""
    text = str(number) if isinstance(number, int) else f"{number:g}"
    return text if float(text) == number else repr(number)
