"""What theory says the thresholds of models are, remembered: posterior ones take seconds each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from phasekit.errors import InputError
from phasekit.files import atomic
from phasekit.model import Estimator, Model
from phasekit.runs.sweeps.axes import THRESHOLDS

if TYPE_CHECKING:
    from phasekit.theory.transitions import Transitions

#: A model without P, as JSON, and the name of a threshold.
_Key = tuple[str, str]


class Thresholds:
    """The thresholds that sweeps are written in multiples of.

    A store and an archive keep theirs, so that the sweep means the same tasks whenever it is expanded, however the
    theory's numbers may move in their last digits.
    """

    def __init__(self, known: Mapping[_Key, float | None] | None = None) -> None:
        self._known = dict(known or {})

    def __len__(self) -> int:
        return len(self._known)

    def find(self, model: Model, words: str) -> tuple[str, float]:
        """Return a threshold that theory predicts for a model without P: its name, and the P.

        The theory is that of the map estimator, or of the posterior for names like "posterior P1". Of several names
        joined by "or" (P1, P2, P_star, P_x), the first one counts that the model has.

        Raises
        ------
        InputError
            If the model has no such transition.
        """
        for name in words.split(" or "):
            if (P := self._value(model, name)) is not None:
                return name, P
        prefix = "posterior " if words.startswith("posterior ") else ""
        others = [prefix + name for name in THRESHOLDS if prefix + name not in words.split(" or ")]
        there = next((name for name in others if self._value(model, name) is not None), None)
        offer = "" if there is None else f'; it has {there}: write "{words} or {there}"'
        model_in_words = f"{model.score.name} attention with V = {model.V}, L = {model.L}"
        raise InputError("axes.P", words, f"{model_in_words} has none{offer}")

    def _value(self, model: Model, name: str) -> float | None:
        key = json.dumps(model.describe(), sort_keys=True), name
        if key not in self._known:
            self._known[key] = _computed(model, name)
        return self._known[key]

    def add(self, others: Thresholds) -> None:
        """Take over what others know and these don't."""
        self._known = {**others._known, **self._known}

    def to_json(self) -> str:
        """Return all as JSON; :meth:`from_json` takes it back."""
        return json.dumps([[*key, value] for key, value in sorted(self._known.items())])

    @classmethod
    def from_json(cls, text: str | bytes) -> Thresholds:
        """Return the thresholds that :meth:`to_json` wrote; none if the text is something else."""
        try:
            return cls({(str(model), str(name)): value for model, name, value in json.loads(text)})
        except (ValueError, TypeError):
            return cls()

    @classmethod
    def read(cls, path: Path) -> Thresholds:
        """Return the thresholds in a file; none if it isn't there, or is something else."""
        try:
            return cls.from_json(path.read_bytes())
        except OSError:
            return cls()

    def write(self, path: Path) -> None:
        """Write them to a file, if it doesn't hold them."""
        if self._known != Thresholds.read(path)._known or not path.exists():
            with atomic(path) as temporary:
                temporary.write_text(self.to_json(), encoding="utf-8")


def _computed(model: Model, name: str) -> float | None:
    """Return what theory says now."""
    words, _, bare = name.rpartition(" ")
    return _transitions(model, "posterior" if words else "map").threshold(bare)


@cache
def _transitions(model: Model, estimator: Estimator) -> Transitions:
    from phasekit.theory.transitions import find_transitions

    return find_transitions(model, estimator)
