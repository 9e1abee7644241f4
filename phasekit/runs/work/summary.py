"""How a run ended, and who watches it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

INTERRUPTED = 130


@dataclass
class Summary:
    """How a run ended.

    Attributes
    ----------
    total : tasks of the sweep
    already : that were in the store before
    done : that came into the store while it ran
    elsewhere : how many of those none of its own workers reported: another runner on this store computed them, or a
        worker that died before it could say so
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
    elsewhere: int = 0
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
