"""Softmax attention: where the two minima have the same action, in closed self-consistent form."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derivations.symbols import D, L, V, gap, kappa, sigma_g, t

#: Gain parameter y = α²/(1/L + 1/t) of the upper minimum.
y = sp.Symbol("y", positive=True)


def gain_parameter() -> sp.Expr:
    """Return y(Δ) for L ≫ 1 and α ≪ 1: α = e^Δ/L, q = α² + 1/L, so y = e^(2Δ)/(L (1 + L/t))."""
    return sp.exp(2 * gap) / (L * (1 + L / t))


@cache
def conditions() -> tuple[sp.Eq, sp.Eq]:
    """Return equal action and stationarity at the upper minimum, with p = P(V−1)/(κV) as the data's weight.

    The data part falls by (p/2) y/(1 + y) from the lower minimum (y ≈ 0, Δ ≈ 0) to the upper one, the prior costs
    L Δ²/(2σ_g²); dy/dΔ = 2y.
    """
    p = sp.Symbol("p", positive=True)
    gain = p / 2 * y / (1 + y)
    cost = L * D**2 / (2 * sigma_g**2)
    return sp.Eq(gain, cost), sp.Eq(2 * y * sp.diff(gain, y), sp.diff(cost, D))


@cache
def solution() -> tuple[sp.Expr, sp.Expr]:
    """Solve both conditions for y and the data's weight p, as functions of D."""
    p = sp.Symbol("p", positive=True)
    ((found_y, found_p),) = sp.solve(conditions(), (y, p), dict=False)
    return found_y, sp.factor(found_p)


def jump_from_log() -> sp.Expr:
    """Return P* as a function of D."""
    return kappa * V / (V - 1) * solution()[1]


def log_update() -> sp.Expr:
    """Return the right-hand side of D = ½ ln[L (1 + L/t)(D − 1)], from y = D − 1."""
    (logarithm,) = sp.solve(sp.Eq(gain_parameter(), solution()[0]), gap)
    return sp.expand_log(logarithm, force=False)
