"""What a run says while it goes on: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from phasekit.progress import Bar, bar, duration
from phasekit.runs.work.summary import Monitor, Summary

#: Seconds between two lines where nobody watches a bar.
_LINE_EVERY = 10.0


class Silent:
    """Shows nothing."""

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""

    def remark(self, text: str) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""


class Shown:
    """Counts what was done, shows it on a bar, and in lines where there is none.

    The share that is done is one of the cost that was measured beforehand, so that long ensembles at the start don't
    mislead; where nothing was measured it is one of the tasks.
    """

    def __init__(self, bar: Bar, lines: bool) -> None:
        self._bar, self._lines = bar, lines
        self._begun = self._last = time.monotonic()
        self.done = self.failed = self.already = self.total = 0
        self.cost = self.spent = 0.0

    def planned(self, summary: Summary, seconds: float, backend: str) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""
        self._begun = self._last = time.monotonic()
        self.total, self.already, self.cost = summary.total, summary.already + len(summary.broken), seconds
        self.remark(f"{summary.total} tasks, {summary.already} done before; {backend}")
        self._bar.show(0.0, self.words())

    def progressed(self, done: int, failed: int, seconds: float) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""
        self.done, self.failed, self.spent = self.done + done, self.failed + failed, self.spent + seconds
        self._bar.show(self.share, self.words())
        if self._lines and time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            left = (self._last - self._begun) * (1 / self.share - 1) if self.share > 0 else None
            self.remark(self.words() + ("" if left is None else f", {duration(left)} to go"))

    def remark(self, text: str) -> None:
        """See :class:`phasekit.runs.work.summary.Monitor`."""
        self._bar.remark(text)

    @property
    def share(self) -> float:
        """The share of what this run has to do that is done."""
        if self.cost > 0:
            return min(1.0, self.spent / self.cost)
        return (self.done + self.failed) / max(1, self.total - self.already)

    def words(self) -> str:
        """Return the counts in one line."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.already + self.done + self.failed} of {self.total} tasks{failed}"


@contextmanager
def watching() -> Iterator[Monitor]:
    """Yield what shows the progress of a run on standard error, as befits a terminal or a file."""
    with bar("planning", total=1.0) as shown:
        yield Shown(shown, lines=not shown.visible)
