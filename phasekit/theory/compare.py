"""Which score learns to copy with the least data, and which without a jump?

Thresholds of different kinds of transition (the jump P*, the steepest point of a crossover) aren't the same thing. What
all scores share is the loss of the global minimum, so the data that a score needs are counted by ``P_half``: the
smallest P at which that loss has fallen to 1/2 (it is 1 without any pattern).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from phasekit.checks import distinct
from phasekit.model import RANGES, Estimator, Model
from phasekit.scores import Score, write_score
from phasekit.theory.action.base import Array
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

#: What is compared if nothing is named; SSA as published, and with tails that make it jump at moderate lengths.
DEFAULT_SCORES = (
    "linear",
    "softmax",
    "temperature:T=2",
    "ssa:n=1.5:b=0.8",
    "ssa:n=2:b=1",
    "ssa:n=4:b=1",
    "entmax:alpha=1.5",
    "sparsemax",
)
_POINTS, _ROUNDS = 64, 3
_RANGE = (1e-3, 1e3)  # multiples of the transition that are searched for P_half


def compare_scores(model: Model, scores: Sequence[Score], estimator: Estimator = "map") -> pd.DataFrame:
    """Compare scores on one task.

    Parameters
    ----------
    model : Model
        Everything but the score. If it has a P, the state there is reported too.
    scores : sequence of Score
        At least one, each once.
    estimator : "map" or "posterior"

    Returns
    -------
    DataFrame, one row per score, least data first
        ``score`` (in words), ``order`` (first, second, crossover or none), ``P`` (the threshold of the first passage:
        P*, P₁, P₂ or P_x), ``P_half``, ``loss_before`` and ``loss_after`` and ``copy_before``, ``copy_after`` of a jump
        (NaN without one); with P also ``loss`` and ``copy`` (aG or cG) there.

    Raises
    ------
    InputError
        If no score is given, one is given twice, or there is no theory for one of them.
    """
    distinct("scores", [write_score(score) for score in scores])
    rows = [_row(model.at(score=score), estimator) for score in scores]
    return pd.DataFrame(rows).sort_values("P_half", ignore_index=True)


def _row(model: Model, estimator: Estimator) -> dict[str, Any]:
    found = find_transitions(model, estimator)
    first = found.passages[0] if found.passages else None
    threshold = np.nan if first is None else first.P
    jump = first.jump if first is not None and first.kind == "jump" else {}
    before, after = jump.get("loss", (np.nan, np.nan))
    copy_before, copy_after = list(jump.values())[1] if jump else (np.nan, np.nan)
    return {
        "score": write_score(model.score),
        "order": found.order,
        "P": threshold,
        "P_half": _halved(model, threshold, estimator),
        "loss_before": before,
        "loss_after": after,
        "copy_before": copy_before,
        "copy_after": copy_after,
        **({} if model.P is None else _state(model, estimator)),
    }


def loss_curve(model: Model, P: Array, estimator: Estimator = "map") -> Array:
    """Return the loss of the global minimum at each P."""
    return np.asarray(find_minima(model.at(P=None).grid(P=P), estimator).loss[..., 0])


def _state(model: Model, estimator: Estimator) -> dict[str, float]:
    minima = find_minima(model, estimator)
    copying = list(minima.order_parameters.values())[1]
    return {"loss": float(minima.loss[0]), "copy": float(copying[0])}


def _halved(model: Model, threshold: float, estimator: Estimator) -> float:
    """Return the smallest P at which the loss of the global minimum is 1/2 or less, to a relative 1e-4 or better."""
    centre = threshold if np.isfinite(threshold) else model.kappa * np.sqrt(model.V * model.L)
    low, high = np.clip(centre * np.array(_RANGE), *RANGES["P"])
    if low == high:
        return np.nan
    P = np.geomspace(low, high, _POINTS)
    for _ in range(_ROUNDS):
        reached = loss_curve(model, P, estimator) <= 0.5
        first = int(reached.argmax())
        if not reached.any() or first == 0:
            return np.nan
        P = np.geomspace(P[first - 1], P[first], _POINTS)
    return float(P[-1])
