"""Linear attention: the map action over (c1, cG)."""

from __future__ import annotations

import sympy as sp

from derivations.evidence import data_action, loss
from derivations.rows import averages_of_pattern, two_level_row
from derivations.symbols import L, c1, cG, lam, sigma_g
from phasekit.scores import Linear


def averages() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """Return s, s₂, g, q of A = c1 11ᵀ/L + cG S.

    The logits that give this pattern are c1 + L cG on the copy entry and c1 elsewhere.
    """
    return averages_of_pattern(*two_level_row(Linear(), c1 + L * cG, c1))


def prior() -> sp.Expr:
    """Cheapest logits with this pattern: see ``prior.pattern_cost``."""
    return (lam * (c1 + cG) ** 2 + L**2 * (L - 1) * cG**2) / (2 * sigma_g**2)


def action() -> sp.Expr:
    """S(c1, cG), with t kept as a symbol."""
    return data_action(*averages()) + prior()


def map_loss() -> sp.Expr:
    """Loss at (c1, cG) and the best W."""
    return loss(*averages())
