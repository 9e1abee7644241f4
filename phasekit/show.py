"""How results show themselves: as the tables that commands print, in a terminal and in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Lines that an object shows of itself at most.
MOST_LINES = 12
_TITLE, _HEADING, _CUT, _NOTES = 1, 1, 1, 2


@dataclass(frozen=True)
class Table:
    """A table for people: numbers to six digits, None as a dash, notes a line each below it.

    The first column and columns without a heading hold words and begin at their left end.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Return the table as at most :data:`MOST_LINES` lines; what is left out is counted."""
        rows, notes = self._shortened()
        heading = [list(self.columns)] if any(self.columns) else []
        cells = [*heading, *rows]
        widths = [max((len(row[k]) for row in cells), default=0) for k in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if k == 0 or not self.columns[k] else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([self.title, *lines, *notes])

    def html(self) -> str:
        """Return the same for a notebook."""
        rows, notes = self._shortened()
        heading = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        below = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
        head = f"<thead><tr>{heading}</tr></thead>" if any(self.columns) else ""
        return f"<div><b>{html.escape(self.title)}</b><table>{head}<tbody>{body}</tbody></table>{below}</div>"

    def _shortened(self) -> tuple[list[list[str]], list[str]]:
        """Return as many rows and notes as fit; notes give way last."""
        room = MOST_LINES - _TITLE - (_HEADING if any(self.columns) else 0) - min(len(self.notes), _NOTES + 1)
        kept = self.rows if len(self.rows) <= room else self.rows[: room - _CUT]
        rows = [[shown(cell) for cell in row] for row in kept]
        notes = [*self.notes[:_NOTES], *self.notes[_NOTES:][-1:]]  # the last one is the caveat, if there is one
        return rows, [*([f"… and {len(self.rows) - len(kept)} more"] if len(kept) < len(self.rows) else []), *notes]


class Shown:
    """Something that shows itself as a table. Subclasses say which one.

    A dataclass that derives from this needs ``repr=False``.
    """

    def table(self) -> Table:
        """Return what is shown of it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def shown(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}" if math.isfinite(value) else "–"
    if isinstance(value, list | tuple):
        return ", ".join(shown(entry) for entry in value)
    return str(value)
