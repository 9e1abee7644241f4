"""Random streams: every data set and every ensemble member draws from its own."""

from __future__ import annotations

import hashlib

import numpy as np

from phasekit.checks import whole_number


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
    parts = [whole_number(f"{purpose} seed", part, 0) for part in key]
    # A hash, because SeedSequence takes (1,) and (1, 0) for the same key.
    name = "/".join([purpose, *map(str, parts)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest(), "big"))
