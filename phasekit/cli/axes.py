"""How a grid's axis is written on the command line.

``L=16:1024:60`` is 60 points from 16 to 1024 in geometric steps, ``sigma_w=0.5:2:16:lin`` is 16 points in even steps,
``P=100,200,400`` lists the points. V and L are rounded to integers, and points that coincide are merged. Numbers of
score functions (``n=1:4:20:lin`` for SSA) are axes like those of the model.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import AXES, INTEGER_AXES
from phasekit.scores.registry import score_types

SYNTAX = "NAME=START:STOP:COUNT (geometric steps), NAME=START:STOP:COUNT:lin (even steps) or NAME=VALUE,VALUE,…"
LARGEST_COUNT = 100_000


def parse_axis(text: str) -> tuple[str, NDArray[np.float64]]:
    """Return name and points of an axis.

    Raises
    ------
    InputError
        If the text doesn't follow the syntax, names no number of a model, or gives no points.
    """
    name, equals, points = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise InputError("axis", text, f"must be written {SYNTAX}")
    known = axis_names()
    if name not in known:
        raise InputError("axis", name, f"must be one of {', '.join(known)}")
    values = _range(name, points) if ":" in points else _list(name, points)
    return name, np.unique(np.rint(values)) if name in INTEGER_AXES and ":" in points else values


def axis_names() -> list[str]:
    """Return what may be varied: the numbers of a model, then those that some registered score declares."""
    declared = [
        name
        for score in score_types().values()
        for name, field in score.model_fields.items()
        if field.annotation in (float, int)
    ]
    return list(dict.fromkeys([*AXES, *declared]))


def _list(name: str, text: str) -> NDArray[np.float64]:
    return np.array([_number(name, word) for word in text.split(",")])


def _range(name: str, text: str) -> NDArray[np.float64]:
    parts = text.split(":")
    if len(parts) not in (3, 4):
        raise InputError(f"axis {name}", text, f"must be written {SYNTAX}")
    first, last = _number(name, parts[0]), _number(name, parts[1])
    spacing = parts[3] if len(parts) == 4 else "log"
    if spacing not in ("log", "lin"):
        raise InputError(f"axis {name}: spacing", spacing, "must be log or lin")
    count = _count(parts[2])
    if not 1 <= count <= LARGEST_COUNT:
        raise InputError(f"axis {name}: number of points", parts[2], f"must be an integer from 1 to {LARGEST_COUNT}")
    if first > last or (first == last and count > 1):
        raise InputError(f"axis {name}: range", f"{parts[0]}:{parts[1]}", "the first value must be below the last")
    if spacing == "lin":
        return np.linspace(first, last, count)
    if first <= 0:
        raise InputError(f"axis {name}: first value", first, "must be above 0 for geometric steps")
    return np.geomspace(first, last, count)


def _count(word: str) -> int:
    """Return a number of points, 0 for what isn't one."""
    try:
        return int(word) if word.strip().isdecimal() else 0
    except ValueError:  # thousands of digits
        return 0


def _number(name: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise InputError(f"axis {name}", word, f"is not a number; an axis is written {SYNTAX}") from None
    if not math.isfinite(number):
        raise InputError(f"axis {name}", number, "must be a finite number")
    return number
