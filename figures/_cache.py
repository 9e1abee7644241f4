"""Results that take long are computed once, and kept in ``build/runs`` for all scripts.

A result is described by plain numbers; the hash of their JSON names its file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from phasekit.errors import InputError

FOLDER = Path(__file__).resolve().parents[1] / "build" / "runs"

T = TypeVar("T")


def file_of(description: Mapping[str, Any]) -> Path:
    """Return where the result of this description is kept."""
    text = json.dumps(description, sort_keys=True)
    return FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.nc"


def kept(
    file: Path,
    load: Callable[[Path], T],
    holds: Callable[[T], bool],
    compute: Callable[[], T],
    save: Callable[[T, Path], None],
) -> T:
    """Return what the file holds if it can be read and ``holds``; else compute it, save it, and say so."""
    if file.exists():
        try:
            found = load(file)
            if holds(found):
                return found
            reason = "holds something else, or is out of date"
        except (InputError, KeyError, OSError, ValueError) as error:
            reason = str(error)
        print(f"{file}: {reason}; computing again", file=sys.stderr)
    result = compute()
    save(result, file)
    return result
