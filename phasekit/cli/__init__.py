"""The command line. Exit status: 0 done, 1 a check failed, 2 wrong usage, 130 interrupted.

Every error a user can make ends in one line ``error: …`` on standard error and status 2, without a traceback.
Only what a command needs is imported, when it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

DONE, CHECK_FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
READER_GONE = 141  # what a shell reports when a reader such as `head` closes the pipe first: 128 + SIGPIPE


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``phasekit`` with the given arguments (default: those of the process) and exit with its status."""
    status = run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        status = READER_GONE
    sys.exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run ``phasekit`` and return its exit status."""
    import typer

    from phasekit.cli.app import app
    from phasekit.errors import InputError

    try:
        status = app(args=None if arguments is None else list(arguments), prog_name="phasekit", standalone_mode=False)
    except InputError as error:
        return _complain(str(error), WRONG_USAGE)
    except typer.TyperException as error:  # an unknown option, a word where a number belongs, …
        return _complain(error.format_message(), WRONG_USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:  # how typer and rich end, printing help, when the reader of the pipe has gone
        discard_output()
        return READER_GONE
    except MemoryError:
        return _complain("not enough memory for a task of this size", WRONG_USAGE)
    return int(status or DONE)


def discard_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python doesn't complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, status: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status
