"""Where to look: ranges of P and windows of aG that the posterior's theory suggests for a model."""

from __future__ import annotations

import numpy as np

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Passage, find_transitions

#: Loops begin and end this factor beyond the spinodals, so that both directions meet.
_MARGIN = 1.4
#: P relative to a continuous passage.
_AROUND = (0.35, 1.8)
#: Windows reach so many standard deviations beyond the outermost wells.
_BEYOND = 3.0


def posterior_passage(model: Model) -> Passage:
    """Return the first passage in the posterior of a model; takes seconds.

    Raises
    ------
    InputError
        If there is no theory of this model's posterior, or no transition in it.
    """
    found = find_transitions(model.at(P=None), "posterior")
    if not found.passages:
        raise InputError(
            "P", None, f"nothing changes at any P in this theory ({found.evidence['why']}): give the sizes"
        )
    return found.passages[0]


def loop_sizes(passage: Passage, count: int = 12) -> tuple[int, ...]:
    """Return data set sizes for a loop or for susceptibilities, from well before the transition to well after."""
    low, high = (passage.P * factor for factor in _AROUND)
    if passage.window is not None:
        below, above = passage.window
        low, high = below / _MARGIN, (above * _MARGIN if np.isfinite(above) else high)
    count = whole_number("count", count, 2)
    return tuple(int(P) for P in np.unique(np.geomspace(low, high, count).round()))


def windows(model: Model, count: int = 20) -> tuple[tuple[float, ...], float]:
    """Return centres and stiffness of umbrella windows that cover all wells of the copy order parameter.

    A spring's width, 1/√stiffness, is half the spacing: neighbours then overlap wherever F itself doesn't push away.

    Raises
    ------
    InputError
        Without P, or if there is no theory of this model's posterior.
    """
    count = whole_number("windows", count, 2)
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
