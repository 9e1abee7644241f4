"""How long ensembles take, and so how many tasks to put into one, and how many threads to give it.

Small networks gain from company and lose by threads, which wait for one another; with large ones it is the other way.
Measured with few steps: what a step takes comes from the difference between two runs, so that drawing data and final
evaluation aren't multiplied by the number of steps.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phasekit.runs.procedures import Stopped, Workplace
from phasekit.runs.sweeps.task import Task
from phasekit.threads import limit_threads

SIZES = (1, 2, 4, 8, 16, 32, 64)
#: A larger ensemble, or more threads, are chosen only if that is faster by this factor.
_WORTH_IT = 0.95
#: An ensemble shouldn't take longer than this, because a killed worker loses it. Checkpoints save long single tasks.
LONGEST = 120.0
#: Ensembles for each worker, at least, so that all stay busy to the end.
_ROUNDS = 3
#: Steps to begin with; then four times as many, until they take as long as the preparation, whose time is never twice
#: the same, and so many seconds; or until measuring has taken longer than there is patience for.
_STEPS = 6
_ENOUGH = 0.1
#: The same where a user is told: beside other programs a tenth of a second was off by a factor of two.
_ENOUGH_TO_TELL = 0.5
_PATIENCE = 10.0
#: What company gains is measured at many sizes, each with less patience.
_LITTLE_PATIENCE = 2.0
#: How many times longer something may take by the clock, because of other programs.
_CROWDED = 8.0
#: Tasks in the ensembles by which :func:`cost` measures: most of what company gains is gained by then.
_COMPANY = 8


@dataclass(frozen=True)
class Trial:
    """Tasks to measure with.

    Attributes
    ----------
    tasks : that could form one ensemble
    device : as the real work will have it
    threads : as many as it may have
    stop_file : path, optional; when it appears, no more is measured
    """

    tasks: tuple[Task, ...]
    device: str
    threads: int
    stop_file: Path | None = None


@dataclass(frozen=True)
class Speed:
    """What calibration found.

    Attributes
    ----------
    size : tasks in an ensemble
    seconds : seconds that a task then takes; 0 if that isn't known
    measured : size to seconds for a task, on one thread if that is to be chosen too
    threads : to compute it with; None if nothing was measured
    """

    size: int = 1
    seconds: float = 0.0
    measured: Mapping[int, float] | None = None
    threads: int | None = None


def families(tasks: Sequence[Task]) -> list[list[Task]]:
    """Sort tasks into those that may be computed as one ensemble: of one procedure, with the same settings."""
    alike: dict[Hashable, list[Task]] = {}
    for task in tasks:
        alike.setdefault((task.procedure, task.procedure.together(task.model)), []).append(task)
    return list(alike.values())


def calibrate(trial: Trial) -> Speed:
    """Measure ensembles of growing size, and return the smallest that is nearly as fast as any.

    Tasks that fail are found out, and recorded, when they are run: they are put into ensembles of one.
    """
    limit_threads(least := _least(trial.device, trial.threads))
    place = Workplace(trial.device, stop_file=trial.stop_file)
    measured: dict[int, float] = {}
    try:
        _run(trial.tasks[:1], 1, place)  # what only the first run pays for: imports, warm caches
        for size in (size for size in SIZES if size <= len(trial.tasks)):
            watch = _Watch(trial.device)
            measured[size] = seconds_of(trial.tasks[:size], place, _LITTLE_PATIENCE) / size
            if watch.exceeds(_LITTLE_PATIENCE) or size * measured[size] > LONGEST:
                break
        speed = choose(measured)
        some = trial.tasks[: speed.size]
        threads, seconds = choose_threads(some, place, least, trial.threads, speed.size * speed.seconds)
    except Exception:
        return replace(choose(measured), threads=least) if measured else Speed()
    return Speed(speed.size, seconds / speed.size, measured, threads)


def choose_threads(
    tasks: Sequence[Task], place: Workplace, least: int, most: int, seconds: float, patience: float = _LITTLE_PATIENCE
) -> tuple[int, float]:
    """Return with how many threads to compute an ensemble, and the seconds that it then takes.

    Parameters
    ----------
    tasks : of the ensemble
    place : Workplace
    least, most : int
        The numbers of threads to choose from.
    seconds : float
        What it takes with the least; this process has so many at the moment.
    patience : float
        Seconds to measure for.
    """
    if most <= least:
        return least, seconds
    limit_threads(most)
    with_most = seconds_of(tasks, place, patience)
    return (most, with_most) if with_most < _WORTH_IT * seconds else (least, seconds)


def _least(device: str, threads: int) -> int:
    """Return the least number of threads that it makes sense to measure with."""
    return 1 if device == "cpu" else threads


def choose(measured: Mapping[int, float], longest: float = LONGEST) -> Speed:
    """Return the smallest size that is within 5 % of the fastest, among those that don't take too long."""
    allowed = {size: s for size, s in measured.items() if size == 1 or size * s <= longest}
    fastest = min(allowed.values())
    size = min(size for size, s in allowed.items() if s * _WORTH_IT <= fastest)
    return Speed(size, allowed[size], dict(measured))


