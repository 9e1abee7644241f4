"""``result.npz``: the numbers of one task and how they were computed, with a check sum.

The last bytes are the hash of everything before them and of the task's id (as the archive's comment: any tool reads the
file). So a result that was cut short, changed, or moved to another task's folder is found; the check sums of netCDF's
own would not notice the last.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from phasekit.runs.procedures import Outcome
from phasekit.runs.store.records import BrokenRecord, parse_record

FORMAT = "phasekit run 1"
_RECORD, _VALUES = "record.json", "values"
_CHECK_SIZE = 32  # hexadecimal digits


def pack(task: str, outcome: Outcome, record: Mapping[str, Any]) -> bytes:
    """Return a task's result as an .npz file: the values as one table, the arrays, and the record."""
    fields = [(name, np.asarray(column)) for name, column in outcome.values.items()]
    table = np.empty(len(fields[0][1]), dtype=[(name, column.dtype) for name, column in fields])
    for name, column in fields:
        table[name] = column
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        described = {"format": FORMAT, "task": task, **outcome.about, **record}
        archive.writestr(ZipInfo(_RECORD), json.dumps(described))
        for name, array in {_VALUES: table, **outcome.arrays}.items():
            member = BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue())
        archive.comment = b"-" * _CHECK_SIZE
    content = packed.getvalue()[:-_CHECK_SIZE]
    return content + _check_sum(task, content)


def is_whole(task: str, packed: bytes) -> bool:
    """Whether these bytes are the result that was written for this task."""
    return packed[-_CHECK_SIZE:] == _check_sum(task, packed[:-_CHECK_SIZE])


def unpack(packed: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]], dict[str, Any]]:
    """Return values, arrays and record of a result.

    Raises
    ------
    BrokenRecord
        If the bytes are something else.
    """
    try:
        with np.load(BytesIO(packed), allow_pickle=False) as file:
            record = parse_record(file[_RECORD])
            table = file[_VALUES]
            arrays = {name: file[name] for name in file.files if name not in (_RECORD, _VALUES)}
        values = {name: table[name] for name in table.dtype.names}
    except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise BrokenRecord(f"is not a result ({error})") from None
    if record.get("format") != FORMAT or not values or table.ndim != 1:
        raise BrokenRecord(f"is not a result of {FORMAT!r}")
    return values, arrays, record


def _check_sum(task: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=task.encode(), digest_size=_CHECK_SIZE // 2).hexdigest().encode()
