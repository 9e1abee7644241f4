"""Linear attention: onset of pooling P₁ and crossover to copying P₂, exactly and to leading order."""

from __future__ import annotations

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import thresholds
from phasekit.theory.closed_forms.emitted import evaluate

_LOG_SPREAD = 60.0  # the spread R at the crossover is searched between e^-60 and e^60


def onset(p: Parameters) -> Array:
    """Return P₁ of linear attention: the smaller root of the onset determinant (exact)."""
    return evaluate(thresholds.onset, p)


def onset_large_L(p: Parameters) -> Array:
    """Return P₁ for L ≫ V: κV√λ/(σ_wσ_g)."""
    return evaluate(thresholds.onset_large_L, p)


def crossover(p: Parameters) -> Array:
    """Return P₂ exactly (docs/theory.md, section 4); NaN where copying comes with the onset, and for L = 2.

    The root R of ``copying_balance`` is unique; that the branch it belongs to is the global one is not checked.
    """
    shape = p.shape

    def balance(log_R: Array, q: Parameters) -> Array:
        return evaluate(thresholds.copying_balance, q, R=np.exp(log_R))

    usable = np.broadcast_to(p.L > 2, shape)
    q = p.replace(L=np.where(usable, p.L, 3.0))
    log_R = solve.root(balance, np.full(shape, -_LOG_SPREAD), np.full(shape, _LOG_SPREAD), q)
    P2 = evaluate(thresholds.copying_from_spread, q, R=np.exp(log_R))
    return np.where(usable, P2, np.nan)


def crossover_leading(p: Parameters) -> Array:
    """Return the leading form of P₂: κLV√((L−1)/(V−1))/(σ_wσ_g)."""
    return evaluate(thresholds.copying_leading, p)
