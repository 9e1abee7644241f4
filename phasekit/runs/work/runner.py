"""Run a sweep: plan ensembles, hand them to workers, and go on until nothing is missing.

The runner decides nothing by what workers tell it: after every round it looks into the store. Workers are disposable;
what one was working on when it died is handed out again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from phasekit.runs.store.plan import About, Group, Plan, add_plan, chunks, read_plans
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import Sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend, WorkersLost
from phasekit.runs.work.calibrate import SIZES, Speed, Trial, calibrate, families
from phasekit.runs.work.worker import Job, Report, work

#: After so many deaths of its workers an ensemble is run alone, to see whether it is the culprit …
_STRIKES = 3
#: … and after so many more, alone, its tasks are run one by one; then the task counts as failed.
_STRIKES_ALONE = 2
_POLL = 0.5
#: Ensembles for each worker, at least, so that all stay busy to the end.
_ROUNDS = 3
INTERRUPTED = 130


@dataclass
class Summary:
    """How a run ended.

    Attributes
    ----------
    total : tasks of the sweep
    already : that were in the store before
    done : that this run computed
    failed : ids of tasks that failed, and are not finished
    broken : ids and reasons of tasks whose directories aren't whole
    interrupted : whether the user stopped it
    disk : the system's words if results couldn't be written
    stopped_early : whether it stopped at a failure (``fail_fast``)
    seconds : wall-clock time
    """

    total: int
    already: int = 0
    done: int = 0
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    disk: str = ""
    stopped_early: bool = False
    seconds: float = 0.0

    @property
    def missing(self) -> int:
        """How many tasks are neither finished nor failed nor broken."""
        return self.total - self.already - self.done - len(self.failed) - len(self.broken)

    @property
    def status(self) -> int:
        """The exit status: 0 if everything is there, 1 if not, 130 if the user stopped it."""
        if self.interrupted:
            return INTERRUPTED
        return 1 if self.failed or self.broken or self.disk or self.missing else 0


class Monitor(Protocol):
    """Who watches a run; see :mod:`phasekit.runs.work.progress`."""

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        """Called before work begins, with the seconds of one worker that it should take (0 if unknown)."""

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        """Called for every ensemble that finished: its tasks, and the seconds it was expected to take."""

    def remark(self, text: str) -> None:
        """Called with something that the user should know."""


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
        self.sweep, self.store, self.backend, self.monitor = sweep, store, backend, monitor
        self.tasks = {task.id: task for task in tasks}
        self.device, self.fail_fast, self.save_every = device, fail_fast, save_every
        self.stop_file = store.claims / f".stop-{uuid.uuid4().hex}"
        self.summary = Summary(total=len(self.tasks))
        self.strikes: Counter[str] = Counter()
        self.saved: dict[str, float] = {}  # the time of an ensemble's checkpoint, as it was last handed out or lost
        self.parameters: dict[str, dict[str, Any]] = {}

    def run(self, retry_failed: bool) -> Summary:
        begun = time.monotonic()
        self.store.recover_all()
        self.summary.broken = {task: reason for task in self._present() if (reason := self.store.check(task))}
        self.summary.already = len(self._present()) - len(self.summary.broken)
        if retry_failed:
            self.store.forget_failures(self.store.failed() & self.tasks.keys())
        with self._interruptible():
            try:
                groups = self._groups()
                missing = self._missing(groups)
                cost = sum(group.seconds for group in missing)
                self.monitor.planned(self.summary, cost, self.backend.description)
                while missing and not self._stopping():
                    self._round(missing)
                    missing = self._missing(groups)
            finally:
                self.stop_file.unlink(missing_ok=True)
                self.store.recover_all()  # what workers that were killed left half-written
        self.summary.failed = {task: self._why(task) for task in self.store.failed() & self.tasks.keys()}
        self.summary.done = len(self._present()) - self.summary.already - len(self.summary.broken)
        self.summary.seconds = time.monotonic() - begun
        return self.summary

    # --- what is to be done

    def _present(self) -> set[str]:
        return self.store.names() & self.tasks.keys()

    def _missing(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups with a task of this sweep that is neither there nor failed, longest first."""
        missing = self.tasks.keys() - self.store.names() - self.store.failed()
        return sorted((g for g in groups if not missing.isdisjoint(g.tasks)), key=lambda g: -g.seconds)

    def _groups(self) -> list[Group]:
        """Return the ensembles of the store's plans; tasks that no plan holds are planned now."""
        while True:
            plans = read_plans(self.store)
            planned = {task for plan in plans for group in plan.groups for task in group.tasks}
            there = planned | self.store.names()  # what came from an archive was planned elsewhere
            new = [task for task in self.tasks.values() if task.id not in there]
            asked = (self.sweep.name, self.sweep.preset, tuple(self.tasks))
            if not new and any((plan.sweep, plan.preset, plan.tasks) == asked for plan in plans):
                self.parameters = {task: found for plan in plans for task, found in plan.parameters.items()}
                return [group for plan in plans for group in plan.groups]
            groups, speeds = self._plan(new)
            if self._stopping():  # what was measured isn't all
                return []
            plan = Plan(
                sweep=self.sweep.name,
                preset=self.sweep.preset,
                tasks=tuple(self.tasks),
                groups=tuple(groups),
                parameters={task.id: dict(task.parameters) for task in new},
                about=About(
                    about=self.sweep.about,
                    measure=self.sweep.measure,
                    along=self.sweep.along,
                    procedure=self.sweep.procedure.describe(),
                    calibration=speeds,
                ),
            )
            add_plan(self.store, plan, plans)  # if another runner was faster, look at what it planned

    def _plan(self, tasks: Sequence[Task]) -> tuple[list[Group], list[dict[str, Any]]]:
        """Cut tasks into ensembles whose size is given or measured."""
        kinds = families(tasks)
        if self.sweep.group is not None:
            return [g for family in kinds for g in chunks(_ids(family), self.sweep.group)], []
        if kinds:
            self.monitor.remark(f"measuring how many tasks to compute at once ({len(kinds)} kinds)")
        groups, speeds = [], []
        shared = max(1, -(-len(tasks) // (_ROUNDS * self.backend.workers)))
        for family, speed in zip(kinds, self._measure(kinds), strict=True):
            size = min(speed.size, shared)
            groups += chunks(_ids(family), size, speed.seconds)
            speeds.append({"model": str(family[0].model), "size": size, "seconds": speed.measured or {}})
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
            if self._stopping():
                return
            yield k, Trial(tuple(kinds[k][: SIZES[-1]]), self.device, self.backend.threads, self.stop_file.absolute())

    # --- doing it

    def _round(self, groups: Sequence[Group]) -> None:
        """Hand out all groups once; come back when they are done, or workers were lost."""
        suspects = [group for group in groups if self.strikes[group.id] >= _STRIKES]
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
            self._blame(together, lost)
        if elsewhere and not self._stopping():
            time.sleep(_POLL)  # another runner works on the rest; see again whether it has finished, or died

    def _jobs(self, groups: Sequence[Group]) -> Iterator[Job]:
        for group in groups:
            if self._stopping():
                return
            yield self._job(group.id, group.tasks)

    def _job(self, name: str, ids: Sequence[str]) -> Job:
        self.saved.setdefault(name, self.store.saved_at(name))
        return Job(
            str(self.store.path.absolute()),
            name,
            tuple(self._task(task) for task in ids),
            self.device,
            self.backend.threads,
            str(self.stop_file.absolute()),
            self.save_every,
        )

    def _task(self, id: str) -> Task:
        """Return a task of this sweep, or of another sweep in the same store that shares an ensemble with ours."""
        return self.tasks.get(id) or Task.from_parameters(self.parameters[id])

    def _note(self, report: Report, groups: dict[str, Group]) -> None:
        if report.status == "disk":
            self.summary.disk = report.message
            self._stop()
        group = groups[report.group]
        self.monitor.progressed(len(report.done), len(report.failed), group.seconds)
        for note in report.notes:
            self.monitor.remark(note)
        for task, kind, message in report.failed:
            self.monitor.remark(f"failed: {task}: {kind}: {message}")
        if report.failed and self.fail_fast:
            self.summary.stopped_early = True
            self._stop()

    def _blame(self, groups: Sequence[Group], lost: WorkersLost) -> None:
        """Note which ensembles were being worked on when workers died: their claims were left behind."""
        claimed = set(os.listdir(self.store.claims))
        running = [group.id for group in groups if group.id in claimed]
        for group in running:
            self._strike(group, 1)
        for job in lost.culprits:  # or it lay beside the one that kills on a worker that died: alone, it shows
            self._strike(job.group, _STRIKES)
        self.monitor.remark(f"a worker died; {len(running)} ensembles are handed out again ({lost})")

    def _strike(self, group: str, count: int) -> bool:
        """Count deaths of an ensemble's workers, but not if it got further meanwhile, as when a job was pre-empted."""
        saved = self.store.saved_at(group)
        further = saved > self.saved.get(group, saved)
        self.saved[group] = saved
        self.strikes[group] = 0 if further else self.strikes[group] + count
        return not further

    def _alone(self, group: Group) -> None:
        """Run an ensemble with nothing else; if it still kills its worker, its tasks one by one."""
        proven = self.strikes[group.id] >= _STRIKES + _STRIKES_ALONE
        if not proven and self._survives(group.id, group.tasks, group):
            return
        single = len(group.tasks) == 1
        for task in group.tasks:
            mine = task in self.tasks and not self.store.has(task) and not self._stopping()
            if mine and (single or not self._survives(f"{group.id}-{task}", [task], group)):
                message = "its workers were killed again and again (out of memory?)"
                self.store.write_failure(
                    self.tasks[task], {"type": "WorkerKilled", "message": message, "traceback": ""}
                )
                self.monitor.progressed(0, 1, 0.0)
                self.monitor.remark(f"failed: {task}: WorkerKilled: {message}")

    def _survives(self, name: str, ids: Sequence[str], group: Group) -> bool:
        deaths = 0
        while deaths < _STRIKES_ALONE:
            try:
                for report in self.backend.map(work, [self._job(name, ids)]):
                    self._note(report, {name: group})
                return True
            except WorkersLost as lost:
                deaths += self._strike(name, 1) * (_STRIKES_ALONE if lost.culprits else 1)
        return False

    # --- stopping

    def _stopping(self) -> bool:
        return self.stop_file.exists()

    def _stop(self) -> None:
        self.stop_file.touch()

    def _why(self, task: str) -> tuple[str, str]:
        failure = self.store.failure(task) or {}
        return str(failure.get("type", "unknown")), str(failure.get("message", ""))

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C (or SIGTERM) end the run cleanly, and a second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            if self.summary.interrupted:
                os._exit(INTERRUPTED)  # workers notice that their runner is gone
            self.summary.interrupted = True
            self._stop()
            self.monitor.remark("stopping: ensembles save their state; press Ctrl-C again to end at once")

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def _calibrate_numbered(job: tuple[int, Trial]) -> tuple[int, Speed]:
    number, trial = job
    return number, calibrate(trial)
