"""What a run shows while it goes on: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from phasekit.runs.work.runner import Monitor, Summary

#: Seconds between two lines where nobody watches a bar.
_LINE_EVERY = 10.0


class Silent:
    """Shows nothing."""

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""

    def remark(self, text: str) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""


class Pace:
    """Counts what was done, and tells rate and remaining time.

    The remaining time counts the cost that was measured beforehand, so that long ensembles at the start don't mislead;
    where nothing was measured it counts tasks.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.done = self.failed = self.already = self.total = 0
        self.cost = self.spent = 0.0

    def plan(self, summary: Summary, seconds: float) -> None:
        """Begin to count."""
        self.begun = time.monotonic()
        self.total, self.already, self.cost = summary.total, summary.already + len(summary.broken), seconds

    def add(self, done: int, failed: int, seconds: float) -> None:
        """Count an ensemble."""
        self.done += done
        self.failed += failed
        self.spent += seconds

    @property
    def finished(self) -> int:
        """Tasks with a result or a failure."""
        return self.already + self.done + self.failed

    @property
    def rate(self) -> float:
        """Tasks per second, so far."""
        return (self.done + self.failed) / max(1e-9, time.monotonic() - self.begun)

    @property
    def remaining(self) -> float | None:
        """Seconds to go; None before anything is known."""
        share = self.spent / self.cost if self.cost > 0 else 0.0
        if self.cost <= 0 and self.total > self.already:
            share = (self.done + self.failed) / (self.total - self.already)
        return (time.monotonic() - self.begun) * (1 - min(1.0, share)) / share if share > 0 else None

    def words(self) -> str:
        """Return all of it in one line."""
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.remaining is None else f", {duration(self.remaining)} to go"
        return f"{self.finished} of {self.total} tasks{failed}, {self.rate:.3g} a second{left}"


class Lines:
    """Plain lines on standard error."""

    def __init__(self) -> None:
        self.pace, self._last = Pace(), 0.0

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""
        self.pace.plan(summary, seconds)
        self._last = time.monotonic()
        self.remark(f"{summary.total} tasks, {summary.already} done before; {backend}")

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""
        self.pace.add(done, failed, seconds)
        if time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self.remark(self.pace.words())

    def remark(self, text: str) -> None:
        """See :class:`phasekit.runs.work.runner.Monitor`."""
        print(text, file=sys.stderr, flush=True)


@contextmanager
def watching() -> Iterator[Monitor]:
    """Yield what shows the progress of a run on standard error, as befits a terminal or a file."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield _Bar(bar)


class _Bar:
    def __init__(self, bar: object) -> None:
        from rich.progress import Progress

        assert isinstance(bar, Progress)
        self.pace, self._bar, self._task = Pace(), bar, bar.add_task("planning", total=None)

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        self.pace.plan(summary, seconds)
        self.remark(f"{summary.total} tasks, {summary.already} done before; {backend}")
        self._show()

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        self.pace.add(done, failed, seconds)
        self._show()

    def remark(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def _show(self) -> None:
        self._bar.update(self._task, completed=self.pace.finished, total=self.pace.total, description=self.pace.words())


def duration(seconds: float) -> str:
    """Return seconds as people say them: "0.8 s", "45 s", "12 min", "3.5 h"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
