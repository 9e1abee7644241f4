"""The command line. Exit status: 0 done, 1 a check failed, 2 wrong usage, 3 no answer, 130 interrupted.

Every error a user can make ends in one line ``error: …`` on standard error and status 2, without a traceback.
Only what a command needs is imported, when it runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

DONE, CHECK_FAILED, WRONG_USAGE, NO_ANSWER, INTERRUPTED = 0, 1, 2, 3, 130
READER_GONE = 141  # what a shell reports when a reader such as `head` closes the pipe first: 128 + SIGPIPE

_NO_MEMORY = "not enough memory for a task of this size"
# PyTorch has no exception of its own for it on the CPU.
_TORCH_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``phasekit`` with the given arguments (default: those of the process) and exit with its status."""
    _make_streams_usable()
    _shorten_warnings()
    sys.path.append(os.getcwd())  # where scores and procedures of the user's own may lie, named module:Class
    os.environ["MPLBACKEND"] = "agg"  # pictures are files; matplotlib would refuse a misspelt backend, after the work
    status = DONE
    try:
        status = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before or after the command
        status = INTERRUPTED
    except BrokenPipeError:
        discard_output()
        status = READER_GONE
    except OSError as error:  # the disk behind standard output is full, which `run` may have said already
        discard_output()
        status = status or _complain(str(error), WRONG_USAGE)
    sys.exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run ``phasekit`` and return its exit status."""
    import typer

    from phasekit.cli.app import app
    from phasekit.errors import InputError
    from phasekit.extras import EXTRA_OF, missing

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
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_OF:
            raise
        return _complain(str(missing(error.name)), WRONG_USAGE)
    except MemoryError:
        return _complain(_NO_MEMORY, WRONG_USAGE)
    except RuntimeError as error:
        if not any(words in str(error) for words in _TORCH_OUT_OF_MEMORY):
            raise
        return _complain(_NO_MEMORY, WRONG_USAGE)
    except ArithmeticError as error:  # a search failed, chains diverged, …
        return _complain(str(error), NO_ANSWER)
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, while a file or standard output is written
        return _complain(str(error), WRONG_USAGE)
    return int(status or DONE)


def discard_output() -> None:
    """Send what is still buffered for standard output nowhere, so that Python doesn't complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_streams_usable() -> None:
    """Send what is written to closed streams nowhere, and escape characters that the locale doesn't have.

    A closed stream must be replaced before anything else is opened, because the next file would take its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the end)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")


def _shorten_warnings() -> None:
    """Print warnings as one line without source; NumPy's about NaN and infinities not at all: results are flagged."""
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    warnings.showwarning = lambda message, *_, **__: print(
        f"warning: {' '.join(str(message).split())}", file=sys.stderr
    )


def _complain(message: str, status: int) -> int:
    with contextlib.suppress(OSError):  # nobody can be told if standard error is full
        print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return status
