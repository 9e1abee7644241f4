"""Where a run starts: what its sweep asks for, and what the archive beside the sweep's file has of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from phasekit.errors import InputError
from phasekit.runs.archive.file import Archive, archive_of, read_archive
from phasekit.runs.procedures import Outcome
from phasekit.runs.store.store import BrokenTask, Store
from phasekit.runs.sweeps.canonical import hash_of
from phasekit.runs.sweeps.description import Sweep, load_sweep
from phasekit.runs.sweeps.expand import expand
from phasekit.runs.sweeps.task import Task
from phasekit.runs.sweeps.thresholds import Thresholds

#: Under which key a record says the archive that a result was copied from.
FROM = "archive"
#: The largest preset first: which one of an archive shows most.
_BY_SIZE = ("full", "medium", "quick")


@dataclass(frozen=True)
class Start:
    """What a run begins with.

    Attributes
    ----------
    tasks : of the sweep
    thresholds : of the theory, that its tasks are at multiples of
    archive : that has results which the store lacks, if there is one
    scratch : whether what came from an archive is to be computed
    """

    tasks: list[Task]
    thresholds: Thresholds
    archive: Archive | None = None
    scratch: bool = False

    def prepare(self, store: Store) -> int:
        """Bring a store to where the run starts; return how many results were copied from the archive.

        They say in their records that they came from there. From scratch, such results are removed.
        """
        self.thresholds.write(_thresholds(store))
        if self.scratch:
            for task in self.tasks:
                if store.has(task.id) and came_from(store, task.id):
                    store.remove(task.id)
        return 0 if self.archive is None else _fill(store, self.tasks, self.archive)


def start_of(sweep: Sweep, store: Store, *, scratch: bool = False) -> Start:
    """Return what a run of a sweep begins with. The store may not be there yet; nothing is written to it.

    Thresholds of the theory are those that the store or the archive remembers; others are computed.

    Raises
    ------
    InputError
        As :func:`phasekit.runs.archive.file.read_archive`, and if the archive is another sweep's.
    """
    known, archive = remembered(store), None
    if not scratch and not _thresholds(store).exists():
        archive = _archive_for(sweep)
        known.add(archive.thresholds if archive else Thresholds())
    tasks = expand(sweep, known)
    there = store.names() if store.exists() else set()
    if scratch or all(task.id in there for task in tasks):
        return Start(tasks, known, scratch=scratch)
    return Start(tasks, known, archive or _archive_for(sweep))


def _fill(store: Store, tasks: Iterable[Task], archive: Archive) -> int:
    lacking = [task for task in tasks if task.id in archive.tasks and not store.has(task.id)]
    outcomes = []
    for task in lacking:
        found = archive.tasks[task.id]
        outcomes.append((task, Outcome(found.values, found.arrays, found.record)))
    if outcomes:
        name = f"{archive.sweep}.{archive.preset}"
        store.commit(hash_of(name.encode()), outcomes, {FROM: name}, durable=False)
    return len(outcomes)


def came_from(store: Store, task: str) -> str | None:
    """Return which archive a result in a store came from; None if it was computed there, or isn't whole."""
    try:
        return store.load(task).record.get(FROM)
    except BrokenTask:
        return None


def best_preset(file: Path) -> str:
    """Return the largest preset of a sweep that is archived as a whole; "quick" if none is."""
    for preset in _BY_SIZE:
        if archive_of(file, preset).exists():
            sweep = load_sweep(file, preset)
            archive = _archive_for(sweep)
            if archive is not None and all(task.id in archive.tasks for task in expand(sweep, archive.thresholds)):
                return preset
    return "quick"


def _archive_for(sweep: Sweep) -> Archive | None:
    path = archive_of(sweep.source, sweep.preset)
    if not path.exists():
        return None
    archive = read_archive(path)
    if (archive.sweep, archive.preset) != (sweep.name, sweep.preset or "full"):
        what = f"{archive.sweep}, preset {archive.preset}, and not of {sweep.name}, preset {sweep.preset}"
        raise InputError("archive", str(path), f"holds results of {what}")
    return archive


def remembered(store: Store) -> Thresholds:
    """Return what theory said when a store's sweep was expanded; nothing if the store doesn't know."""
    return Thresholds.read(_thresholds(store))


def _thresholds(store: Store) -> Path:
    return store.path / "thresholds.json"
