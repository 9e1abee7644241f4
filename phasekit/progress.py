"""What long work shows on standard error while it goes on, where somebody watches; and durations in words."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds after which work that nobody sees on a terminal says that it goes on.
FIRST_WORD = 30.0


class Bar:
    """A bar of rich, or nothing."""

    def __init__(self, progress: Progress | None, description: str, total: float | None) -> None:
        self._progress = progress
        self._task: Any = None if progress is None else progress.add_task(description, total=total)

    @property
    def visible(self) -> bool:
        """Whether anything is shown."""
        return self._progress is not None

    def show(self, done: float, description: str) -> None:
        """Show how much of the total is done, and words beside it."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, description=description)

    def remark(self, text: str) -> None:
        """Print a line above the bar; where there is none, print it."""
        if self._progress is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._progress.console.print(text, markup=False, highlight=False)


@contextmanager
def bar(description: str, total: float | None = None) -> Iterator[Bar]:
    """Show a bar with the time that has passed and, once that can be told, the time to go; a spinner without a total.

    Where standard error is no terminal, there is a line now and then, the first one after half a minute.
    """
    if not sys.stderr.isatty():
        with _told_now_and_then(description) if total is None else nullcontext():
            yield Bar(None, description, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    words, passed = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    columns = (SpinnerColumn(), words, passed) if total is None else (BarColumn(), words, passed, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        yield Bar(progress, description, total)


@contextmanager
def _told_now_and_then(description: str) -> Iterator[None]:
    """Say on standard error that something still runs, at ever longer intervals."""
    begun, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        wait = FIRST_WORD
        while not ended.wait(wait):
            passed = time.monotonic() - begun
            print(f"{description}: {duration(passed)} so far", file=sys.stderr, flush=True)
            wait = min(passed, 60.0)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def duration(seconds: float) -> str:
    """Return seconds as people say them: "0.8 s", "45 s", "12 min", "3.5 h"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
