"""Tables as files: CSV for programs, Markdown for people, and the Markdown on standard output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pandas as pd

from phasekit.files import atomic


def write_table(
    stem: Path, sections: Sequence[tuple[str, pd.DataFrame]], numbers: pd.DataFrame, notes: Sequence[str] = ()
) -> list[Path]:
    """Write ``stem.md`` with titled tables of text and notes below, print it, and write ``stem.csv`` with the numbers.

    Both appear together or not at all.
    """
    text = page(sections, notes)
    files = [stem.with_name(f"{stem.name}.csv"), stem.with_name(f"{stem.name}.md")]
    with ExitStack() as stack:
        csv, md = (stack.enter_context(atomic(path)) for path in files)
        numbers.to_csv(csv, index=False, lineterminator="\n")
        md.write_text(text, encoding="utf-8")
    print(text)
    return files


def write_page(file: Path, sections: Sequence[tuple[str, pd.DataFrame]], notes: Sequence[str] = ()) -> Path:
    """Write titled tables of text and notes below as Markdown, and print them: the numbers of a picture in words."""
    text = page(sections, notes)
    with atomic(file) as path:
        path.write_text(text, encoding="utf-8")
    print(text)
    return file


def page(sections: Sequence[tuple[str, pd.DataFrame]], notes: Sequence[str] = ()) -> str:
    """Return titled tables of text, and notes below, as Markdown."""
    parts = [f"## {title}\n\n{markdown(table)}" for title, table in sections]
    return "\n".join([*parts, *(f"* {note}" for note in notes), ""])


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text as Markdown, its columns padded so that it reads as plain text too."""
    rows = [[str(name) for name in table.columns], *([_cell(value) for value in row] for row in table.to_numpy())]
    widths = [max(len(row[k]) for row in rows) for k in range(table.shape[1])]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


def with_error(value: float, error: float) -> str:
    """Return "value ± error" with the error to two digits; the plain value if the error isn't known, "" for NaN."""
    if math.isnan(value):
        return ""
    if not (math.isfinite(error) and error > 0):
        return f"{value:.5g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _cell(value: object) -> str:
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value).replace("|", "\\|")