def seconds_of(tasks: Sequence[Task], place: Workplace, patience: float = _PATIENCE, enough: float = _ENOUGH) -> float:
    """Return the seconds that an ensemble should take. What its tasks raise is raised here.

    Parameters
    ----------
    tasks : of the ensemble
    place : Workplace
    patience : float
        Seconds after which no longer run is begun.
    enough : float
        Seconds that a run must have taken for its steps, and longer than for its preparation, to be believed.
    """
    length, watch = tasks[0].procedure.length, _Watch(place.device)
    first = _run(tasks, 1, place)
    steps = min(_STEPS, length - 1)
    while steps > 0:
        more = max(0.0, _run(tasks, 1 + steps, place) - first)
        if steps == length - 1:
            return first + more
        if more > max(enough, first) or watch.exceeds(patience):
            return first + more / steps * (length - 1)
        steps = min(4 * steps, length - 1)
    return first


def largest_ensemble(tasks: int, workers: int) -> int:
    """Return how many tasks an ensemble may have at most, so that all workers stay busy to the end."""
    return max(1, -(-tasks // (_ROUNDS * workers)))


def cost(
    tasks: Sequence[Task], device: str = "cpu", threads: int = 1, workers: int = 1, group: int | None = None
) -> tuple[float, list[str]]:
    """Return the seconds that tasks should take one ensemble after another, and why some can't be told.

    A few tasks of each family are measured, alone and in company, as the run would choose between both; the others are
    put in proportion to their number of operations.

    Parameters
    ----------
    tasks : of a sweep
    device, threads, workers
        As the real work will have them.
    group : int, optional
        Tasks in an ensemble, if the sweep says so.
    """
    largest = largest_ensemble(len(tasks), workers)
    total, unknown = 0.0, []
    for family in families(tasks):
        company = min(group or min(_COMPANY, largest), len(family))
        one, least = family[len(family) // 2], _least(device, threads)
        try:
            limit_threads(least)
            first = _run([one], 1, Workplace(device))  # what only the first run pays for: imports, warm caches
            if (
                one.procedure.length == 1 and threads == least and first > _ENOUGH_TO_TELL
            ):  # that was a whole, long task
                total += first * _operations(family) / _operations([one])
            else:
                total += min(_cost(family, size, device, threads) for size in {company, company if group else 1})
        except Exception as error:
            unknown.append(f"{one.model}: {type(error).__name__}: {' '.join(str(error).split())}")
    return total, unknown


def _cost(family: Sequence[Task], size: int, device: str, threads: int) -> float:
    """Return the seconds that a family should take in ensembles of that size."""
    middle, place, least = max(0, len(family) - size) // 2, Workplace(device), _least(device, threads)
    some = family[middle : middle + size]
    limit_threads(least)
    seconds = seconds_of(some, place, enough=_ENOUGH_TO_TELL)
    _, seconds = choose_threads(some, place, least, threads, seconds)
    return seconds * _operations(family) / _operations(some)


def _operations(tasks: Sequence[Task]) -> float:
    return sum(task.procedure.operations(task.model) for task in tasks)


def _run(tasks: Sequence[Task], length: int, place: Workplace) -> float:
    """Run tasks with that many steps as one ensemble, and return the seconds that it took, or would have alone."""
    if place.must_stop():
        raise Stopped
    watch = _Watch(place.device)
    tasks[0].procedure.shortened(length).run([(task.model, task.data_seed) for task in tasks], place)
    return watch.seconds


class _Watch:
    """Measures how long something takes, or would take on an idle machine.

    Where other programs want the same cores, the time on the clock says little; what this process had of them, more.
    """

    def __init__(self, device: str) -> None:
        self._device, self._begun = device, (time.monotonic(), time.process_time())

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        clock, own = time.monotonic() - self._begun[0], time.process_time() - self._begun[1]
        return min(clock, own) if self._device == "cpu" else clock

    def exceeds(self, patience: float) -> bool:
        """Whether it took longer than so many seconds, or many times as long by the clock, which somebody watches."""
        return self.seconds > patience or time.monotonic() - self._begun[0] > _CROWDED * patience
