"""The registry of score functions by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phasekit.describe import Registry, fields_in, in_line, split_outside
from phasekit.errors import InputError
from phasekit.scores.base import Score

SCORES: Registry[Score] = Registry("score", Score)

register = SCORES.register
names = SCORES.names
score_types = SCORES.types


def get_score(name: object, **parameters: Any) -> Score:
    """Build a score from its name and parameters, or from the mapping that ``Score.describe`` returns.

    A name may be written as on the command line, with its parameters: ``ssa:n=2:b=1`` (see :func:`parse_score`).
    A score of your own is known here once it is registered; by ``module:Class`` once its module is imported.

    Raises
    ------
    InputError
        For an unknown name, an unknown parameter, one that is given twice, or a value out of range.
    """
    if isinstance(name, str):
        name, parameters = _read(name, parameters)
    return SCORES.build(name, **parameters)


def parse_score(text: str, **parameters: Any) -> Score:
    """Read a score written as ``name`` or ``name:parameter=value:parameter=value`` (``ssa:n=2:b=1``).

    Instead of a name, ``module:Class`` imports a score of your own (``mine:Cubic:c=0.2``). A component of a mixture has
    its own parameters in brackets: ``mixture:scores=softmax+ssa(n=2,b=1):shares=0.3+0.7``.

    Parameters
    ----------
    text : str
    **parameters
        More of them, each given once only.

    Raises
    ------
    InputError
        If a parameter isn't written so or is given twice, and as :func:`get_score`.
    """
    name, _ = _read(text, {})
    SCORES.import_named(name)
    return get_score(text, **parameters)


def write_score(score: Score, *, without: Sequence[str] = ()) -> str:
    """Return a score as :func:`parse_score` reads it, all numbers in full, but for the parameters in ``without``."""
    return in_line(score.describe(), without)


def _read(text: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a written score, with those that are given beside it."""
    name, *words = split_outside(text, ":")
    if words and "=" not in words[0].partition("(")[0]:
        name = f"{name}:{words.pop(0)}"
    name, bracket, inside = name.partition("(")
    if bracket and not inside.endswith(")"):
        raise InputError("score", text, "a bracket isn't closed")
    words = [*(split_outside(inside[:-1], ",") if bracket else ()), *words]
    return name, fields_in("score", text, words, given)
