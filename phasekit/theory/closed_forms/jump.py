"""P* of normalised scores from self-consistent closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import score_laws, thresholds
from phasekit.theory.closed_forms.prices import OddsPrice, effective_sigma_g

#: A closed form: thresholds from numbers, elementwise, of their common shape.
ClosedForm = Callable[[Parameters], Array]

_STEPS = 300
_NODES = 800


def any_regime(price: OddsPrice) -> ClosedForm:
    """Return the closed form of P* that holds for every t and every score (``phasekit derive laws``).

    It neglects what the lower minimum gains: a relative order of 1/(L α²) for t ≪ L, 1/L for t ≫ L. NaN where it has no
    jump: without one, and next to an endpoint. There both minima are nearly the same, what the lower one gains is all
    there is, and the form's own jump has ended before (softmax, V = 8: at L = 25.3, that of the action at 13.7).
    """

    def form(p: Parameters) -> Array:
        shape = p.shape
        flat = p.ravel()
        logits = price.cheapest(_coordinate(price, flat), flat)
        return np.asarray(score_laws.jump_from_place(*logits, flat.V, flat.L, flat.sigma_w, flat.kappa)).reshape(shape)

    return form


def _coordinate(price: OddsPrice, p: Parameters) -> Array:
    """Return the coordinate of the upper minimum at P*: the last zero of the balance that is passed downwards."""
    nodes = price.end(p)[:, None] * np.linspace(0, 1, _NODES + 1)[1:]

    def balance(coordinate: Array, p: Parameters) -> Array:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            over, under, excess = score_laws.jump_balance(*price.cheapest(coordinate, p), p.V, p.L, p.sigma_w)
            bounded = excess / (over**2 + np.abs(over**2 - excess))
        # t = over/under is 0 beyond the last place of a jump, and ∞ before the first one.
        return np.where(over > 0, np.where(under > 0, bounded, 1.0), -1.0)

    values = balance(nodes, p.expand())
    falls = (values[:, :-1] > 0) & (values[:, 1:] <= 0)
    last = falls.shape[1] - 1 - falls[:, ::-1].argmax(axis=1)
    rows = np.arange(falls.shape[0])
    found = solve.root(balance, nodes[rows, last], nodes[rows, last + 1], p)
    return np.where(falls.any(axis=1), found, np.nan)


def softmax_jump(p: Parameters) -> Array:
    """Return P* of softmax attention from its self-consistent closed form (docs/theory.md, section 5).

    ``P* = κV/(V−1) · (L/σ_g²) · D³/(D−1)`` with ``D = ½ ln[L(1+L/t)(D−1)]`` and ``t = P*σ_w²/(κV)``, for copy weights
    that stay small (``t ≫ 1``). NaN where there is no fixed point D > 1 (short contexts, without a transition).
    """
    sigma_g = effective_sigma_g(p)
    D = 3.0 + 0.5 * np.log(p.L) + np.zeros(p.shape)
    P = p.kappa * p.V / (p.V - 1) * p.L / sigma_g**2 * D**2
    change = np.full(p.shape, np.inf)
    for _ in range(_STEPS):
        D = thresholds.log_update(D, p.replace(P=P).strength, p.L)
        D = np.where(D > 1, D, np.nan)  # the equations lose their meaning there, for good
        following = thresholds.jump_from_log(D, p.V, p.L, sigma_g, p.kappa)
        # The geometric mean of old and new P damps the oscillation that a bare iteration shows at large V.
        new = np.sqrt(P * np.where(np.isnan(D), P, following))
        change, P = np.where(np.isnan(D), np.inf, np.abs(new / P - 1)), new
    return np.where(change < 1e-12, P, np.nan)
