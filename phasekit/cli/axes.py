"""How a grid's axis is written on the command line: a name, and values as in sweeps (``L=16..1024 in 60``).

V and L are rounded to integers in ranges, and points that coincide are merged. Numbers of score functions
(``n=1..4 in 20 even`` for SSA) are axes like those of the model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import AXES, INTEGER_AXES
from phasekit.runs.sweeps.axes import SYNTAX as VALUES
from phasekit.runs.sweeps.axes import parse_values
from phasekit.scores.registry import score_types

SYNTAX = f"NAME=VALUES, values written {VALUES}"


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
    parsed = parse_values(f"axis {name}", points)
    if parsed.thresholds:
        raise InputError(f"axis {name}", points, "multiples of a threshold belong into a sweep's file")
    values = np.array(parsed.resolve(float))
    return name, np.unique(np.rint(values)) if _rounded(name, points) else values


def remarks_on(*texts: str) -> list[str]:
    """Return a line for each axis that has fewer points than its text asks for, because integers coincide."""
    remarks = []
    for text in texts:
        name, points = parse_axis(text)
        _, _, written = text.partition("=")
        asked = len(parse_values(f"axis {name}", written)) if _rounded(name, written) else points.size
        if points.size < asked:
            remarks.append(f"note: {text} asks for {asked} values, of which {points.size} differ as whole numbers")
    return remarks


def _rounded(name: str, points: str) -> bool:
    """Whether values are rounded: V and L in a range, not in a list."""
    return name in INTEGER_AXES and (".." in points or ":" in points)


def axis_names() -> list[str]:
    """Return what may be varied: the numbers of a model, then those that some registered score declares."""
    declared = [
        name
        for score in score_types().values()
        for name, field in score.model_fields.items()
        if field.annotation in (float, int)
    ]
    return list(dict.fromkeys([*AXES, *declared]))
