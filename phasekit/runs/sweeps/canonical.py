"""Parameters in one canonical form, so that the same task has the same id however it was written down.

``1``, ``1.0`` and NumPy's numbers are the same number; tuples are lists; the order of keys plays no role. The id is
signac's: the hash of the sorted JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from phasekit.errors import InputError

#: Below this every whole number is a float64.
_EXACT = 2**53


def canonical(value: Any) -> Any:
    """Return a value as plain JSON: whole numbers as int, other numbers as float.

    Raises
    ------
    InputError
        For a number that isn't finite, or anything that JSON has no word for.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("parameter", value, "must be a finite number")
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, Mapping):
        return {str(key): canonical(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(entry) for entry in value]
    raise InputError("parameter", value, "must be a number, a word, or a list or table of them")


def identify(parameters: Mapping[str, Any]) -> str:
    """Return the id that signac gives these parameters in canonical form (32 hexadecimal digits)."""
    return hash_of(state_point(canonical(parameters)))


def state_point(parameters: Mapping[str, Any]) -> bytes:
    """Return canonical parameters as signac writes and hashes them."""
    return json.dumps(parameters, sort_keys=True).encode()


def hash_of(state_point: bytes) -> str:
    """Return the id of a task whose state point this is."""
    return hashlib.md5(state_point, usedforsecurity=False).hexdigest()
