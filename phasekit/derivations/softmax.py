"""Softmax attention: the map action over the logit gap Δ, its first and second derivative."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, prior
from phasekit.derivations.proof import require_equal
from phasekit.derivations.rows import averages_of_pattern, two_level_row
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, P, V, g, gap, kappa, named, q, s, s2, sigma_g, t
from phasekit.scores import Softmax

#: Odds x = (1 − α)/α against the copy entry, and the numerator N of the bulk bracket.
odds, numerator = sp.symbols("x N", positive=True)


@cache
def averages() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """One logit per row is raised by the gap Δ over the others (with zero row mean, the cheapest choice). The
    score's row map gives the copy weight α = e^Δ/(e^Δ + L − 1), and (1 − α)/(L − 1) to every other entry.
    """
    logits = prior.cheapest_row()
    return averages_of_pattern(*two_level_row(Softmax(), logits[prior.u], logits[prior.v]))


def bracket() -> sp.Expr:
    """In the odds against the copy entry, x = (L − 1) e^(−Δ), with α = 1/(1 + x), the bulk bracket of Φ is N/(N +
    t). N is a sum of positive terms, and dx/dΔ = −x makes derivatives simple: N' = −2x [1 + x (1 + t/(L − 1))].
    """
    compact = numerator / (numerator + t)
    _, _, overlap, norm = averages()
    require_equal(1 - t * overlap**2 / (1 + t * norm), _unfold(compact), "the bulk bracket of softmax attention")
    return compact


def numerator_in_odds() -> sp.Expr:
    """Return N = (1 + x)² + t x²/(L − 1)."""
    return (1 + odds) ** 2 + t * odds**2 / (L - 1)


def action() -> sp.Expr:
    """Data and prior together are the effective action; rows sum to 1, so the constant direction adds a constant."""
    return evidence.data_action(*averages()) + prior.gap_cost()


def map_loss() -> sp.Expr:
    """Return the loss at Δ and the best W."""
    return evidence.loss(*averages())


@cache
def gradient() -> sp.Expr:
    """The prior pulls the gap back in proportion to Δ. The data pull it up at every Δ: their force has one sign. While
    the copy weight is small it grows as e^(2Δ), much faster than the prior's, until the copy is learnt near Δ ~ ln L:
    from a critical length on there are two minima.
    """
    pull = P * (V - 1) * t / (kappa * V)
    compact = (L - 1) * gap / sigma_g**2 - pull * odds * (1 + odds * (1 + t / (L - 1))) / (numerator + t) ** 2
    require_equal(sp.diff(action(), gap), _unfold(compact), "dS/dΔ")
    return compact


@cache
def hessian() -> sp.Expr:
    """The curvature of the data part is negative at small gaps, where it softens the lower minimum, and positive at
    large ones. In powers of x its bracket has the signs +, +, −, − (or +, −, −, −), so it changes sign exactly
    once.
    """
    pull = P * (V - 1) * t / (kappa * V)
    y = odds * (1 + t / (L - 1))
    change = (1 + t) * (1 + 2 * y) - odds * (2 + 3 * y + 2 * y**2)
    compact = (L - 1) / sigma_g**2 + pull * odds * change / (numerator + t) ** 3
    require_equal(sp.diff(action(), gap, 2), _unfold(compact), "d²S/dΔ²")
    return compact


def _unfold(expression: sp.Expr) -> sp.Expr:
    return expression.subs(numerator, numerator_in_odds()).subs(odds, (L - 1) * sp.exp(-gap))


def _steps() -> tuple[Step, ...]:
    S, first, second = named("S", "S"), named("S'", "S'(\\Delta)"), named("S''", "S''(\\Delta)")
    return (
        Step.of(averages, *(sp.Eq(name, value) for name, value in zip((s, s2, g, q), averages(), strict=True))),
        Step.of(
            bracket,
            sp.Eq(1 - t * g**2 / (1 + t * q), bracket(), evaluate=False),
            sp.Eq(numerator, numerator_in_odds()),
            sp.Eq(odds, (L - 1) * sp.exp(-gap)),
        ),
        Step.of(action, sp.Eq(S, P / (2 * kappa * V) * (1 / (1 + t) + (V - 1) * bracket()) + prior.gap_cost())),
        Step.of(gradient, sp.Eq(first, gradient())),
        Step.of(hessian, sp.Eq(second, hessian())),
    )


DERIVATION = Derivation("softmax", "Softmax attention: the map action", "5", _steps)
