"""What commands print: one JSON document, or tables for people; progress goes to standard error."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from phasekit.cli import READER_GONE, discard_output
from phasekit.progress import bar
from phasekit.show import Table, shown

if TYPE_CHECKING:
    from phasekit.model import Estimator, Model

_LONGEST_NAME = 80  # of a folder
PIPE_WIDTH = 10_000  # characters per line where there is no terminal: nothing is cut off

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def folder_named(text: str) -> Path:
    """Read the name of a folder; an empty one would be the current folder, which nobody asked for."""
    if not text.strip():
        raise typer.BadParameter("must name a folder; . is the current one")
    return Path(text)


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", parser=folder_named, metavar="FOLDER", help="For the files (default: build/ and which model)."
    ),
]


ErrorOption = Annotated[
    float | None,
    typer.Option(
        "--error",
        help="Relative error that thresholds of the posterior may have: looser ones are found faster.",
    ),
]
TheoryJobsOption = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes that share the posterior's models (default 1).")
]


def default_folder(command: str, words: str) -> Path:
    """Return the folder of a command's files if none is given: another for each model, so that none is overwritten."""
    name = re.sub(r"[^\w.=+-]+", "-", words.replace(" = ", "=")).strip("-")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{zlib.crc32(name.encode()):08x}"
    return Path("build") / command / name


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that JSON can't write (NaN, infinity) become null.

    Letters stand for themselves where standard output can hold them all, else each but ASCII is written as JSON's \\u.
    """
    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(plain(document), indent=2, allow_nan=False)
    write(text + "\n")


def plain(value: Any) -> Any:
    """Turn numpy arrays and numbers, tuples and mappings into what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Iterable):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], notes: Sequence[str] = ()) -> None:
    """Print a table for people; numbers to six digits, None as a dash. Notes follow below, a line each.

    The first column and columns without a heading hold words and begin at their left end.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for k, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if k == 0 or not column else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    terminal = sys.stdout.isatty()
    page = io.StringIO()
    console = Console(file=page, width=None if terminal else PIPE_WIDTH, force_terminal=terminal)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
    for note in notes:
        console.print(Text(note), soft_wrap=True)
    write("".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines()))


def show(table: Table) -> None:
    """Print a result's own table, all of it."""
    print_table(table.title, table.columns, table.rows, table.notes)


def caveat_of(model: Model, estimator: Estimator) -> dict[str, str]:
    """Return {"caveat": where this theory is approximate}, of what doesn't carry it itself; empty if it is not."""
    from phasekit.theory.action import action_for

    words = action_for(model, estimator).caveat(model.at(P=1.0).parameters())
    return {} if words is None else {"caveat": words}


def as_notes(result: Mapping[Any, Any]) -> list[str]:
    """Return the caveat of a result, if it has one, as lines below a table."""
    return [f"caveat: {result['caveat']}"] if "caveat" in result else []


def write(text: str) -> None:
    """Write to standard output; a reader that has gone (``| head``) ends the command quietly."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(READER_GONE) from None


@contextmanager
def working(task: str) -> Iterator[None]:
    """Show on standard error that, and for how long, a task runs; a line now and then where it is no terminal."""
    with bar(task):
        yield
