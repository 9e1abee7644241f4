"""How far a store is, for anybody who looks: reads only, takes no lock, and needs no runner."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from phasekit.runs.store.plan import read_plans
from phasekit.runs.store.store import Store, process_lives

#: Results that came in the last so many seconds give the rate.
_WINDOW = 60.0


@dataclass(frozen=True)
class Status:
    """How far a store is.

    Attributes
    ----------
    sweeps : one dictionary a sweep and preset: ``sweep``, ``preset``, ``tasks``, ``done``, ``failed``, ``missing``
    tasks, done, failed : over all sweeps
    running : ensembles that a living process holds, as far as this machine can tell
    rate : tasks that finished in the last minute, per second
    failures : records of failures, see :meth:`phasekit.runs.store.store.Store.failure`
    """

    sweeps: list[dict[str, Any]]
    tasks: int
    done: int
    failed: int
    running: int
    rate: float
    failures: list[dict[str, Any]]

    @property
    def missing(self) -> int:
        """Tasks that were asked for, and have neither a result nor a failure."""
        return self.tasks - self.done - self.failed

    @property
    def remaining(self) -> float | None:
        """Seconds to go at this rate; None if nothing moves."""
        return self.missing / self.rate if self.rate > 0 else None


def look(store: Store) -> Status:
    """Return how far a store is."""
    names, failed = store.names(), store.failed()
    latest = {(plan.sweep, plan.preset): plan for plan in read_plans(store)}
    sweeps = []
    for (sweep, preset), plan in latest.items():
        tasks = set(plan.tasks)
        counts = {"tasks": len(tasks), "done": len(tasks & names), "failed": len(tasks & failed)}
        missing = counts["tasks"] - counts["done"] - counts["failed"]
        sweeps.append({"sweep": sweep, "preset": preset, **counts, "missing": missing})
    asked = {task for plan in latest.values() for task in plan.tasks}
    return Status(
        sweeps=sweeps,
        tasks=len(asked),
        done=len(asked & names),
        failed=len(asked & failed),
        running=sum(_is_held(store, name) for name in os.listdir(store.claims) if not name.startswith(".")),
        rate=_recent(store) / _WINDOW,
        failures=[found for task in sorted(asked & failed) if (found := store.failure(task))],
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
        owner = json.loads((store.claims / name).read_text())
        return bool(owner["host"] != socket.gethostname() or process_lives(owner["pid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return False
