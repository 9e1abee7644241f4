"""Random streams: every data set and every ensemble member draws from its own."""

from __future__ import annotations

import hashlib

import numpy as np

from phasekit.errors import InputError


def stream(purpose: str, *key: int) -> np.random.Generator:
    """Return the generator that belongs to a purpose and a key, and to nothing else.

    What a member draws depends on its own key only, so splitting an ensemble differently, or adding members to it,
    changes no member.

    Parameters
    ----------
    purpose : str
        What the numbers are for ("data", "start", ...). Streams for different purposes are independent.
    key : int
        Whole numbers of at least 0: seed, member, ...

    Raises
    ------
    InputError
        If a key isn't a whole number of at least 0.
    """
    for part in key:
        if isinstance(part, bool) or not isinstance(part, int | np.integer) or part < 0:
            raise InputError(f"{purpose} seed", part, "must be a whole number of at least 0")
    # A hash, because SeedSequence takes (1,) and (1, 0) for the same key.
    name = "/".join([purpose, *(str(int(part)) for part in key)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big"))
