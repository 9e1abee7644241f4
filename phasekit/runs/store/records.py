"""Small JSON files that anybody may have damaged or put there: read by one function, which says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class BrokenRecord(Exception):
    """What lies in a place of the store isn't what was written there; the message says why."""


def read_record(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    BrokenRecord
        If something else is there: a folder, no JSON, or JSON that is no object.
    """
    try:
        return parse_record(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BrokenRecord(f"can't be read ({error.strerror})") from None


def parse_record(content: bytes | str) -> dict[str, Any]:
    """Return the JSON object in bytes.

    Raises
    ------
    BrokenRecord
        If they hold no JSON, or JSON that is no object.
    """
    try:
        found = json.loads(content)
    except ValueError as error:
        raise BrokenRecord(f"is no JSON ({error})") from None
    except RecursionError:
        raise BrokenRecord("is nested too deeply") from None
    if not isinstance(found, dict):
        raise BrokenRecord("is JSON, but no object")
    return found
