"""What long work shows while it goes on, where somebody watches: on a terminal or in a notebook; durations in words."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

#: Called now and then with how much is done, and how much there is in all.
Report = Callable[[int, int], None]
#: Whether a long call shows a bar; None: in a notebook, but not in a script. Or what is called instead.
Progress = Report | bool | None

#: Seconds after which work that nobody sees on a terminal says that it goes on.
FIRST_WORD = 30.0
#: Seconds after which a bar appears in a notebook, and between two looks of it.
_FIRST_LOOK, _BETWEEN = 1.0, 0.2


class Bar:
    """A bar of rich, or nothing."""

    def __init__(self, progress: RichProgress | None, description: str, total: float | None) -> None:
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


class _CellBar(Bar):
    """A bar below a notebook's cell, which leaves nothing behind."""

    def __init__(self, total: float | None) -> None:
        self._total, self._next = total, time.monotonic() + _FIRST_LOOK
        self._below: Any = None

    @property
    def visible(self) -> bool:
        return True

    def show(self, done: float, description: str) -> None:
        if time.monotonic() < self._next:
            return
        share = "" if self._total is None else f' value="{done / self._total:.3f}"'
        self._draw(f"<progress{share}></progress> {escape(description)}")
        self._next = time.monotonic() + _BETWEEN

    def remark(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the bar away."""
        if self._below is not None:
            self._draw("")

    def _draw(self, html: str) -> None:
        shell = import_module("IPython.display")  # no requirement of ours: a notebook has it
        if self._below is None:
            self._below = shell.display(shell.HTML(html), display_id=True)
        else:
            self._below.update(shell.HTML(html))


def in_notebook() -> bool:
    """Whether a cell of a notebook is running."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def reported(progress: Progress, description: str) -> Iterator[Report | None]:
    """Yield what a long call is to call now and then, if anything: what its caller gave, or what moves a bar."""
    if progress is None or isinstance(progress, bool):
        if not (in_notebook() if progress is None else progress):
            yield None
            return
        quiet = not in_notebook() and not sys.stderr.isatty()
        with _told_now_and_then(description) if quiet else nullcontext(), bar(description, 1.0) as shown:
            yield lambda done, total: shown.show(done / total, f"{description}: {done} of {total}")
        return
    yield progress


@contextmanager
def bar(description: str, total: float | None = None) -> Iterator[Bar]:
    """Show a bar with the time that has passed and, once that can be told, the time to go; a spinner without a total.

    Where standard error is no terminal, there is a line now and then, the first one after half a minute.
    """
    if in_notebook():
        cell = _CellBar(total)
        try:
            yield cell
        finally:
            cell.clear()
        return
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
