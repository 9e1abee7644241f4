"""α-entmax: laws of P*, and the crossover of sparsemax."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import two_level
from phasekit.derivations.proof import require_equal
from phasekit.derivations.score_laws.any_score import closure, odds, price, strength
from phasekit.derivations.score_laws.limits import require_ratio_to_one, require_same_product
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import LATEX, D, L, P, V, gap, kappa, named, sigma_g, sigma_w, t
from phasekit.derivations.two_level import delta, k, weight

#: m = 1/(α − 1): the gap at which the copy entry has all the weight.
m = sp.Symbol("m", positive=True)
#: Strength of the data in units of the cost of all the weight.
strain = sp.Symbol("psi", positive=True)
_share = kappa * V / (V - 1)


@cache
def elasticity() -> sp.Expr:
    """The gap that gives the odds x is p^k (1 − e^(−kδ))/k with p = 1/(1 + x) and e^(−kδ) = (x/(L − 1))^k. Rows ignore
    a shift, so 2C = (L − 1) gap²/σ_g², and D = gap/gap'(δ).
    """
    decay, x = sp.exp(-k * delta), (L - 1) * sp.exp(-delta)
    needed = two_level.entmax_gap().subs(weight**k, (1 + x) ** -k)
    found = (1 - decay) * (1 + odds) / (k * (odds + decay))
    if sp.simplify(needed / sp.diff(needed, delta) / found.subs(odds, x)) != 1:
        raise AssertionError("elasticity of entmax")
    return found


@cache
def many_keys() -> tuple[sp.Expr, sp.Expr]:
    """For L → ∞ at given odds e^(−kδ) → 0: D → m (1 + x)/x with m = 1/(α − 1), at least m. So entmax jumps for m > 1
    (α < 2), and t = (m − 1)(1 + x)² for t ≪ L. Dropped: relative order e^(−kδ), (t/L²)^(1/(2m)) for t ≪ L and
    L^(−1/(2m)) for t ≫ L, which fades slowly.
    """
    large = elasticity().subs(sp.exp(-k * delta), 0).subs(k, 1 / m)
    require_equal(large, m * (1 + odds) / odds, "elasticity for many keys")
    place = (m - 1) * (1 + odds) ** 2
    require_equal(sp.limit(strength().subs(D, large), L, sp.oo), place, "strength of the data for many keys")
    return large, place


def _cost() -> sp.Expr:
    """Return 2C for many keys at odds x: gap = m p^(1/m)."""
    return L * m**2 * (1 + odds) ** (-2 / m) / sigma_g**2


@cache
def long_context() -> sp.Expr:
    """t ≫ L: x = √(L/(m − 1)) ≫ 1. With the data's variance fixed this regime is not reached by making L larger, since
    t falls behind L: it needs σ_w²/σ_g² ≫ V L^(1/m).
    """
    law = _share * m**3 / (m - 1) * (m - 1) ** (1 / m) * L ** (1 - 1 / m) / sigma_g**2
    more = {m: 1 + sp.Symbol("c", positive=True)}
    samples = (_share * _cost() * m / (m - 1)).subs(L, (m - 1) * odds**2)
    at = law.subs(L, (m - 1) * odds**2)
    require_ratio_to_one(samples.subs(more), at.subs(more), odds, sp.oo, "entmax, t ≫ L")
    return law


def wide_factors() -> tuple[sp.Expr, sp.Expr]:
    """Return K and M of P* = K (M/P*)^(1/m), which holds for m − 1 < t ≪ L."""
    return _share * m**3 * L / ((m - 1) * sigma_g**2), (m - 1) * kappa * V / sigma_w**2


@cache
def wide_vocabulary() -> sp.Expr:
    """m − 1 < t ≪ L: the law is the same however large the copy weight α = √((m − 1)/t), up to 1. At t = m − 1 all the
    weight is on the copy entry.
    """
    K, M = wide_factors()
    law = K ** (m / (m + 1)) * M ** (1 / (m + 1))
    more = {m: 1 + sp.Symbol("c", positive=True)}
    elastic, place = many_keys()
    # The variance σ_w² for which the jump goes to given odds: t² = … solved for it, with t ≪ L.
    per_variance = closure().subs({D: elastic, price: _cost()}).subs(t / (L - 1), 0) / sigma_w**2
    variance = sp.factor(place**2 / per_variance)
    samples = kappa * V * place / variance
    at = law.subs(sigma_w, sp.sqrt(variance))
    require_same_product(samples.subs(more), at.subs(more), "entmax, t ≪ L")
    return law


@cache
def full_copy() -> tuple[sp.Expr, sp.Expr]:
    """t < m − 1: the upper minimum has all the weight on the copy entry (apart from x ~ L^(−1/(m − 1))), at the gap m.
    Its gain t/(1 + t) must pay 2C = L m²/σ_g². For t ≪ 1, P* ~ √(VL) whatever α. Dropped: relative orders L^(−1/(m −
    1)) and t/L.
    """
    root = (strain + sp.sqrt(strain**2 + 4 * strain)) / 2
    require_equal(root**2 / (1 + root), strain, "t²/(1 + t) = ψ")
    psi = sigma_w**2 * L * m**2 / ((V - 1) * sigma_g**2)
    weightless = kappa * V * m * sp.sqrt(L) / (sp.sqrt(V - 1) * sigma_w * sigma_g)
    require_equal((weightless * sigma_w**2 / (kappa * V)) ** 2, psi, "t² at P* for t ≪ 1")
    if sp.limit(root**2 / strain, strain, 0, "+") != 1:
        raise AssertionError("entmax, t ≪ 1")
    return psi, weightless


@cache
def sparsemax() -> tuple[sp.Expr, sp.Expr]:
    """Sparsemax is m = 1: (D − 1)x − 1 = −(1 + x)²/L < 0, so there is no t > 0 for it to jump at. With α = Δ (many
    keys), gain and cost both begin as Δ²: the copy grows from where the gain wins, like a second-order onset that the
    field 1/L rounds off. For t ≪ L its place is the law of entmax at t ≪ 1 with m = 1, whatever t.
    """
    exact = elasticity().subs(sp.exp(-k * delta), (odds / (L - 1)) ** k).subs(k, 1)
    require_equal((exact - 1) * odds - 1, -((1 + odds) ** 2) / L, "sparsemax has no jump")
    p = P * (V - 1) / (kappa * V)
    gained = p / 2 * gap**2 / (1 / L + 1 / t + gap**2)
    balance = sp.diff(gained - L * gap**2 / (2 * sigma_g**2), gap, 2).subs(gap, 0)
    squared = sigma_w**2 * L * (1 + t / L) / ((V - 1) * sigma_g**2)
    at = balance.subs(P, t * kappa * V / sigma_w**2)
    require_equal(sp.solve(at, V)[0], sp.solve(sp.Eq(t**2, squared), V)[0], "onset of sparsemax")
    law = kappa * V * sp.sqrt(L) / (sp.sqrt(V - 1) * sigma_w * sigma_g)
    require_equal(full_copy()[1].subs(m, 1), law, "the same as the limit m → 1 of the jump")
    return squared, law


@cache
def sparsemax_onset() -> sp.Expr:
    """Return P_x of sparsemax in all regimes: the root t of the quadratic equation, times κV/σ_w²."""
    strain_, drift = sigma_w**2 * L / ((V - 1) * sigma_g**2), sigma_w**2 / ((V - 1) * sigma_g**2)
    root = (drift + sp.sqrt(drift**2 + 4 * strain_)) / 2
    require_equal(root**2, sparsemax()[0].subs(t, root), "onset of sparsemax")
    return kappa * V / sigma_w**2 * root


def steps() -> tuple[Step, ...]:
    """Return the steps of this part."""
    P_star, P_x = named("P*", "P^*"), named("P_x", "P_x")
    LATEX[strain] = r"\psi"
    large, place = many_keys()
    psi, weightless = full_copy()
    squared, crossover = sparsemax()
    return (
        Step.of(elasticity, sp.Eq(D, elasticity())),
        Step.of(many_keys, sp.Eq(D, large), sp.Eq(t, place)),
        Step.of(long_context, sp.Eq(P_star, long_context())),
        Step.of(wide_vocabulary, sp.Eq(P_star, wide_vocabulary())),
        Step.of(full_copy, sp.Eq(t**2 / (1 + t), psi), sp.Eq(P_star, weightless)),
        Step.of(sparsemax, sp.Eq(t**2, squared), sp.Eq(P_x, crossover)),
    )
