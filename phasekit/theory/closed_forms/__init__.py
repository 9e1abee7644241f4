"""Closed forms of the thresholds, as they stand in papers: leading orders, and self-consistent forms of P*.

They are what the numeric thresholds are compared to; the formulas are emitted by ``derivations/``. Each belongs to a
threshold and to a score function.
"""

from __future__ import annotations

from phasekit.errors import InputError
from phasekit.model import Induction, Task
from phasekit.scores import Linear, Score, Softmax, Sparsemax, TemperatureSoftmax
from phasekit.theory.closed_forms import induction
from phasekit.theory.closed_forms.jump import ClosedForm, any_regime, softmax_jump
from phasekit.theory.closed_forms.laws import REGIMES, regime_laws
from phasekit.theory.closed_forms.linear import crossover, crossover_leading, onset, onset_large_L
from phasekit.theory.closed_forms.prices import OddsPrice, price_of

_LINEAR: dict[str, dict[str, ClosedForm]] = {
    "P1": {"exact": onset, "large_L": onset_large_L},
    "P2": {"exact": crossover, "leading": crossover_leading},
}

_INDUCTION: dict[str, dict[str, ClosedForm]] = {
    "P_star": {
        "both_layers": induction.both_layers,
        "first_layer": induction.first_layer,
        "leading": induction.leading,
    },
    "P_layer2": {"second_layer": induction.second_layer},
}


def closed_forms_of(quantity: str, score: Score, task: Task | None = None) -> dict[str, ClosedForm]:
    """Return the closed forms of a threshold of the map estimator by name; an empty mapping if none is known.

    Laws that hold in one regime only have NaN where their score's numbers exclude them.

    Raises
    ------
    InputError
        For an unknown threshold.
    """
    from phasekit.theory.transitions import THRESHOLDS  # which use a closed form themselves

    if quantity not in THRESHOLDS:
        raise InputError("threshold", quantity, f"must be one of {', '.join(THRESHOLDS)}")
    if isinstance(task, Induction):
        if task.weight:
            return {}
        first = task.first or score
        return _INDUCTION.get(quantity, {}) if isinstance(score, Softmax) and isinstance(first, Softmax) else {}
    if isinstance(score, Linear):
        return _LINEAR.get(quantity, {})
    laws = regime_laws(score)
    if isinstance(score, Sparsemax):
        return laws if quantity == "P_x" else {}
    price = price_of(score)
    if quantity != "P_star" or price is None:
        return {}
    form = any_regime(price)
    if isinstance(score, Softmax | TemperatureSoftmax):
        return {"self_consistent": softmax_jump, "any_regime": form, "L_ln2_L": laws["long_context"]}
    return {"any_regime": form, **laws}


__all__ = [
    "REGIMES",
    "ClosedForm",
    "OddsPrice",
    "any_regime",
    "closed_forms_of",
    "crossover",
    "crossover_leading",
    "onset",
    "onset_large_L",
    "price_of",
    "regime_laws",
    "softmax_jump",
]
