"""What the theory says about the models of a store: columns to stand beside what networks measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Estimator, Model


def theory_rows(models: Sequence[Model], estimator: Estimator) -> list[dict[str, Any]]:
    """Return one dictionary of numbers a model: its global minimum, and the thresholds of its kind.

    ``theory_U``, ``theory_loss`` and the order parameters (``theory_aG`` …) belong to the global minimum,
    ``theory_minima`` counts the minima; ``theory_P1``, ``theory_P2``, ``theory_P_star``, ``theory_P_x`` are the
    thresholds that exist. A score without theory gives empty dictionaries, and a failed search ``theory_failed``.
    """
    rows: dict[Model, dict[str, Any]] = {}
    kinds: dict[Model, list[Model]] = {}
    for model in dict.fromkeys(models):
        kinds.setdefault(model.at(P=None), []).append(model)
    for kind, members in kinds.items():
        try:
            found = _kind(kind, members, estimator)
        except InputError:
            found = [{} for _ in members]
        except ArithmeticError:
            found = [{"theory_failed": True} for _ in members]
        rows.update(zip(members, found, strict=True))
    return [rows[model] for model in models]


def _kind(kind: Model, members: Sequence[Model], estimator: Estimator) -> list[dict[str, Any]]:
    """Return the rows of models that differ in P only."""
    from phasekit.theory.minima import find_minima
    from phasekit.theory.transitions import find_transitions

    minima = find_minima(kind.grid(P=[float(model.P or 0) for model in members]), estimator)
    shared = {f"theory_{passage.name}": passage.P for passage in find_transitions(kind, estimator).passages}
    columns = {"U": minima.action, "loss": minima.loss, **minima.order_parameters, "g": minima.averages["g"]}
    columns["q"] = minima.averages["q"]
    return [
        {
            **{f"theory_{name}": float(np.asarray(values)[k, 0]) for name, values in columns.items()},
            "theory_minima": int(minima.count[k]),
            **shared,
        }
        for k in range(len(members))
    ]
