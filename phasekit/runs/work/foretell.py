"""What a sweep should cost, before anything is run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.calibrate import Trial, calibrate


def cost(tasks: Sequence[Task], threads: int = 1) -> float:
    """Return the seconds that tasks should take one after another on one core.

    One task of each kind (those that could form an ensemble) is measured with a few steps; the others are put in
    proportion to their number of operations. Ensembles of small networks are up to 20 times faster.
    """
    kinds: dict[Hashable, list[Task]] = {}
    for task in tasks:
        kinds.setdefault(task.procedure.together(task.model), []).append(task)
    total = 0.0
    for kind in kinds.values():
        sample = kind[len(kind) // 2]
        seconds = calibrate(Trial((sample,), "cpu", threads)).seconds
        per_operation = seconds / sample.procedure.operations(sample.model)
        total += sum(per_operation * task.procedure.operations(task.model) for task in kind)
    return total
