"""Numbers that evidence is computed from: finite ones only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.errors import InputError


def finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return values as an array of the same shape.

    Raises
    ------
    InputError
        For what is no number, NaN and infinities: they would spread into all that is computed from them.
    """
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(name, values, "must be numbers") from None
    if not np.isfinite(array).all():
        raise InputError(name, array[~np.isfinite(array)].tolist(), "must be finite numbers")
    return array
