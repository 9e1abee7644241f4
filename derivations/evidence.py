"""Integrate the readout W out, or minimise over it: the data part Φ of the effective action."""

from __future__ import annotations

import sympy as sp

from derivations.symbols import P, V, g, kappa, q, s, s2, sigma_w, t

#: A mode of W, and the second moments that it meets.
w, source, curvature = sp.symbols("w m C", real=True)


def mode_energy() -> sp.Expr:
    """Energy of one mode of W.

    The summed squared error is P L times its expectation, so 1/(2κL) Σ‖y − Wᵀφ‖² becomes
    P/(2κ) [E|y|² − 2 tr(Wᵀ E[φyᵀ]) + tr(Wᵀ E[φφᵀ] W)]. In the eigenbasis of Π this decouples into V² modes;
    a mode with curvature C/V = the eigenvalue of E[φφᵀ] and source m/V = that of E[φyᵀ] has this energy.
    """
    return P / (2 * kappa * V) * (curvature * w**2 - 2 * source * w) + w**2 / (2 * sigma_w**2)


def best_mode() -> sp.Expr:
    """Minimise the energy of a mode: w = t m/(1 + t C)."""
    (minimum,) = sp.solve(sp.diff(mode_energy(), w), w)
    return sp.factor(minimum.subs(P, t * kappa * V / sigma_w**2))


def mode_minimum() -> sp.Expr:
    """Energy of a mode at its minimum: −P/(2κV) t m²/(1 + t C)."""
    energy = mode_energy().subs(w, best_mode().subs(t, P * sigma_w**2 / (kappa * V)))
    return P / (2 * kappa * V) * sp.factor(sp.simplify(energy * 2 * kappa * V / P).subs(P, t * kappa * V / sigma_w**2))


def data_action(s: sp.Expr = s, s2: sp.Expr = s2, g: sp.Expr = g, q: sp.Expr = q) -> sp.Expr:
    """Φ of the joint minimum over W and G (δ_post = 0), in terms of the four averages."""
    constant = (1 + mode_minimum() * 2 * kappa * V / P).subs({source: s, curvature: s2})
    bulk = (1 + mode_minimum() * 2 * kappa * V / P).subs({source: g, curvature: q})
    return P / (2 * kappa * V) * (constant + (V - 1) * bulk)


def loss(s: sp.Expr = s, s2: sp.Expr = s2, g: sp.Expr = g, q: sp.Expr = q) -> sp.Expr:
    """Loss per position at the best W: the bracket of the energy without the prior of W."""

    def share(overlap: sp.Expr, norm: sp.Expr) -> sp.Expr:
        amplitude = best_mode().subs({source: overlap, curvature: norm})
        return 1 - 2 * amplitude * overlap + amplitude**2 * norm

    return (share(s, s2) + (V - 1) * share(g, q)) / V
