"""Which tasks are computed at once: as the plans of a store say, or as is measured for tasks that none holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from phasekit.runs.store.plan import About, Group, Plan, add_plan, chunks, read_plans
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import Sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend, WorkersLost
from phasekit.runs.work.calibrate import SIZES, Speed, Trial, calibrate, families, largest_ensemble
from phasekit.runs.work.stopping import Stop
from phasekit.runs.work.summary import Monitor


class Planner:
    """Plans the ensembles of a sweep in a store.

    Parameters
    ----------
    sweep : Sweep
    tasks : id to task, all of the sweep
    store, backend, monitor, device, stop
        Of the run.
    """

    def __init__(
        self,
        sweep: Sweep,
        tasks: Mapping[str, Task],
        store: Store,
        backend: Backend,
        monitor: Monitor,
        device: str,
        stop: Stop,
    ) -> None:
        self.sweep, self.tasks, self.store, self.backend = sweep, tasks, store, backend
        self.monitor, self.device, self.stop = monitor, device, stop

    def plans(self) -> list[Plan]:
        """Return the store's plans; tasks that no plan holds are planned first. None, if the run is to end."""
        while True:
            plans = read_plans(self.store)
            planned = {task for plan in plans for group in plan.groups for task in group.tasks}
            there = planned | self.store.names()  # what came from an archive was planned elsewhere
            new = [task for task in self.tasks.values() if task.id not in there]
            asked = (self.sweep.name, self.sweep.preset, tuple(self.tasks))
            if not new and any((plan.sweep, plan.preset, plan.tasks) == asked for plan in plans):
                return plans
            groups, speeds = self._cut(new)
            if self.stop.wanted:  # what was measured isn't all
                return []
            add_plan(self.store, self._plan(new, groups, speeds), plans)  # if another was faster, look at its plan

    def _plan(self, new: Sequence[Task], groups: Sequence[Group], speeds: list[dict[str, Any]]) -> Plan:
        about = About(
            about=self.sweep.about,
            measure=self.sweep.measure,
            along=self.sweep.along,
            procedure=self.sweep.procedure.describe(),
            calibration=speeds,
        )
        return Plan(
            sweep=self.sweep.name,
            preset=self.sweep.preset,
            tasks=tuple(self.tasks),
            groups=tuple(groups),
            parameters={task.id: dict(task.parameters) for task in new},
            about=about,
        )

    def _cut(self, tasks: Sequence[Task]) -> tuple[list[Group], list[dict[str, Any]]]:
        """Cut tasks into ensembles whose size is given or measured."""
        kinds = families(tasks)
        if self.sweep.group is not None:
            return [g for family in kinds for g in chunks(_ids(family), self.sweep.group)], []
        if kinds:
            self.monitor.remark(f"measuring how many tasks to compute at once ({len(kinds)} kinds)")
        groups, speeds = [], []
        shared = largest_ensemble(len(tasks), self.backend.workers)
        for family, speed in zip(kinds, self._measure(kinds), strict=True):
            size = min(speed.size, shared)
            groups += chunks(_ids(family), size, speed.seconds, speed.threads)
            speeds.append(
                {"model": str(family[0].model), "size": size, "seconds": speed.measured or {}, "threads": speed.threads}
            )
        return groups, speeds

    def _measure(self, kinds: Sequence[Sequence[Task]]) -> list[Speed]:
        """Measure one kind of task after another on the workers; one that kills its worker twice gets single tasks."""
        speeds: dict[int, Speed] = {}
        for order in (1, -1):  # from the other end, so that one deadly kind keeps no other from being measured
            missing = [k for k in range(len(kinds)) if k not in speeds][::order]
            try:
                for number, speed in self.backend.map(_calibrate_numbered, self._trials(kinds, missing)):
                    speeds[number] = speed
                break
            except WorkersLost:
                self.monitor.remark("a worker died while measuring")
        return [speeds.get(k, Speed()) for k in range(len(kinds))]

    def _trials(self, kinds: Sequence[Sequence[Task]], which: Sequence[int]) -> Iterator[tuple[int, Trial]]:
        for k in which:
            if self.stop.wanted:
                return
            some = tuple(kinds[k][: SIZES[-1]])
            yield k, Trial(some, self.device, self.backend.threads, self.stop.file.absolute())


def _ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def _calibrate_numbered(job: tuple[int, Trial]) -> tuple[int, Speed]:
    number, trial = job
    return number, calibrate(trial)
