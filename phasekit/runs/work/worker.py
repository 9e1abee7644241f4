"""What happens in a worker: it computes an ensemble, and writes the results of its tasks itself."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phasekit import __version__
from phasekit.provenance import commit
from phasekit.runs.procedures import Outcome, Procedure, Stopped, Workplace
from phasekit.runs.procedures.base import member_count
from phasekit.runs.store.claims import claim
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.task import Task
from phasekit.threads import limit_threads

#: Results of tasks that took at least this many seconds wait until the disk has them.
_WORTH_WAITING = 0.5
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@dataclass(frozen=True)
class Job:
    """An ensemble to compute, as it travels to a worker.

    Attributes
    ----------
    store : path of the store
    group : name of the ensemble
    tasks : all its tasks. They are sent whole, so that a worker knows procedures of other packages as the runner does
    device : "cpu", "cuda" or "auto"
    threads : to compute with
    stop_file : path; see :class:`phasekit.runs.procedures.Workplace`
    save_every : seconds between two checkpoints
    """

    store: str
    group: str
    tasks: tuple[Task, ...]
    device: str
    threads: int
    stop_file: str
    save_every: float = 60.0


@dataclass(frozen=True)
class Report:
    """What became of an ensemble.

    Attributes
    ----------
    group : name of the ensemble
    status : "finished" (its tasks are in the store or failed), "elsewhere" (another process works on it), "stopped",
        or "disk" (results could not be written)
    done : ids of tasks that this worker computed and wrote
    failed : id, type and message of the errors of tasks
    seconds : how long it took
    message : the system's words, for "disk"
    notes : what else the user should know
    """

    group: str
    status: str
    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str, str], ...] = ()
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")


def work(job: Job) -> Report:
    """Compute an ensemble and write its results; nothing that goes wrong in a task leaves this function."""
    begun = time.monotonic()
    limit_threads(job.threads)
    store = Store(job.store)
    place = Workplace(job.device, store.checkpoint(job.group), job.save_every, Path(job.stop_file))
    try:
        with claim(store.claims / job.group) as mine:
            if not mine:
                return Report(job.group, "elsewhere")
            if place.must_stop():
                return Report(job.group, "stopped")
            store.recover(job.group)
            missing = {task.id for task in job.tasks if not store.has(task.id) and store.failure(task.id) is None}
            try:
                done, failed = _compute(store, job.group, job.tasks, missing, place) if missing else ([], [])
            except Stopped:
                return Report(job.group, "stopped")
            if place.checkpoint is not None:
                place.checkpoint.unlink(missing_ok=True)
            seconds, notes = time.monotonic() - begun, tuple(place.notes)
            return Report(job.group, "finished", tuple(done), tuple(failed), seconds, notes=notes)
    except OSError as error:
        if error.errno not in _DISK:
            raise
        return Report(job.group, "disk", message=f"{error.strerror} ({store.path})")


def _compute(
    store: Store, group: str, tasks: Sequence[Task], missing: set[str], place: Workplace
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Compute tasks as one ensemble; if that fails, each by itself, so that only the culprit fails."""
    begun, used = time.monotonic(), time.process_time()
    try:
        outcomes = _run(tasks, place)
    except Stopped:
        raise
    except Exception as error:
        if len(tasks) == 1:
            store.write_failure(tasks[0], described := _describe(error))
            return [], [(tasks[0].id, described["type"], described["message"])]
        done: list[str] = []
        failed: list[tuple[str, str, str]] = []
        for task in tasks:
            if task.id in missing:
                alone = Workplace(place.device, None, place.save_every, place.stop_file)
                did, did_not = _compute(store, f"{group}-{task.id}", [task], missing, alone)
                done += did
                failed += did_not
        return done, failed
    seconds, processor = (time.monotonic() - begun) / len(tasks), (time.process_time() - used) / len(tasks)
    wanted = [(task, outcome) for task, outcome in zip(tasks, outcomes, strict=True) if task.id in missing]
    record = {**_record(group, tasks, seconds, place.device), "processor_seconds": round(processor, 6)}
    store.commit(group, wanted, record, durable=seconds >= _WORTH_WAITING)
    return [task.id for task, _ in wanted], []


def _run(tasks: Sequence[Task], place: Workplace) -> list[Outcome]:
    procedure: Procedure = tasks[0].procedure
    if any(task.procedure != procedure for task in tasks):
        raise ValueError("an ensemble holds tasks of different procedures")
    outcomes = procedure.run([(task.model, task.data_seed) for task in tasks], place)
    if len(outcomes) != len(tasks):
        raise ValueError(f"procedure {procedure.name} returned {len(outcomes)} outcomes for {len(tasks)} tasks")
    for outcome in outcomes:
        member_count(outcome)
    return outcomes


def _record(group: str, tasks: Sequence[Task], seconds: float, device: str) -> dict[str, Any]:
    return {
        "theory": tasks[0].procedure.theory,
        "asked_device": device,
        "threads": thread_count(),
        "ensemble": group,
        "tasks_in_ensemble": len(tasks),
        "seconds": round(seconds, 6),
        "finished": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "phasekit": __version__,
        "commit": commit(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def thread_count() -> int:
    """Return how many threads this process computes with, as torch has it if torch is there."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else int(os.environ.get("OMP_NUM_THREADS", 0))


def _describe(error: BaseException) -> dict[str, str]:
    return {
        "type": type(error).__name__,
        "message": " ".join(str(error).split()) or "(no message)",
        "traceback": "".join(traceback.format_exception(error)),
    }
