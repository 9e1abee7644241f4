"""Who does the work: processes of this machine (joblib), or a Dask cluster."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from phasekit.errors import InputError
from phasekit.runs.processes import limit_threads, prepare, visible_gpus

Job = TypeVar("Job")
R = TypeVar("R")


class WorkersLost(Exception):
    """Workers died, and what they were working on is lost. Everything that was written is still there."""


class Backend(ABC):
    """Maps a function over jobs in other processes, and hands results over as they come."""

    workers: int
    threads: int
    description: str

    @abstractmethod
    def map(self, function: Callable[[Job], R], jobs: Iterable[Job]) -> Iterator[R]:
        """Yield results in the order in which they finish; take jobs only as fast as workers do.

        Raises
        ------
        WorkersLost
            If a worker died; the backend can be used again.
        """

    def close(self) -> None:  # noqa: B027  (most have nothing to close)
        """Let go of the workers."""


class LocalProcesses(Backend):
    """joblib's processes (loky) on this machine.

    Parameters
    ----------
    workers : int, optional
        One for each core, or for each GPU, by default.
    threads : int, optional
        Threads of each worker; what the cores allow by default.
    device : "cpu", "cuda" or "auto"
        On GPUs every process sees one device only.
    """

    def __init__(self, workers: int | None = None, threads: int | None = None, device: str = "cpu") -> None:
        self.gpus = visible_gpus() if device in ("cuda", "auto") else []
        if device == "cuda" and not self.gpus:
            raise InputError("device", device, "this machine has no CUDA device")
        for name, value in (("jobs", workers), ("threads", threads)):
            if value is not None and value < 1:
                raise InputError(name, value, "must be at least 1")
        most = len(self.gpus) or cpu_count()
        if self.gpus and workers is not None and workers > most:
            raise InputError("jobs", workers, f"there is one process for each GPU, and {most} of them")
        self.workers = workers or most
        self.threads = threads or max(1, cpu_count() // self.workers)
        self._slots = tempfile.mkdtemp(prefix="phasekit-gpus-")
        kind = f" on GPUs {', '.join(self.gpus)}" if self.gpus else ""
        self.description = f"{self.workers} local processes of {self.threads} threads{kind}"

    def map(self, function: Callable[[Job], R], jobs: Iterable[Job]) -> Iterator[R]:
        if self.gpus and self.workers == 1:
            # Nothing to share out: joblib would work in this very process, and so do we.
            limit_threads(self.threads)
            for job in jobs:
                yield function(job)
            return
        # Two processes at least (one stays idle): with one, joblib would work in this very process, and whatever kills
        # a task would take the runner with it.
        with parallel_config(
            backend="loky",
            n_jobs=max(2, self.workers),
            inner_max_num_threads=self.threads,
            initializer=prepare,
            initargs=(os.getpid(), self.threads, tuple(self.gpus), self._slots),
        ):
            ahead = "2*n_jobs" if self.workers > 1 else 1
            parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=ahead)
            try:
                yield from parallel(delayed(function)(job) for job in jobs)
            except TerminatedWorkerError as error:
                raise WorkersLost(str(error).splitlines()[0]) from None

    def close(self) -> None:
        if not (self.gpus and self.workers == 1):
            get_reusable_executor().shutdown(wait=True, kill_workers=True)
        shutil.rmtree(self._slots, ignore_errors=True)


class DaskCluster(Backend):
    """A Dask cluster that exists already; its workers must see the store under the same path.

    joblib's own Dask backend waits forever for a task whose worker died too often, so tasks are handed over directly.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler.
    threads : int
        Threads of each task.
    wait : float
        Seconds to wait for an answer.

    Raises
    ------
    InputError
        If Dask isn't installed, or no scheduler or worker answers.
    """

    def __init__(self, scheduler: str, threads: int = 1, wait: float = 30.0) -> None:
        self.scheduler = scheduler
        try:
            import distributed
        except ImportError:
            raise InputError("backend", "dask", "needs the extra: pip install 'phasekit[cluster]'") from None
        try:
            self._client: Any = _untyped(distributed).Client(scheduler, timeout=wait, set_as_default=False)
            self._client.wait_for_workers(1, timeout=wait)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError("scheduler", scheduler, f"no cluster answers there ({error})") from None
        self.threads = threads
        self.workers = sum(self._client.nthreads().values())
        self.description = f"{self.workers} threads of the Dask cluster at {scheduler}"

    def map(self, function: Callable[[Job], R], jobs: Iterable[Job]) -> Iterator[R]:
        import distributed
        from distributed.scheduler import KilledWorker

        jobs = iter(jobs)
        waiting = _untyped(distributed).as_completed(loop=self._client.loop)

        def submit(count: int) -> None:
            for job in islice(jobs, count):
                waiting.add(self._client.submit(function, job, pure=False))

        submit(2 * self.workers)
        lost = None
        for future in waiting:
            error = future.exception() if future.status == "error" else None
            if isinstance(error, KilledWorker):
                lost = error
            elif future.cancelled() or future.status == "lost":
                raise InputError("scheduler", self.scheduler, "has gone; start it again and run again")
            else:
                yield future.result()
            submit(1)
        if lost is not None:
            raise WorkersLost(str(lost).splitlines()[0])

    def close(self) -> None:
        self._client.close()


def _untyped(module: Any) -> Any:
    """Return a module whose functions carry no types (distributed's), so that calling them is no error of ours."""
    return module
