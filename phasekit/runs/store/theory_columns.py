"""What the theory says about the models of a store: columns to stand beside what networks measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Estimator, Induction, Model

if TYPE_CHECKING:
    from phasekit.theory.minima import Minima

#: Relative change of the inverse temperature that ⟨U⟩ is differentiated with.
_STEP = 1e-4


def theory_rows(models: Sequence[Model], estimator: Estimator) -> list[dict[str, Any]]:
    """Return one dictionary of numbers a model: its global minimum, and the thresholds of its kind.

    ``theory_action``, ``theory_loss`` and the order parameters (``theory_aG`` …) belong to the global minimum;
    ``theory_U`` is the energy that networks should have there: the action itself for the map estimator, the mean energy
    ⟨U⟩ over the posterior at temperature 1 for the posterior. Induction heads answer one question a sequence, so finite
    data count: ``theory_U_drawn`` has the readout's part of that, and ``theory_U_least`` a lower bound of all of it.
    ``theory_minima`` counts the minima; ``theory_P1``, ``theory_P2``, ``theory_P_star``, ``theory_P_x`` are the
    thresholds that exist. Numbers of a minimum that didn't
    converge are NaN. A model without theory gives an empty dictionary, and a failed search ``theory_failed``.
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

    P = [float(model.P or 0) for model in members]
    minima = find_minima(kind.grid(P=P), estimator)
    shared = {f"theory_{passage.name}": passage.P for passage in find_transitions(kind, estimator).passages}
    columns = {"action": minima.action, "loss": minima.loss, **minima.order_parameters, "g": minima.averages["g"]}
    columns["q"] = minima.averages["q"]
    numbers = {name: np.where(minima.converged[:, 0], values[:, 0], np.nan) for name, values in columns.items()}
    numbers["U"] = numbers["action"] if estimator == "map" else mean_energy(kind, P, minima)
    if isinstance(kind.task, Induction):
        from phasekit.theory.corrections.questions import questions_correction

        readout, rest = (part[:, 0] for part in questions_correction(minima))
        numbers["U_drawn"], numbers["U_least"] = numbers["U"] + readout, numbers["U"] + readout + rest
    return [
        {
            **{f"theory_{name}": float(values[k]) for name, values in numbers.items()},
            "theory_minima": int(minima.count[k]),
            **shared,
        }
        for k in range(len(members))
    ]


def mean_energy(kind: Model, P: Sequence[float], minima: Minima) -> NDArray[np.float64]:
    """Return ⟨U⟩ over the posterior in the well of each global minimum, shape (values of P,); NaN if it isn't found.

    At inverse temperature β the action is S(β) = -ln ∫ exp(-βU) + (N/2) ln β up to a constant (the priors are
    normalised), with N the number of weights. So ⟨U⟩ = S'(1) + N/2. βU is the energy of the model with κ/β, σ_w²/β and
    σ_g²/β.
    """
    from phasekit.theory.minima import find_minima

    def action_at(beta: float) -> NDArray[np.float64]:
        scaled = {name: getattr(kind, name) / np.sqrt(beta) for name in ("sigma_w", "sigma_g")}
        found = find_minima(kind.at(kappa=kind.kappa / beta, **scaled).grid(P=P), "posterior")
        distance = np.where(found.converged, abs(found.copying_share - minima.copying_share[:, :1]), np.inf)
        same = np.argmin(distance, axis=1)[:, None]  # near a jump another well may be the lowest at this temperature
        action = np.take_along_axis(found.action, same, axis=1)[:, 0]
        return np.where(np.isfinite(np.take_along_axis(distance, same, axis=1)[:, 0]), action, np.nan)

    inputs = kind.L if kind.inputs == "positional" else kind.V + kind.L
    slope = (action_at(1 + _STEP) - action_at(1 - _STEP)) / (2 * _STEP)
    return np.where(minima.converged[:, 0], slope + (kind.V**2 + inputs**2) / 2, np.nan)
