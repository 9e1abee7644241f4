"""Step sizes and temperatures: one number, or one that falls with the step."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from phasekit.checks import real_number
from phasekit.describe import Description


class Decay(Description):
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

    first: float = Field(ge=0)
    power: float = Field(ge=0)
    offset: float = Field(gt=0)

    def __init__(self, *numbers: float, **fields: Any) -> None:
        super().__init__(**dict(zip(type(self).model_fields, numbers, strict=False)), **fields)

    def at_step(self, step: int) -> float:
        """Return the value of a step, counted from 0."""
        return float(self.first * (1 + step / self.offset) ** -self.power)


Schedule = float | Decay


def value_at(schedule: Schedule, step: int) -> float:
    """Return a schedule's value at a step."""
    return schedule.at_step(step) if isinstance(schedule, Decay) else schedule


def checked_schedule(name: str, value: Any, *, positive: bool = False) -> Schedule:
    """Return a schedule: a :class:`Decay`, or a finite number of at least 0 (above 0 if ``positive``) as a float.

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(value, Decay):
        if positive and value.first == 0:
            real_number(name, value.first, above=0)
        return value
    return real_number(name, value, above=0) if positive else real_number(name, value, least=0)
