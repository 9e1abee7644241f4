"""Draw points that satisfy a theorem's hypotheses."""

from __future__ import annotations

import numpy as np

from phasekit.errors import InputError
from phasekit.saturation.domain import SPECIAL, Inputs, count, join, select
from phasekit.saturation.theorem import Theorem

_MOST_DRAWS = 1000


def draw(theorem: Theorem, rng: np.random.Generator, rows: int, keys: int, special: float = SPECIAL) -> Inputs:
    """Draw random points of the domain that satisfy the hypotheses.

    Parameters
    ----------
    rows, keys : int
    special : float
        Share of rows on special patterns (ties, zeros on top, …).

    Raises
    ------
    InputError
        If the hypotheses hold almost nowhere in the domain.
    """
    parts: list[Inputs] = []
    missing = rows
    for _ in range(_MOST_DRAWS):
        drawn = theorem.domain.draw(rng, missing + 16, keys, special)
        parts.append(select(drawn, np.flatnonzero(theorem.satisfied(drawn))[:missing]))
        missing -= count(parts[-1])
        if not missing:
            return join(parts)
    raise InputError("theorem", theorem.name, "its hypotheses hold almost nowhere in its domain")
