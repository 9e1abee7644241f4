"""When an induction head's layers form, in closed forms for t ≫ 1 (``phasekit derive induction``)."""

from __future__ import annotations

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import induction_map

_ROUNDS, _SETTLED = 500, 1e-12


def first_layer(p: Parameters) -> Array:
    """Return P₁, where layer 1 forms by itself: exact for V ≫ L⁵; infinite for V = L."""
    L = p.L + np.zeros(p.shape)

    def excess(gap: Array) -> tuple[Array, Array]:
        return gap - np.log1p(L * gap / -np.expm1(-gap) - L), np.ones(gap.shape)

    low = np.full(L.shape, 1e-3)
    gap = solve.newton(excess, low, 2 * np.log(L) + 10, np.log(L) + 2)
    with np.errstate(divide="ignore"):
        share = induction_map.route(gap, L)[0]
        return np.asarray(induction_map.small_match(share / gap, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa))


def both_layers(p: Parameters) -> Array:
    """Return P* where both layers form together, self-consistently (t ≫ 1); NaN without a fixed point."""
    return _jump(p, joint=True)


def second_layer(p: Parameters) -> Array:
    """Return the P at which layer 2 jumps if layer 1 has formed before: the same without the price of layer 1."""
    return _jump(p, joint=False)


def leading(p: Parameters) -> Array:
    """Return κ [V ln²L + L ln²(V ln L)]/σ_g², the leading order for V ≪ L⁵."""
    log = np.log(p.L)
    return np.asarray(p.kappa / p.sigma_g**2 * (p.V * log**2 + p.L * np.log(p.V * log) ** 2))


def _jump(p: Parameters, joint: bool) -> Array:
    D, P = np.log(p.L) + np.zeros(p.shape), np.zeros(p.shape)
    gap, ratio, change = D + 2, D + 1, np.full(p.shape, np.inf)
    P = 2 * p.kappa * (p.V + p.L) * ratio**2 / p.sigma_g**2
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(_ROUNDS):
            gap = (gap + np.log((p.V - 1) * p.L * D**2 / ((p.L - 1) * gap))) / 2
            extra = (p.L - 1) * (gap**2 + 2 * gap) * joint
            ratio = D + extra / ((p.V - 1) * D)
            a, b, c = induction_map.odds_balance(ratio - 1, p.replace(P=P).strength, p.V, p.L)
            D = (D + np.log((b + np.sqrt(b**2 - a * c)) / -c)) / 2
            following = induction_map.joint_jump(D, extra, p.V, p.sigma_g, p.kappa)
            change, P = np.abs(following / P - 1), np.sqrt(following * P)
            if not (change > _SETTLED).any():
                break
    return np.where(change < 1e-9, P, np.nan)
