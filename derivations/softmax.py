"""Softmax attention: the map action over the logit gap Δ."""

from __future__ import annotations

import sympy as sp

from derivations.evidence import data_action, loss
from derivations.rows import averages_of_pattern, two_level_row
from derivations.symbols import L, gap, sigma_g
from phasekit.scores import Softmax


def averages() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """Return s, s₂, g, q of rows with one logit raised by the gap Δ."""
    return averages_of_pattern(*two_level_row(Softmax(), gap * (L - 1) / L, -gap / L))


def prior() -> sp.Expr:
    """Cheapest logits with this gap: see ``prior.gap_cost``."""
    return (L - 1) * gap**2 / (2 * sigma_g**2)


def action() -> sp.Expr:
    """S(Δ), with t kept as a symbol."""
    return data_action(*averages()) + prior()


def map_loss() -> sp.Expr:
    """Loss at Δ and the best W."""
    return loss(*averages())
