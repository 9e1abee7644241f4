"""Who does the work: processes of this machine (joblib's), or a Dask cluster."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any, TypeVar

from joblib.externals.loky import FIRST_COMPLETED, ProcessPoolExecutor, wait
from joblib.externals.loky.process_executor import BrokenProcessPool, ShutdownExecutorError

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.extras import require
from phasekit.runs.work.processes import prepare, visible_gpus, workers_and_threads
from phasekit.threads import THREAD_VARIABLES

Job = TypeVar("Job")
R = TypeVar("R")


#: Seconds after which idle workers end by themselves.
_IDLE = 300
_LOOK_EVERY = 5.0
#: Workers that a cluster should have work for from the beginning, however few it has then.
_CLUSTER = 16
#: Seconds after which workers are counted anew, and seconds that a scheduler may take to count them.
_COUNT_EVERY, _ANSWER = 0.5, 10.0
_GONE = "has gone; start it again and run again"


class WorkersLost(Exception):
    """Workers died, and what they were working on is lost. Everything that was written is still there.

    Attributes
    ----------
    culprits : the jobs that killed one worker after another, if that is known
    """

    def __init__(self, message: str, culprits: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.culprits = tuple(culprits)


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
    """joblib's pool of processes (loky) on this machine.

    The pool is used directly: when a worker dies, ``joblib.Parallel`` forgets what had finished, and under load it was
    seen to wait forever. A cluster of Dask's on this machine would do too, but takes twice as long to start, ten
    milliseconds for a job in place of one or two (measured on two busy cores), and everybody would need Dask.

    Parameters
    ----------
    workers : int, optional
    threads : int, optional
        Of each worker; see :func:`phasekit.runs.work.processes.workers_and_threads` for the defaults.
    device : "cpu", "cuda" or "auto"
        On GPUs every process sees one device only.
    """

    def __init__(self, workers: int | None = None, threads: int | None = None, device: str = "cpu") -> None:
        workers, threads = (
            None if value is None else whole_number(name, value, 1)
            for name, value in (("jobs", workers), ("threads", threads))
        )
        self.workers, self.threads = workers_and_threads(workers, threads, device)
        self.gpus = visible_gpus() if device in ("cuda", "auto") else []
        self._slots = tempfile.mkdtemp(prefix="phasekit-gpus-")
        self._pool: Any = None
        kind = f" on GPUs {', '.join(self.gpus)}" if self.gpus else ""
        self.description = f"{self.workers} local processes of {self.threads} threads{kind}"

    def map(self, function: Callable[[Job], R], jobs: Iterable[Job]) -> Iterator[R]:
        pool = self._pool_of_workers()
        jobs = iter(jobs)
        waiting: set[Any] = set()
        lost = ""
        while True:
            if not lost:
                try:
                    waiting |= {pool.submit(function, job) for job in islice(jobs, self._ahead - len(waiting))}
                except (BrokenProcessPool, ShutdownExecutorError) as error:
                    lost = _first_line(error)
            if not waiting:
                break
            finished, waiting = wait(waiting, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
            for future in finished:
                failure = future.exception()
                if isinstance(failure, BrokenProcessPool):
                    lost = _first_line(failure)
                else:
                    yield future.result()
            if not finished and not _managed(pool):
                lost, waiting = "the pool of workers has ended", set()
        if lost:
            self._discard()
            raise WorkersLost(lost)

    @property
    def _ahead(self) -> int:
        """How many jobs to hand out at a time: one in reserve for each worker."""
        return 2 * self.workers

    def _pool_of_workers(self) -> Any:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                max_workers=self.workers,
                timeout=_IDLE,
                initializer=prepare,
                initargs=(os.getpid(), self.threads, tuple(self.gpus), self._slots),
                env={name: str(self.threads) for name in THREAD_VARIABLES},
            )
        return self._pool

    def _discard(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None

    def close(self) -> None:
        self._discard()
        shutil.rmtree(self._slots, ignore_errors=True)


class DaskCluster(Backend):
    """A Dask cluster that exists already; its workers must see the store under the same path.

    Workers may come and go: they are counted anew when results come. Where there is none yet, work waits for one as
    long as the scheduler lives. Tasks are handed to Dask directly: joblib's Dask backend isn't told when a task's
    worker died too often.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler.
    threads : int
        Threads of each task.
    wait : float
        Seconds to wait for an answer of the scheduler.

    Raises
    ------
    InputError
        If Dask isn't installed, or no scheduler answers.
    """

    def __init__(self, scheduler: str, threads: int = 1, wait: float = 30.0) -> None:
        require("dask", "distributed")
        import distributed
        from distributed.comm.addressing import resolve_address

        for name in ("distributed.client", "distributed.core", "distributed.comm"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # tracebacks would hide the one line that says it
        self.scheduler, self.threads = scheduler, threads
        try:
            _untyped(resolve_address)(scheduler)  # a Client that can't read its address takes a minute to be deleted
            self._client: Any = _untyped(distributed).Client(scheduler, timeout=wait, set_as_default=False)
            self._there, self._counted = self._count(), time.monotonic()
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError("scheduler", scheduler, f"no cluster answers there ({_first_line(error)})") from None
        there = f"{self._there} threads" if self._there else "no threads yet"
        self.description = f"{there} of the Dask cluster at {scheduler}"

    def _count(self) -> int:
        """Return how many tasks the cluster can work on now; raise InputError if its scheduler has gone."""
        try:
            if self._client.status == "running":
                return sum(self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER).values())
        except (OSError, TimeoutError, RuntimeError):
            pass
        raise InputError("scheduler", self.scheduler, _GONE)

    @property
    def workers(self) -> int:  # type: ignore[override]
        """How many tasks to plan for: a cluster that adapts may grow. Counted anew if the count is old."""
        if time.monotonic() - self._counted > _COUNT_EVERY:
            self._there, self._counted = self._count(), time.monotonic()
        return max(_CLUSTER, self._there)

    def map(self, function: Callable[[Job], R], jobs: Iterable[Job]) -> Iterator[R]:
        import distributed
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        jobs = iter(jobs)
        waiting = _untyped(distributed).as_completed(loop=self._client.loop)
        handed_out: dict[Any, Job] = {}
        culprits: list[Job] = []

        def submit() -> None:
            """Keep twice as many tasks at the scheduler as it can work on: one in reserve for each worker."""
            for job in islice(jobs, max(1, 2 * self.workers - len(handed_out))):
                future = self._client.submit(function, job, pure=False)
                handed_out[future.key] = job
                waiting.add(future)

        submit()
        for future in waiting:
            if future.status == "lost":  # its worker died with the result in memory; Dask computes it again
                waiting.add(future)
                continue
            job = handed_out.pop(future.key)
            try:
                result = future.result()
            except KilledWorker:
                culprits.append(job)
            except CancelledError:
                raise InputError("scheduler", self.scheduler, _GONE) from None
            except CommClosedError:  # while the result was fetched
                self._count()  # raises if the scheduler has gone; else it is asked again
                handed_out[future.key] = job
                waiting.add(future)
                continue
            else:
                yield result
            submit()
        if culprits:
            raise WorkersLost("Dask gave up on them", culprits)

    def close(self) -> None:
        self._client.close()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _managed(pool: Any) -> bool:
    """Whether the thread that hands out a pool's work is alive; without it, futures would wait forever."""
    thread = pool._executor_manager_thread
    return thread is None or thread.is_alive()


def _untyped(module: Any) -> Any:
    """Return a module whose functions carry no types (distributed's), so that calling them is no error of ours."""
    return module
