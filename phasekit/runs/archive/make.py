"""From a store to an archive, with what the archive held before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from phasekit.runs.archive.file import Archive, archive_of, read_archive, write_archive
from phasekit.runs.archive.start import FROM, start_of
from phasekit.runs.store.store import Finished, Store
from phasekit.runs.sweeps.description import Sweep


@dataclass(frozen=True)
class Made:
    """What became of an archive.

    Attributes
    ----------
    path : its file
    tasks : of the sweep
    archived : how many of them the file now holds
    added : how many of these came from the store
    dropped : how many the file held that aren't the sweep's any more
    size : bytes of the file
    """

    path: Path
    tasks: int
    archived: int
    added: int
    dropped: int
    size: int


def make_archive(sweep: Sweep, store: Store, path: Path | None = None) -> Made:
    """Write what a store holds of a sweep to the sweep's archive, beside what is there.

    Where both have a result of a task, that of the store is taken, unless the store has it from an archive.

    Raises
    ------
    BrokenTask
        If a result in the store isn't whole.
    InputError
        If the archive that is there isn't one, or can't be written.
    """
    path = path or archive_of(sweep.source, sweep.preset)
    before = read_archive(path).tasks if path.exists() else {}
    start = start_of(sweep, store, scratch=not path.exists())
    there = store.names()
    found: dict[str, Finished] = {}
    for task in start.tasks:
        kept = store.load(task.id) if task.id in there else None
        if kept is not None and (kept.record.get(FROM) is None or task.id not in before):
            found[task.id] = replace(kept, record={key: value for key, value in kept.record.items() if key != FROM})
        elif task.id in before:
            found[task.id] = before[task.id]
    arrays = {*sweep.archive, *(name for part in sweep.parts for name in part.archive)}
    archive = Archive(sweep.name, sweep.preset or "full", sweep.about, found, start.thresholds)
    write_archive(archive, path, tuple(sorted(arrays)))
    added = sum(found[name] is not before.get(name) for name in found)
    return Made(path, len(start.tasks), len(found), added, len(before.keys() - found.keys()), path.stat().st_size)
