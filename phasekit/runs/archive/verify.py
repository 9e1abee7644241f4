"""Compute a random sample of archived tasks again, and compare."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phasekit.errors import InputError
from phasekit.runs.archive.compare import Comparison, compare
from phasekit.runs.archive.file import Archive, read_archive
from phasekit.runs.procedures import Procedure, Workplace
from phasekit.runs.store.store import Finished
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend
from phasekit.runs.work.calibrate import families
from phasekit.threads import limit_threads

#: Tasks that are computed at once, if they can be: small networks gain from company.
_TOGETHER = 4


@dataclass(frozen=True)
class Job:
    """Tasks of one archive that can be computed as one ensemble, with what the archive has of them."""

    file: str
    tasks: tuple[Task, ...]
    archived: tuple[Finished, ...]
    threads: int


@dataclass
class Checked:
    """What became of the sample of one archive.

    Attributes
    ----------
    file : its name
    tasks : archived
    too_long : that took too long when they were archived to be computed again here
    unavailable : that need something which isn't here, a text say
    comparisons : of the tasks that were computed again, by id
    failed : errors of tasks that failed now, by id
    seconds : processor time of all
    """

    file: str
    tasks: int
    too_long: int = 0
    unavailable: int = 0
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def total(self, name: str) -> int:
        """Return a sum over comparisons: "members", "identical", "elsewhere" or "unmixed"."""
        return sum(int(getattr(one, name)) for one in self.comparisons.values())

    def largest(self, name: str) -> float:
        """Return the largest deviation: "relative" or "sigmas"; NaN if there are none."""
        return float(np.fmax.reduce([np.nan, *(getattr(one, name) for one in self.comparisons.values())]))

    @property
    def wrong(self) -> dict[str, str]:
        """What disagrees, by task."""
        found = {name: "; ".join(one.wrong) for name, one in self.comparisons.items() if one.wrong}
        return {**found, **self.failed}


def load_archives(files: Sequence[Path]) -> dict[Path, Archive]:
    """Read archives, and load the modules that their sweeps name: those of procedures in other packages.

    Raises
    ------
    InputError
        As :func:`phasekit.runs.archive.file.read_archive`; and if the sweep of an archive isn't there.
    """
    found = {}
    for file in files:
        sweep = file.parent.parent / f"{file.name.partition('.')[0]}.toml"
        if sweep.exists():
            load_sweep(sweep)
        found[file] = read_archive(file)
    return found


def verify(
    archives: dict[Path, Archive],
    backend: Backend,
    *,
    share: float = 0.02,
    seconds: float | None = None,
    longest: float = np.inf,
    seed: int = 0,
) -> Iterator[list[Checked]]:
    """Compute a random sample of tasks again; yield the state after each ensemble, and at the end.

    Parameters
    ----------
    archives : by file, see :func:`load_archives`
    backend : Backend
    share : float
        Of each archive's tasks, at least one of each. Ignored if seconds are given.
    seconds : float, optional
        Go on, one archive after another and round again, until so much time has passed.
    longest : float
        Tasks that took longer when they were archived are left out, and counted.
    seed : int
        Of the choice.
    """
    checked = {file: Checked(file.name, len(archive.tasks)) for file, archive in archives.items()}
    jobs = _jobs(archives, checked, share if seconds is None else 1.0, longest, seed, backend.threads)
    names = {str(file): file for file in archives}
    for job, outcome, spent in backend.map(again, _in_time(jobs, seconds)):
        one = checked[names[job.file]]
        one.seconds += spent
        if isinstance(outcome, str):
            one.failed.update({task.id: outcome for task in job.tasks})
        else:
            one.comparisons.update(zip((task.id for task in job.tasks), outcome, strict=True))
        yield list(checked.values())
    yield list(checked.values())


def _in_time(jobs: Iterator[Job], seconds: float | None) -> Iterator[Job]:
    """Yield jobs until so many seconds have passed since the first."""
    begun = None
    for job in jobs:
        begun = begun or time.monotonic()
        if seconds is not None and time.monotonic() - begun > seconds:
            return
        yield job


def again(job: Job) -> tuple[Job, list[Comparison] | str, float]:
    """Compute a job's tasks, and compare them with what is archived; an error is returned in words."""
    limit_threads(job.threads)
    begun = time.process_time()
    procedure = job.tasks[0].procedure
    try:
        outcomes = procedure.run([(task.model, task.data_seed) for task in job.tasks], Workplace())
    except Exception as error:  # whatever a procedure raises
        return job, f"{type(error).__name__}: {' '.join(str(error).split())}", time.process_time() - begun
    found = [compare(*pair, procedure.residues) for pair in zip(job.archived, outcomes, strict=True)]
    return job, found, time.process_time() - begun


def _jobs(
    archives: dict[Path, Archive],
    checked: dict[Path, Checked],
    share: float,
    longest: float,
    seed: int,
    threads: int,
) -> Iterator[Job]:
    """Yield a job of each archive in turn, until the share of each is reached."""
    waiting: dict[Path, list[Any]] = {}
    random = np.random.default_rng(seed)
    for file, archive in archives.items():
        tasks = {name: Task.from_parameters(task.parameters) for name, task in archive.tasks.items()}
        short = [name for name in sorted(tasks) if _seconds(archive.tasks[name]) <= longest]
        checked[file].too_long = len(tasks) - len(short)
        works = {case: _works(*case) for case in {(tasks[name].procedure, tasks[name].model) for name in short}}
        able = [name for name in short if works[tasks[name].procedure, tasks[name].model]]
        checked[file].unavailable = len(short) - len(able)
        chosen = random.permutation(np.array(able, dtype=object))[: int(np.ceil(share * len(tasks)))]
        alike = families([tasks[name] for name in chosen])
        parts = [family[k : k + _TOGETHER] for family in alike for k in range(0, len(family), _TOGETHER)]
        waiting[file] = [parts[k] for k in random.permutation(len(parts))]
    while any(waiting.values()):
        for k in random.permutation(len(waiting)):
            file, parts = list(waiting.items())[k]
            if parts:
                part = parts.pop()
                archived = tuple(archives[file].tasks[task.id] for task in part)
                yield Job(str(file), tuple(part), archived, threads)


def _works(procedure: Procedure, model: Any) -> bool:
    try:
        procedure.require(model)
    except InputError:
        return False
    return True


def _seconds(task: Finished) -> float:
    return float(task.record.get("processor_seconds", task.record.get("seconds", 0.0)))


def archives_in(folder: Path) -> list[Path]:
    """Return the files of all archives in a folder.

    Raises
    ------
    InputError
        If there are none.
    """
    files = sorted(folder.glob("*.nc"))
    if not files:
        raise InputError("archives", str(folder), "holds none; `phasekit archive STORE` makes them")
    return files
