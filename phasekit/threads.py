"""How many threads a process computes with: never more than OMP_NUM_THREADS says."""

from __future__ import annotations

import os
from functools import cache

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def allowed_threads() -> int | None:
    """Return the number that OMP_NUM_THREADS has, if it has one."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    return int(told) or None if told.isdecimal() else None


def limit_threads(threads: int) -> None:
    """Let this process compute with that many threads, but with no more than it was told when it began.

    A worker on another machine has an OMP_NUM_THREADS of its own, which whoever sends it work doesn't know.
    """
    threads = min(threads, _told() or threads)
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)
    import sys

    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)


@cache
def _told() -> int | None:
    """Return what OMP_NUM_THREADS allowed before this process set it itself."""
    return allowed_threads()
