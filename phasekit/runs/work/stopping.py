"""How a run is stopped: a file appears that its workers look for, so that they save their state and end."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from phasekit.runs.work.summary import INTERRUPTED


class Stop:
    """The wish that a run ends.

    Parameters
    ----------
    folder : path
        Where the file appears; workers see it there.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / f".stop-{uuid.uuid4().hex}"

    @property
    def wanted(self) -> bool:
        """Whether the run is to end."""
        return self.file.exists()

    def ask(self) -> None:
        """Ask all workers to end."""
        self.file.touch()

    def forget(self) -> None:
        """Remove the file: nobody works any more."""
        self.file.unlink(missing_ok=True)

    @contextmanager
    def on_interrupt(self, tell: Callable[[], None]) -> Iterator[None]:
        """Let Ctrl-C (or SIGTERM) end the run cleanly, and a second one at once; ``tell`` is called at the first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        interrupted = False

        def interrupt(number: int, frame: Any) -> None:
            nonlocal interrupted
            if interrupted:
                os._exit(INTERRUPTED)  # workers notice that their runner is gone
            interrupted = True
            self.ask()
            tell()

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
