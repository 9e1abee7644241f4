"""Linear attention: the crossover to copying P₂."""

from __future__ import annotations

import sympy as sp

from derivations.symbols import L, V, kappa, sigma_g, sigma_w


def leading() -> sp.Expr:
    """Return the leading form of P₂: where a copying pattern alone would become unstable, x K₁₁ = λ."""
    return kappa * V / (sigma_w * sigma_g) * sp.sqrt(L**2 * (L - 1) / (V - 1))
