"""Where to look: ranges of P and windows of aG that the posterior's theory suggests for a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Transitions, find_transitions

#: A sweep begins and ends so far outside of what it is about: chains on both ways then agree at its ends.
_MARGIN = 1.4
#: P relative to a continuous passage.
_AROUND = (0.35, 1.8)
#: Windows reach so many standard deviations beyond the outermost wells.
_BEYOND = 3.0


@dataclass(frozen=True)
class Place:
    """A model's transition in the posterior's theory.

    Attributes
    ----------
    transition : Transitions
    symbol, P : str, float
        ``P_star`` of a jump, ``P1`` of an onset, ``P2`` or ``P_x`` of a crossover.
    """

    transition: Transitions
    symbol: str
    P: float


def posterior_place(model: Model) -> Place:
    """Return where the posterior of a model changes; takes seconds.

    Raises
    ------
    InputError
        If there is no theory of this model's posterior, or no transition in it.
    """
    found = find_transitions(model.at(P=None), "posterior")
    known = [name for name in ("P_star", "P1", "P2", "P_x") if found.values.get(name) is not None]
    if not known:
        raise InputError(
            "P", None, f"nothing changes at any P in this theory ({found.evidence['why']}): give the sizes"
        )
    symbol = known[0]
    return Place(found, symbol, float(found.values[symbol]))


def loop_sizes(place: Place, count: int = 12) -> tuple[int, ...]:
    """Return data set sizes for a sweep or for susceptibilities, from well before the transition to well after."""
    if count < 2:
        raise InputError("count", count, "must be at least 2")
    spinodals = place.transition.values.get("spinodals")
    low, high = (spinodals[0] / _MARGIN, spinodals[1] * _MARGIN) if spinodals else (place.P * x for x in _AROUND)
    return tuple(int(P) for P in np.unique(np.geomspace(low, high, count).round()))


def windows(model: Model, count: int = 20) -> tuple[tuple[float, ...], float]:
    """Return centres and stiffness of umbrella windows that cover all wells of the copy order parameter.

    A spring's width, 1/√stiffness, is half the spacing: neighbours then overlap wherever F itself doesn't push away.

    Raises
    ------
    InputError
        Without P, or if there is no theory of this model's posterior.
    """
    if count < 2:
        raise InputError("windows", count, "must be at least 2")
    found = find_minima(model, "posterior")
    name = "aG" if model.score.normalised else "cG"
    here, variance = found.order_parameters[name], found.variance(name)
    assert variance is not None  # the posterior always has one
    width = _BEYOND * np.sqrt(variance)
    low, high = float(np.nanmin(here - width)), float(np.nanmax(here + width))
    if not model.score.normalised:  # the sign of cG is a symmetry
        high = max(high, -low)
        low = -high
    return tuple(np.linspace(low, high, count).tolist()), (2 * (count - 1) / (high - low)) ** 2
