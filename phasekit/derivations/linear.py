"""Linear attention: the map action over (c1, cG), its gradient and Hessian."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import evidence, prior
from phasekit.derivations.proof import require_equal
from phasekit.derivations.rows import averages_of_pattern, two_level_row
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, P, V, c1, cG, g, kappa, lam, named, q, s, s2, sigma_g, t
from phasekit.scores import Linear

#: Abbreviations of the gradient and Hessian: w = 1 + t(q − g²), u = 1 + t q, m = t (1 − 1/L) c1 cG.
w, u, m = sp.symbols("w u m")


@cache
def averages() -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """The pattern A = c1 11ᵀ/L + cG S comes from logits c1 + L cG on the copy entries and c1 elsewhere. The score's row
    map turns them into weights, from which the four averages follow.
    """
    return averages_of_pattern(*two_level_row(Linear(), c1 + L * cG, c1))


def rest() -> sp.Expr:
    """What the squared norm holds beyond the copy overlap is never negative: q − g² = (1 − 1/L) c1²/L. So both brackets
    of Φ are quotients of sums of positive terms, 1/(1 + t s²) and w/u.
    """
    _, _, overlap, norm = averages()
    difference = (1 - 1 / L) * c1**2 / L
    require_equal(norm - overlap**2, difference, "q − g² of linear attention")
    return difference


def action() -> sp.Expr:
    """Data and prior together are the effective action of the joint minimum over W and G. (c1, cG) → (−c1, −cG) with
    W → −W leaves it unchanged: report the branch with c1 + cG ≥ 0.
    """
    return evidence.data_action(*averages()) + prior.pattern_cost()


def map_loss() -> sp.Expr:
    """Return the loss at (c1, cG) and the best W."""
    return evidence.loss(*averages())


@cache
def gradient() -> tuple[sp.Expr, sp.Expr]:
    """Both order parameters feel the force through the row sum s. Copying has its own stiffness L²(L − 1)/σ_g²; the
    bulk of vocabulary space pulls along cG always, along c1 only while t (1 − 1/L) c1 cG < 1: once the copy head
    stands, pooling is in its way.
    """
    through_s = s * (lam / sigma_g**2 - P * t / (kappa * V) / (1 + t * s**2) ** 2)
    pull = P * t * (V - 1) / (kappa * V) * g / u**2
    compact = (through_s + pull * (m - 1) / L, through_s + L**2 * (L - 1) / sigma_g**2 * cG - pull * w)
    for coordinate, found in zip((c1, cG), compact, strict=True):
        require_equal(sp.diff(action(), coordinate), _unfold(found), f"dS/d{coordinate}")
    return compact


@cache
def hessian() -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Differentiate once more: (c1, c1), (c1, cG), (cG, cG). The last term of each comes from the norm in the
    denominator, du/dc1 = 2 t s/L and du/dcG = 2 t g.
    """
    through_s = lam / sigma_g**2 - P * t / (kappa * V) * (1 - 3 * t * s**2) / (1 + t * s**2) ** 3
    pull = P * t * (V - 1) / (kappa * V)
    compact = (
        through_s + pull / L**2 * ((2 * m - 1 + t * (L - 1) * cG**2) / u**2 - 4 * t * g * s * (m - 1) / u**3),
        through_s - pull / L * ((w + 2 * t * (1 - 1 / L) * c1 * g) / u**2 - 4 * t * g * s * w / u**3),
        through_s + L**2 * (L - 1) / sigma_g**2 - pull * w * (4 * w - 3 * u) / u**3,
    )
    for pair, found in zip(((c1, c1), (c1, cG), (cG, cG)), compact, strict=True):
        require_equal(sp.diff(action(), *pair), _unfold(found), f"second derivative of S by {pair}")
    return compact


def _unfold(expression: sp.Expr) -> sp.Expr:
    """Insert what the abbreviations and averages stand for."""
    _, _, overlap, norm = averages()
    expression = expression.subs({w: 1 + t * (norm - overlap**2), u: 1 + t * norm, m: t * (1 - 1 / L) * c1 * cG})
    return expression.subs({s: averages()[0], g: overlap, q: norm}, simultaneous=True)


def _steps() -> tuple[Step, ...]:
    S, S_1, S_G = named("S", "S"), named("S_1", r"\partial_{c_1}S"), named("S_G", r"\partial_{c_G}S")
    second = (
        named("S_11", r"\partial_{c_1}^2S"),
        named("S_1G", r"\partial_{c_1}\partial_{c_G}S"),
        named("S_GG", r"\partial_{c_G}^2S"),
    )
    bracket = 1 - t * g**2 / (1 + t * q)
    abbreviations = (
        sp.Eq(w, 1 + t * (q - g**2)),
        sp.Eq(u, 1 + t * q),
        sp.Eq(m, t * (1 - 1 / L) * c1 * cG, evaluate=False),
    )
    return (
        Step.of(averages, *(sp.Eq(name, value) for name, value in zip((s, s2, g, q), averages(), strict=True))),
        Step.of(rest, sp.Eq(q - g**2, rest()), sp.Eq(bracket, w / u, evaluate=False), *abbreviations[:2]),
        Step.of(action, sp.Eq(S, evidence.data_action() + prior.pattern_cost())),
        Step.of(gradient, sp.Eq(S_1, gradient()[0]), sp.Eq(S_G, gradient()[1]), abbreviations[2]),
        Step.of(hessian, *(sp.Eq(name, value) for name, value in zip(second, hessian(), strict=True))),
    )


DERIVATION = Derivation("linear", "Linear attention: the map action", "4", _steps)
