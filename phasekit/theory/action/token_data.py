"""The data part over log odds for tokens of any law: Φ = P/(2κ) (1 − T), T from sums over the vocabulary.

What a normalised row map does to tokens is in two averages, g and q (``phasekit derive tokens``). Derivatives beyond
the emitted ones are complex steps, exact to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.descent import STEP, Numbers
from phasekit.theory.action.generated import token_law as generated

#: (m, n) of the sums Σ_a π_a^m/(q π_a + λ)^n that the emitted formula takes.
_ORDERS = ((2, 1), (3, 1), (3, 2), (4, 2), (5, 3))
#: Numbers handled at a time.
_CHUNK = 2**20


class Row(NamedTuple):
    """g and q of a row whose copy entry has log odds δ, with their first two derivatives."""

    g: tuple[Numbers, Array, Array]
    q: tuple[Numbers, Array, Array]


def row_averages(delta: Array, p: Parameters) -> Row:
    """Return g and q as tokens see them: without replacement, a row that attends evenly knows more than chance."""
    with np.errstate(over="ignore"):  # odds beyond float64: one of the two weights is 0
        alpha = 1 / (1 + (p.L - 1) * np.exp(-delta))
        rest = 1 / (1 + np.exp(delta) / (p.L - 1))
    apart = p.setting.tokens.separation(p.V)
    slope = alpha * rest
    bend = slope * (rest - alpha)
    tilt = 2 * (alpha - rest / (p.L - 1))
    widening = 2 + 2 / (p.L - 1)
    lost = rest * (1 + alpha - rest / (p.L - 1))  # 1 − q without a difference of squares
    return Row(
        (1 - apart * rest, apart * slope, apart * bend),
        (1 - apart * lost, apart * tilt * slope, apart * (tilt * bend + widening * slope**2)),
    )


def jet(delta: Array, p: Parameters) -> tuple[Array, Array, Array]:
    """Return (Φ, dΦ/dδ, d²Φ/dδ²)."""
    (g, g1, g2), (q, q1, q2) = row_averages(delta, p)
    ridge = p.kappa / (p.P * p.sigma_w**2)
    T, T_g, T_q = _evidence(g, q, ridge, p)
    # along the direction (g', q') the gradient changes by the second derivatives that are asked for
    _, turn_g, turn_q = (part.imag / STEP for part in _evidence(g + 1j * STEP * g1, q + 1j * STEP * q1, ridge, p))
    weight = p.P / (2 * p.kappa)
    bend = turn_g * g1 + turn_q * q1 + T_g * g2 + T_q * q2
    return weight * (1 - T), -weight * (T_g * g1 + T_q * q1), -weight * bend


def force(delta: Array, t: Array, p: Parameters) -> tuple[Array, Array]:
    """Return (force, d ln force/d ln t): the force −dΦ/dδ of data of strength t = Pσ_w²/(κV)."""
    (g, g1, _), (q, q1, _) = row_averages(delta, p)
    ridge = 1 / (t * p.V)
    _, T_g, T_q = _evidence(g, q, ridge * (1 + 1j * STEP), p)
    pull = T_g * g1 + T_q * q1
    with np.errstate(divide="ignore", invalid="ignore"):  # there is no pull where L different tokens are all there are
        steepness = 1 - pull.imag / STEP / pull.real
    return t * p.V / (2 * p.sigma_w**2) * pull.real, steepness


def loss(delta: Array, p: Parameters) -> Array:
    """Return the training loss per sequence, 2 ∂Φ/∂(P/κ) at fixed averages: 1 − T + λ ∂T/∂λ."""
    (g, *_), (q, *_) = row_averages(delta, p)
    T, _, _ = _evidence(g, q, p.kappa / (p.P * p.sigma_w**2) * (1 + 1j * STEP), p)
    return np.asarray(1 - T.real + T.imag / STEP)


def _evidence(g: Numbers, q: Numbers, ridge: Numbers, p: Parameters) -> tuple[Numbers, Numbers, Numbers]:
    """Return T and its derivatives in g and q, models with the same vocabulary together."""
    g, q, ridge, V = np.broadcast_arrays(g, q, ridge, p.V)
    parts = np.empty((3, *g.shape), dtype=np.result_type(g, q, ridge))
    for size in np.unique(V[~np.isnan(V)]):
        here = size == V
        frequency, count = p.setting.tokens.levels(round(float(size)))
        sums = _sums(q[here], ridge[here], frequency, count)
        parts[:, here] = generated.evidence(g[here], q[here], count @ frequency**2, *sums)
    parts[:, np.isnan(V)] = np.nan
    return parts[0], parts[1], parts[2]


def _sums(q: Numbers, ridge: Numbers, frequency: Array, count: Array) -> list[NDArray[Any]]:
    """Return the sums of :data:`_ORDERS`, a chunk of the vocabulary at a time."""
    totals = [np.zeros_like(q * ridge) for _ in _ORDERS]
    step = max(1, _CHUNK // max(1, q.size))
    for first in range(0, frequency.size, step):
        f, weight = frequency[first : first + step], count[first : first + step]
        inverse = 1 / (q[:, None] * f + ridge[:, None])
        powers = {1: inverse, 2: inverse**2, 3: inverse**3}
        for total, (m, n) in zip(totals, _ORDERS, strict=True):
            total += powers[n] @ (weight * f**m)
    return totals
