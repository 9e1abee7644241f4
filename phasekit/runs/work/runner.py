"""Run a sweep: plan ensembles, hand them to workers, and go on until nothing is missing.

The runner decides nothing by what workers tell it: after every round it looks into the store. Workers are disposable;
what one was working on when it died is handed out again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from phasekit.runs.store.plan import Group
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import Sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend, WorkersLost
from phasekit.runs.work.deaths import STRIKES_ALONE, Deaths
from phasekit.runs.work.planning import Planner
from phasekit.runs.work.stopping import Stop
from phasekit.runs.work.summary import Monitor, Summary
from phasekit.runs.work.worker import Job, Report, work

_POLL = 0.5


def run_sweep(
    sweep: Sweep,
    tasks: Sequence[Task],
    store: Store,
    backend: Backend,
    monitor: Monitor,
    *,
    device: str = "cpu",
    fail_fast: bool = False,
    retry_failed: bool = False,
    save_every: float = 60.0,
) -> Summary:
    """Run what is missing of a sweep.

    Parameters
    ----------
    sweep, tasks
        The sweep and what :func:`phasekit.runs.sweeps.expand.expand` made of it.
    store : Store
    backend : Backend
    monitor : Monitor
    device : "cpu", "cuda" or "auto"
    fail_fast : bool
        Stop at the first failure instead of going on.
    retry_failed : bool
        Run tasks again that failed before.
    save_every : float
        Seconds between two checkpoints of long ensembles.

    Raises
    ------
    InputError
        If what is missing needs something that isn't here, a text say.
    """
    return _Run(sweep, tasks, store, backend, monitor, device, fail_fast, save_every).run(retry_failed)


class _Run:
    def __init__(
        self,
        sweep: Sweep,
        tasks: Sequence[Task],
        store: Store,
        backend: Backend,
        monitor: Monitor,
        device: str,
        fail_fast: bool,
        save_every: float,
    ) -> None:
        self.store, self.backend, self.monitor = store, backend, monitor
        self.tasks = {task.id: task for task in tasks}
        self.device, self.fail_fast, self.save_every = device, fail_fast, save_every
        self.stop, self.deaths = Stop(store.claims), Deaths(store)
        self.planner = Planner(sweep, self.tasks, store, backend, monitor, device, self.stop)
        self.summary = Summary(total=len(self.tasks))
        self.reported: set[str] = set()  # tasks that workers of this run computed
        self.parameters: dict[str, dict[str, Any]] = {}

    def run(self, retry_failed: bool) -> Summary:
        begun = time.monotonic()
        self.store.recover_all()
        before = self._present()
        self.summary.broken = {task: reason for task in self._present() if (reason := self.store.check(task))}
        self.summary.already = len(self._present()) - len(self.summary.broken)
        if retry_failed:
            self.store.forget_failures(self.store.failed() & self.tasks.keys())
        with self.stop.on_interrupt(self._interrupted):
            try:
                self._compute()
            finally:
                self.stop.forget()
                self.store.recover_all()  # what workers that were killed left half-written
        self.summary.failed = {task: self._why(task) for task in self.store.failed() & self.tasks.keys()}
        self.summary.done = len(self._present()) - self.summary.already - len(self.summary.broken)
        self.summary.elsewhere = len(self._present() - before - self.reported)
        self.summary.seconds = time.monotonic() - begun
        return self.summary

    def _compute(self) -> None:
        there = self.store.names() | self.store.failed()
        for procedure, model in {
            (task.procedure, task.model) for name, task in self.tasks.items() if name not in there
        }:
            procedure.require(model)
        plans = self.planner.plans()
        self.parameters = {task: found for plan in plans for task, found in plan.parameters.items()}
        groups = [group for plan in plans for group in plan.groups]
        missing = self._missing(groups)
        self.monitor.planned(self.summary, sum(group.seconds for group in missing), self.backend.description)
        while missing and not self.stop.wanted:
            self._round(missing)
            missing = self._missing(groups)

    def _present(self) -> set[str]:
        return self.store.names() & self.tasks.keys()

    def _missing(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups with a task of this sweep that is neither there nor failed, longest first."""
        missing = self.tasks.keys() - self.store.names() - self.store.failed()
        return sorted((g for g in groups if not missing.isdisjoint(g.tasks)), key=lambda g: -g.seconds)

    def _round(self, groups: Sequence[Group]) -> None:
        """Hand out all groups once; come back when they are done, or workers were lost."""
        suspects = [group for group in groups if self.deaths.suspected(group.id)]
        for group in suspects:
            self._alone(group)
        together = [group for group in groups if group not in suspects]
        named = {group.id: group for group in together}
        elsewhere = False
        try:
            for report in self.backend.map(work, self._jobs(together)):
                elsewhere |= report.status == "elsewhere"
                self._note(report, named)
        except WorkersLost as lost:
            running = self.deaths.blame(together, lost)
            self.monitor.remark(f"a worker died; {running} ensembles are handed out again ({lost})")
        if elsewhere and not self.stop.wanted:
            time.sleep(_POLL)  # another runner works on the rest; see again whether it has finished, or died

    def _jobs(self, groups: Sequence[Group]) -> Iterator[Job]:
        for group in groups:
            if self.stop.wanted:
                return
            yield self._job(group.id, group.tasks, group)

    def _job(self, name: str, ids: Sequence[str], group: Group) -> Job:
        self.deaths.handed_out(name)
        return Job(
            str(self.store.path.absolute()),
            name,
            tuple(self._task(task) for task in ids),
            self.device,
            min(group.threads or self.backend.threads, self.backend.threads),
            str(self.stop.file.absolute()),
            self.save_every,
        )

    def _task(self, id: str) -> Task:
        """Return a task of this sweep, or of another sweep in the same store that shares an ensemble with ours."""
        return self.tasks.get(id) or Task.from_parameters(self.parameters[id])

    def _note(self, report: Report, groups: dict[str, Group]) -> None:
        if report.status == "disk":
            self.summary.disk = report.message
            self.stop.ask()
        self.reported.update(report.done)
        group = groups[report.group]
        self.monitor.progressed(len(report.done), len(report.failed), group.seconds)
        for note in report.notes:
            self.monitor.remark(note)
        for task, kind, message in report.failed:
            self.monitor.remark(f"failed: {task}: {kind}: {message}")
        if report.failed and self.fail_fast:
            self.summary.stopped_early = True
            self.stop.ask()

    def _alone(self, group: Group) -> None:
        """Run an ensemble with nothing else; if it still kills its worker, its tasks one by one."""
        if not self.deaths.proven(group.id) and self._survives(group.id, group.tasks, group):
            return
        single = len(group.tasks) == 1
        for task in group.tasks:
            mine = task in self.tasks and not self.store.has(task) and not self.stop.wanted
            if mine and (single or not self._survives(f"{group.id}-{task}", [task], group)):
                message = "its workers were killed again and again (out of memory?)"
                failure = {"type": "WorkerKilled", "message": message, "traceback": ""}
                self.store.write_failure(self.tasks[task], failure)
                self.monitor.progressed(0, 1, 0.0)
                self.monitor.remark(f"failed: {task}: WorkerKilled: {message}")

    def _survives(self, name: str, ids: Sequence[str], group: Group) -> bool:
        deaths = 0
        while deaths < STRIKES_ALONE:
            try:
                for report in self.backend.map(work, [self._job(name, ids, group)]):
                    self._note(report, {name: group})
                return True
            except WorkersLost as lost:
                deaths += self.deaths.count(name, 1) * (STRIKES_ALONE if lost.culprits else 1)
        return False

    def _interrupted(self) -> None:
        self.summary.interrupted = True
        self.monitor.remark("stopping: ensembles save their state; press Ctrl-C again to end at once")

    def _why(self, task: str) -> tuple[str, str]:
        failure = self.store.failure(task) or {}
        return str(failure.get("type", "unknown")), str(failure.get("message", ""))
