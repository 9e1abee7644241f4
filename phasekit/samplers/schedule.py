"""Step sizes and temperatures: one number, or one that falls with the step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from phasekit.errors import InputError


@dataclass(frozen=True)
class Decay:
    """A value that falls as a power of the step: ``first * (1 + step / offset) ** -power``.

    With a power in (1/2, 1] of the step size, SGLD's bias vanishes as chains grow (Welling and Teh 2011), at the price
    of ever slower chains. A small constant step, extrapolated to zero, is the better bargain for heads.

    Parameters
    ----------
    first : float
        Value at step 0.
    power : float
    offset : float
        Steps after which the fall sets in.

    Raises
    ------
    InputError
        If a number is not finite, negative, or ``offset`` is 0.
    """

    first: float
    power: float
    offset: float

    def __post_init__(self) -> None:
        check("first", self.first)
        check("power", self.power)
        check("offset", self.offset, positive=True)

    def at(self, step: int) -> float:
        """Return the value of a step, counted from 0."""
        return float(self.first * (1 + step / self.offset) ** -self.power)

    def describe(self) -> dict[str, Any]:
        """Return plain JSON values; ``Decay(**values)`` takes them back."""
        return asdict(self)


Schedule = float | Decay


def value_at(schedule: Schedule, step: int) -> float:
    """Return a schedule's value at a step."""
    return schedule.at(step) if isinstance(schedule, Decay) else schedule


def check(name: str, value: Any, *, positive: bool = False) -> None:
    """Refuse what is no finite number of at least 0 (above 0 if ``positive``).

    Raises
    ------
    InputError
    """
    number = isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (positive and value == 0):
        raise InputError(name, value, f"must be a finite number {'above' if positive else 'of at least'} 0")


def check_schedule(name: str, value: Any, *, positive: bool = False) -> None:
    """Refuse what is neither a :class:`Decay` nor a number that :func:`check` allows."""
    if not isinstance(value, Decay):
        check(name, value, positive=positive)
