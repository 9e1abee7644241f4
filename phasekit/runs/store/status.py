"""How far a store is, for anybody who looks: reads only, takes no lock, and needs no runner."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from phasekit.runs.store.plan import latest_plans
from phasekit.runs.store.records import BrokenRecord, read_record
from phasekit.runs.store.store import Store, process_lives

#: Results that came in the last so many seconds give the rate.
_WINDOW = 60.0


@dataclass(frozen=True)
class Progress:
    """How far one sweep is, in numbers of tasks.

    Attributes
    ----------
    sweep, preset : its name
    tasks : asked for
    done : with a whole result
    failed : with the record of a failure, and no result
    broken : with a result that isn't whole: `phasekit repair` sets it aside, so that it is computed again
    missing : with none of these
    """

    sweep: str
    preset: str | None
    tasks: int
    done: int
    failed: int
    broken: int
    missing: int


@dataclass(frozen=True)
class Status:
    """How far a store is.

    Attributes
    ----------
    sweeps : one entry a sweep and preset
    tasks, done, failed, broken, missing : over all sweeps; see :class:`Progress`
    running : ensembles that a living process holds, as far as this machine can tell
    rate : tasks that finished in the last minute, per second
    failures : records of failures, see :meth:`phasekit.runs.store.store.Store.failure`
    """

    sweeps: list[Progress]
    tasks: int
    done: int
    failed: int
    broken: int
    missing: int
    running: int
    rate: float
    failures: list[dict[str, Any]]

    @property
    def remaining(self) -> float | None:
        """Seconds to go at this rate; None if nothing moves."""
        return self.missing / self.rate if self.rate > 0 else None


def look(store: Store) -> Status:
    """Return how far a store is.

    Raises
    ------
    InputError
        For a damaged plan.
    """
    plans = latest_plans(store)
    asked = {task for plan in plans for task in plan.tasks}
    there, failed = asked & store.names(), asked & store.failed()
    broken = {task for task in there if store.check(task)}

    def count(tasks: set[str]) -> dict[str, int]:
        parts = {"done": there - broken, "failed": failed, "broken": broken, "missing": asked - there - failed}
        return {"tasks": len(tasks), **{name: len(tasks & part) for name, part in parts.items()}}

    return Status(
        sweeps=[Progress(plan.sweep, plan.preset, **count(set(plan.tasks))) for plan in plans],
        **count(asked),
        running=sum(_is_held(store, name) for name in os.listdir(store.claims) if not name.startswith(".")),
        rate=_recent(store) / _WINDOW,
        failures=[found for task in sorted(failed) if (found := store.failure(task))],
    )


def _recent(store: Store) -> int:
    """Count the results that came in the last minute: a directory's time is that of its last file."""
    since = time.time() - _WINDOW
    count = 0
    with os.scandir(store.workspace) as entries:
        for entry in entries:
            try:
                count += entry.stat().st_mtime >= since
            except FileNotFoundError:
                continue
    return count


def _is_held(store: Store, name: str) -> bool:
    """Whether a claim's owner lives; owners on other machines are believed."""
    try:
        owner = read_record(store.claims / name)
        return bool(owner["host"] != socket.gethostname() or process_lives(owner["pid"]))
    except (OSError, BrokenRecord, KeyError, TypeError, OverflowError):
        return False
