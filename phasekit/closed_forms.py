"""Closed forms of the thresholds, as they stand in papers: leading orders and the self-consistent P*.

They are what the numeric thresholds are compared to; the formulas are emitted by ``derivations/``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasekit import solve
from phasekit.action.base import Array
from phasekit.action.generated import thresholds
from phasekit.errors import InputError
from phasekit.model import Parameters

_STEPS = 300
_LOG_SPREAD = 60.0  # the spread R at the crossover is searched between e^-60 and e^60


def softmax_jump(p: Parameters) -> Array:
    """Return P* of softmax attention from its self-consistent closed form (docs/theory.md, section 5).

    ``P* = κV/(V−1) · (L/σ_g²) · D³/(D−1)`` with ``D = ½ ln[L(1+L/t)(D−1)]`` and ``t = P*σ_w²/(κV)``, for copy weights
    that stay small (``t ≫ 1``). NaN where there is no fixed point D > 1 (short contexts, without a transition).
    """

    return _fixed_point(
        lambda D, t: thresholds.log_update(D, t, p.L),
        lambda D, t: thresholds.jump_from_log(D, p.V, p.L, p.sigma_g, p.kappa),
        p,
        smallest=1.0,
    )


def softmax_jump_any_regime(p: Parameters) -> Array:
    """Return P* of softmax attention from the closed form that holds for every t (``phasekit derive jump``).

    NaN where the fixed-point iteration leaves D ≥ 2 or doesn't settle.
    """

    return _fixed_point(
        lambda D, t: thresholds.gap_update(D, t, p.L),
        lambda D, t: thresholds.jump_from_gap(D, t, p.V, p.L, p.sigma_g, p.kappa),
        p,
        smallest=2.0,
    )


def _fixed_point(
    next_D: Callable[[Array, Array], Array], P_of: Callable[[Array, Array], Array], p: Parameters, smallest: float
) -> Array:
    """Iterate D ← next_D(D, t), P ← P_of(D, t) with t = Pσ_w²/(κV); NaN where D falls to ``smallest`` or below."""
    D = 3.0 + 0.5 * np.log(p.L) + np.zeros(p.shape)
    P = p.kappa * p.V / (p.V - 1) * p.L / p.sigma_g**2 * D**2
    change = np.full(p.shape, np.inf)
    for _ in range(_STEPS):
        t = P * p.sigma_w**2 / (p.kappa * p.V)
        D = next_D(D, t)
        D = np.where(smallest < D, D, np.nan)  # the equations lose their meaning there, for good
        # The geometric mean of old and new P damps the oscillation that a bare iteration shows at large V.
        new = np.sqrt(P * np.where(np.isnan(D), P, P_of(D, t)))
        change, P = np.where(np.isnan(D), np.inf, np.abs(new / P - 1)), new
    return np.where(change < 1e-12, P, np.nan)


def onset(p: Parameters) -> Array:
    """Return P₁ of linear attention: the smaller root of the onset determinant (exact)."""
    return np.asarray(thresholds.onset(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa, p.pooling_cost))


def onset_large_L(p: Parameters) -> Array:
    """Return P₁ for L ≫ V: κV√λ/(σ_wσ_g)."""
    return np.asarray(thresholds.onset_large_L(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa, p.pooling_cost))


def crossover(p: Parameters) -> Array:
    """Return P₂ exactly (docs/theory.md, section 4); NaN where copying comes with the onset, and for L = 2.

    The root R of ``copying_balance`` is unique; that the branch it belongs to is the global one is not checked.
    """
    shape = p.shape

    def balance(log_R: Array, q: Parameters) -> Array:
        return np.asarray(thresholds.copying_balance(np.exp(log_R), q.V, q.L, q.pooling_cost))

    usable = np.broadcast_to(p.L > 2, shape)
    q = p.replace(L=np.where(usable, p.L, 3.0))
    log_R = solve.root(balance, np.full(shape, -_LOG_SPREAD), np.full(shape, _LOG_SPREAD), q)
    P2 = thresholds.copying_from_spread(np.exp(log_R), q.V, q.L, q.sigma_w, q.sigma_g, q.kappa)
    return np.where(usable, P2, np.nan)


def crossover_leading(p: Parameters) -> Array:
    """Return the leading form of P₂: κLV√((L−1)/(V−1))/(σ_wσ_g)."""
    return np.asarray(thresholds.copying_leading(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa))


def log_squared(p: Parameters) -> Array:
    """Return the asymptotic form of P* at fixed V: κV/(4(V−1)σ_g²) · L ln²L."""
    return np.asarray(p.kappa * p.V / (4 * (p.V - 1) * p.sigma_g**2) * p.L * np.log(p.L) ** 2)


#: The closed forms of each threshold, by name of the column.
CLOSED_FORMS: dict[str, dict[str, Callable[[Parameters], Array]]] = {
    "P1": {"exact": onset, "large_L": onset_large_L},
    "P2": {"exact": crossover, "leading": crossover_leading},
    "P_star": {"self_consistent": softmax_jump, "any_regime": softmax_jump_any_regime, "L_ln2_L": log_squared},
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
