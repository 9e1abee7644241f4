"""A model in one line, in the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phasekit.checks import in_full
from phasekit.describe import in_line
from phasekit.model.model import Model

_LONGEST = 40  # characters of a setting: a token law may have a number for each token


def in_words(model: Model, estimator: str, *, varied: Sequence[str] = ()) -> str:
    """Return a model without what is ``varied``: "ssa:n=2:b=1, positional, map, V = 8, L = 64, sigma_w = 1, …"."""
    described = {field: value for field, value in model.describe().items() if field not in varied and value}
    score = in_line(described.pop("score"), without=varied)
    inputs = described.pop("inputs")
    settings = {field: in_line(told) for field, told in described.items() if isinstance(told, Mapping)}
    words = [f"{field} {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}…'}" for field, text in settings.items()]
    numbers = [f"{field} = {in_full(value)}" for field, value in described.items() if field not in settings]
    return ", ".join([score, *([] if "encoding" in settings else [inputs]), *words, estimator, *numbers])
