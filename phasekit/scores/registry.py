"""The registry of score functions by name."""

from __future__ import annotations

from typing import Any

from phasekit.describe import Registry, fields_in
from phasekit.scores.base import Score

SCORES: Registry[Score] = Registry("score", Score)

register = SCORES.register
names = SCORES.names
score_types = SCORES.types


def get_score(name: object, **parameters: Any) -> Score:
    """Build a score from its name and parameters, or from the mapping that ``Score.describe`` returns.

    A score of your own is known here once it is registered; by ``module:Class`` once its module is imported.

    Raises
    ------
    InputError
        For an unknown name, an unknown parameter, or a value out of range.
    """
    return SCORES.build(name, **parameters)


def parse_score(text: str) -> Score:
    """Read a score written as ``name`` or ``name:parameter=value:parameter=value`` (``ssa:n=2:b=1``).

    Instead of a name, ``module:Class`` imports a score of your own (``mine:Cubic:c=0.2``).

    Raises
    ------
    InputError
        If a parameter isn't written so or is given twice, and as :func:`get_score`.
    """
    name, *words = (word.strip() for word in text.split(":"))
    if words and "=" not in words[0]:
        name = f"{name}:{words.pop(0)}"
    parameters = fields_in("score", text, words)
    SCORES.import_named(name)
    return get_score(name, **parameters)
