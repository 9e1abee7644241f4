"""How an axis is written, in sweeps and on the command line (``--x "L=16..1024 in 60"``).

=============================  ======================================================================================
``[64, 128, 256]``             the values themselves (a single value may stand without brackets)
``"16..256"``                  from 16 to 256 in 9 geometric steps
``"16..256 in 5"``             in 5 geometric steps
``"0.5..2 in 16 even"``        in 16 even steps
``"0.5..2 × P_star"``          multiples of a threshold that the theory predicts for the model: P1, P2, P_star or P_x
``"0.5..2 × P_star or P_x"``   … of P_star if the model jumps, else of the steepest point P_x of its crossover
``"0.5..2 × posterior P1"``    … of the posterior's threshold; without that word the map estimator's
``"0.8, 1, 1.25 × P1"``        the same, listed (``x`` and ``*`` may stand for ``×``)
``"P_star"``                   the threshold itself
``["0.9..1.4 in 6 × P1", …]``  all values of several such words
=============================  ======================================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasekit.errors import InputError

SYNTAX = "VALUE,VALUE,…, FIRST..LAST, FIRST..LAST in COUNT (geometric steps) or FIRST..LAST in COUNT even"
THRESHOLDS = ("P1", "P2", "P_star", "P_x")
LARGEST_COUNT = 100_000
_DEFAULT_COUNT = 9
_IN_SWEEPS = f"{SYNTAX}, a list of these; for P also … × {', '.join(THRESHOLDS)}, or one or another: P_star or P_x"
_TIMES = re.compile(r"\s*(?<![A-Za-z_])[×x*]\s*(?=[A-Za-z])")
_STEPS = r"(?:\s+in\s+(?P<count>\S+?))?(?P<even>\s+even)?"
_RANGE = re.compile(r"(?P<first>\S+?)\s*\.\.\s*(?P<last>\S+?)" + _STEPS)
_THRESHOLD = re.compile(r"(?P<name>.+?)" + _STEPS)
#: How ranges were written on the command line before: FIRST:LAST:COUNT, with ``:lin`` for even steps.
_COLONS = re.compile(r"([^:]*):([^:]*):([^:]*?)(?::(log|lin))?")


@dataclass(frozen=True)
class AxisValues:
    """The values of one axis.

    Attributes
    ----------
    parts : pairs of numbers, in the order written, and the threshold that they are multiples of: one of
        :data:`THRESHOLDS`, several joined by "or", or None for numbers that stand for themselves.
    """

    parts: tuple[tuple[tuple[float, ...], str | None], ...]

    def __len__(self) -> int:
        return sum(len(numbers) for numbers, _ in self.parts)

    @property
    def first(self) -> float:
        """The first number."""
        return self.parts[0][0][0]

    @property
    def thresholds(self) -> set[str]:
        """The thresholds that values are multiples of."""
        return {times for _, times in self.parts if times is not None}

    def resolve(self, threshold: Callable[[str], float]) -> list[float]:
        """Return all values, given what each threshold is."""
        return [
            value * (1.0 if times is None else threshold(times)) for values, times in self.parts for value in values
        ]


def parse_values(name: str, written: Any) -> AxisValues:
    """Read the values of a numeric axis.

    Raises
    ------
    InputError
        If it doesn't follow the syntax, holds no value, repeats one, or one isn't finite.
    """
    if isinstance(written, list) and written and all(isinstance(part, str) for part in written):
        parts = [_part(name, part) for part in written]
    else:
        parts = [_part(name, written)]
    for times in {times for _, times in parts}:
        values = [value for part, unit in parts if unit == times for value in part]
        if len(set(values)) != len(values):
            raise InputError(name, written, "must not repeat a value")
    return AxisValues(tuple(parts))


def _part(name: str, written: Any) -> tuple[tuple[float, ...], str | None]:
    """Read numbers, or one word with a range or a list and perhaps a threshold."""
    times = None
    if isinstance(written, str):
        text, times = _apart(name, written.strip())
        values = _range(name, text) if ".." in text else [_number(name, word) for word in text.split(",")]
    else:
        values = [_number(name, value) for value in (written if isinstance(written, list) else [written])]
    if not values:
        raise InputError(name, written, f"must hold at least one value; an axis is written {_IN_SWEEPS}")
    return tuple(values), times


def _apart(name: str, written: str) -> tuple[str, str | None]:
    """Take a word apart into numbers and the threshold that they are multiples of, if any."""
    if ":" in written:
        colons = _COLONS.fullmatch(written)
        if colons is None:
            raise InputError(name, written, f"an axis is written {_IN_SWEEPS}")
        first, last, count, spacing = colons.groups()
        return f"{first}..{last} in {count or None}{' even' if spacing == 'lin' else ''}", None
    text, *threshold = _TIMES.split(written) if _threshold(written) is None else ("1", written)
    if not threshold:
        return text, None
    found = _THRESHOLD.fullmatch(threshold[0].strip())
    times = _threshold(found["name"]) if found else None
    if times is None or found is None or len(threshold) > 1:
        one = f"must be multiples of {', '.join(THRESHOLDS)}, or of one or another: P_star or P_x"
        raise InputError(name, written, one)
    steps = f" in {found['count']}" if found["count"] else ""  # behind the threshold or before it
    return f"{text}{steps}{found['even'] or ''}", times


def _threshold(words: str) -> str | None:
    """Return "P_star or P_x" of words that say so; None for others."""
    names = [name.strip() for name in words.split(" or ")]
    return " or ".join(names) if {name.removeprefix("posterior ") for name in names} <= {*THRESHOLDS} else None


def _range(name: str, text: str) -> list[float]:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise InputError(name, text, f"an axis is written {_IN_SWEEPS}")
    first, last = _number(name, match["first"]), _number(name, match["last"])
    count = _count(name, match["count"])
    if first == last and count == 1:
        return [first]
    if not first < last:
        raise InputError(name, text, "the first value must be below the last")
    if count == 1:
        raise InputError(name, text, "one value doesn't reach from the first to the last; must be at least 2 values")
    if match["even"]:
        return [float(x) for x in np.linspace(first, last, count)]
    if first <= 0:
        raise InputError(name, text, "the first value must be above 0 for geometric steps; write … even for even ones")
    return [float(x) for x in np.geomspace(first, last, count)]


def _count(name: str, word: str | None) -> int:
    if word is None:
        return _DEFAULT_COUNT
    if not word.isdecimal() or len(word) > len(str(LARGEST_COUNT)) or not 1 <= int(word) <= LARGEST_COUNT:
        raise InputError(f"{name}, number of values", word, f"must be a whole number from 1 to {LARGEST_COUNT}")
    return int(word)


def _number(name: str, word: Any) -> float:
    try:
        if isinstance(word, bool):
            raise ValueError
        number = float(word)
    except (TypeError, ValueError):
        raise InputError(name, word, f"is not a number; an axis is written {_IN_SWEEPS}") from None
    if not math.isfinite(number):
        raise InputError(name, number, "must be a finite number")
    return number
