"""How many tasks to put into one ensemble: measured, because small networks gain from company and large ones lose."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasekit.runs.procedures import Workplace
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.processes import limit_threads

SIZES = (1, 2, 4, 8, 16, 32, 64)
#: A larger ensemble is chosen only if it is faster by this factor.
_WORTH_IT = 0.95
#: An ensemble shouldn't take longer than this, because a killed worker loses it. Checkpoints save long single tasks.
LONGEST = 120.0
_STEPS = 6
_PATIENCE = 2.0


@dataclass(frozen=True)
class Trial:
    """Tasks to measure with.

    Attributes
    ----------
    tasks : that could form one ensemble
    device, threads : as the real work will have them
    """

    tasks: tuple[Task, ...]
    device: str
    threads: int


@dataclass(frozen=True)
class Speed:
    """What calibration found.

    Attributes
    ----------
    size : tasks in an ensemble
    seconds : seconds that a task then takes
    measured : size to seconds for a task
    """

    size: int
    seconds: float
    measured: dict[int, float]


def calibrate(trial: Trial) -> Speed:
    """Measure ensembles of growing size, and return the smallest that is nearly as fast as any.

    Each size runs twice with few steps; what a step takes comes from the difference, so that drawing data and final
    evaluation aren't multiplied by the number of steps.
    """
    limit_threads(trial.threads)
    tasks = trial.tasks
    measured: dict[int, float] = {}
    _seconds(tasks[:1], 1, trial.device)  # what only the first run pays for: imports, warm caches
    for size in [size for size in SIZES if size <= len(tasks)] or [1]:
        length = tasks[0].procedure.length
        begun = time.monotonic()
        short = _seconds(tasks[:size], min(1, length), trial.device)
        if length > 1:
            few = min(length, 1 + _STEPS)
            step = max(0.0, _seconds(tasks[:size], few, trial.device) - short) / (few - 1)
            short += step * (length - 1)
        measured[size] = short / size
        if time.monotonic() - begun > _PATIENCE or short > LONGEST:
            break
    return choose(measured)


def choose(measured: Mapping[int, float], longest: float = LONGEST) -> Speed:
    """Return the smallest size that is within 5 % of the fastest, among those that don't take too long."""
    allowed = {size: s for size, s in measured.items() if size == 1 or size * s <= longest}
    fastest = min(allowed.values())
    size = min(size for size, s in allowed.items() if s * _WORTH_IT <= fastest)
    return Speed(size, allowed[size], dict(measured))


def _seconds(tasks: Sequence[Task], length: int, device: str) -> float:
    procedure = tasks[0].procedure.shortened(length)
    begun = time.monotonic()
    try:
        procedure.run([(task.model, task.data_seed) for task in tasks], Workplace(device))
    except Exception:  # tasks that fail will be found out, and recorded, when they are run
        return time.monotonic() - begun
    return time.monotonic() - begun
