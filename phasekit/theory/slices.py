"""Grids of models in slices that several processes work on at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from phasekit.checks import whole_number
from phasekit.model import Parameters
from phasekit.theory.action import Action, PoolingVector
from phasekit.theory.action.base import Posterior
from phasekit.threads import THREAD_VARIABLES, allowed_threads, limit_threads

R = TypeVar("R")


def slices_of(action: Action, p: Parameters, jobs: int) -> list[NDArray[np.int64]]:
    """Return the numbers of flat parameters in slices, longest rows first, or in one if nothing is to be shared out.

    Models that differ in P and κ alone share most of the posterior's work, and stay together.
    """
    several = isinstance(action, Posterior) and (whole_number("jobs", jobs, 1) > 1 or isinstance(action, PoolingVector))
    if not several:  # sums over the nodes of a pooling vector end on another digit beside other models
        return [np.arange(p.shape[0])]
    keys = np.stack([-np.asarray(p.L, dtype=float), p.V, p.sigma_w, p.sigma_g, *p.score.values()], axis=-1)
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    members = inverse.reshape(-1)
    return [np.flatnonzero(members == k) for k in range(members.max(initial=-1) + 1)]


def map_slices(function: Callable[..., R], jobs: int, arguments: Iterable[Sequence[Any]]) -> list[R]:
    """Return what a function makes of each of several sets of arguments, in their order.

    Parameters
    ----------
    jobs : int
        Processes; each has its share of the cores, but never more threads than OMP_NUM_THREADS says. With 1 nothing
        leaves this process.

    Raises
    ------
    ArithmeticError
        If a process died.
    """
    arguments = list(arguments)
    processes = min(whole_number("jobs", jobs, 1), len(arguments))
    if processes <= 1:
        return [function(*each) for each in arguments]
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    share = max(1, cpu_count() // processes)
    threads = min(allowed_threads() or share, share)
    environment = {name: str(threads) for name in THREAD_VARIABLES}
    pool = ProcessPoolExecutor(processes, initializer=limit_threads, initargs=(threads,), env=environment)
    try:
        waiting = [pool.submit(function, *each) for each in arguments]
        return [each.result() for each in waiting]
    except BrokenProcessPool as error:
        raise ArithmeticError(f"a process that worked on a slice of the grid ended: {error}") from None
    finally:
        pool.shutdown(wait=True, kill_workers=True)
