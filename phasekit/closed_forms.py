"""Closed forms of the thresholds, as they stand in papers: leading orders and the self-consistent P*.

They are what the numeric thresholds are compared to; the formulas are emitted by ``derivations/``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasekit.action.base import Array
from phasekit.action.generated import thresholds
from phasekit.errors import InputError
from phasekit.model import Parameters

_STEPS = 200


def softmax_jump(p: Parameters) -> Array:
    """Return P* of softmax attention from its self-consistent closed form (docs/theory.md, section 5).

    ``P* = κV/(V−1) · (L/σ_g²) · D³/(D−1)`` with ``D = ½ ln[L(1+L/t)(D−1)]`` and ``t = P*σ_w²/(κV)``, iterated to a
    fixed point. NaN where the iteration leaves D > 1 (short contexts, without a transition) or doesn't settle.
    """
    shape = p.shape
    D = np.full(shape, 2.0) + 0.5 * np.log(p.L)
    P = thresholds.jump_from_log(D, p.V, p.L, p.sigma_g, p.kappa)
    change = np.full(shape, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(_STEPS):
            D = thresholds.log_update(D, P * p.sigma_w**2 / (p.kappa * p.V), p.L)
            D = np.where(D > 1, D, np.nan)
            new = thresholds.jump_from_log(D, p.V, p.L, p.sigma_g, p.kappa)
            change, P = np.abs(new / P - 1), new
    return np.where(change < 1e-12, P, np.nan)


def onset(p: Parameters) -> Array:
    """Return P₁ of linear attention: the smaller root of the onset determinant (exact)."""
    return np.asarray(thresholds.onset(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa, p.pooling_cost))


def onset_large_L(p: Parameters) -> Array:
    """Return P₁ for L ≫ V: κV√λ/(σ_wσ_g)."""
    return np.asarray(thresholds.onset_large_L(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa, p.pooling_cost))


def crossover(p: Parameters) -> Array:
    """Return the leading form of P₂: κLV√((L−1)/(V−1))/(σ_wσ_g)."""
    return np.asarray(thresholds.copying_leading(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa))


def log_squared(p: Parameters) -> Array:
    """Return the asymptotic form of P* at fixed V: κV/(4(V−1)σ_g²) · L ln²L."""
    return np.asarray(p.kappa * p.V / (4 * (p.V - 1) * p.sigma_g**2) * p.L * np.log(p.L) ** 2)


#: The closed forms of each threshold, by name of the column.
CLOSED_FORMS: dict[str, dict[str, Callable[[Parameters], Array]]] = {
    "P1": {"exact_root": onset, "large_L": onset_large_L},
    "P2": {"leading": crossover},
    "P_star": {"self_consistent": softmax_jump, "L_ln2_L": log_squared},
}


def closed_forms_of(quantity: str) -> dict[str, Callable[[Parameters], Array]]:
    """Return the closed forms of a threshold by name.

    Raises
    ------
    InputError
        If it isn't one of P1, P2, P_star.
    """
    if quantity not in CLOSED_FORMS:
        raise InputError("threshold", quantity, f"must be one of {', '.join(CLOSED_FORMS)}")
    return CLOSED_FORMS[quantity]
