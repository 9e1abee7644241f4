"""The registry of score functions by name."""

from collections.abc import Mapping
from typing import Any

from phasekit.errors import InputError
from phasekit.scores.base import Score

_SCORES: dict[str, type[Score]] = {}


def register(score: type[Score]) -> type[Score]:
    """Make a score known by its name; usable as a decorator.

    Raises
    ------
    InputError
        If another class has that name.
    """
    if _SCORES.setdefault(score.name, score) is not score:
        raise InputError("score", score.name, "is registered already")
    return score


def names() -> list[str]:
    """Return the names of all registered scores, sorted."""
    return sorted(_SCORES)


def score_types() -> dict[str, type[Score]]:
    """Return all registered score classes by name, sorted."""
    return {name: _SCORES[name] for name in names()}


def get_score(name: object, **parameters: Any) -> Score:
    """Build a score from its name and parameters, or from the mapping that ``Score.describe`` returns.

    Raises
    ------
    InputError
        For an unknown name, an unknown parameter, or a value out of range.
    """
    if isinstance(name, Mapping):
        mapping = dict(name)
        return get_score(mapping.pop("name", None), **mapping, **parameters)
    if not isinstance(name, str) or name not in _SCORES:
        raise InputError("score", name, f"unknown; choose from {', '.join(names())}")
    return _SCORES[name](**parameters)


def parse_score(text: str) -> Score:
    """Read a score written as ``name`` or ``name:parameter=value:parameter=value`` (``ssa:n=2:b=1``).

    Raises
    ------
    InputError
        If a parameter isn't written so or is given twice, and as :func:`get_score`.
    """
    name, *words = (word.strip() for word in text.split(":"))
    parameters = {}
    for word in words:
        parameter, equals, value = word.partition("=")
        if not equals:
            raise InputError("score", text, "must be written name or name:parameter=value:parameter=value")
        if parameter.strip() in parameters:
            raise InputError("score", text, f"gives {parameter.strip()} twice")
        parameters[parameter.strip()] = value.strip()
    return get_score(name, **parameters)
