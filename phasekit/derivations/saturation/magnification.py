"""Theorem 1: magnification z → λz."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.saturation.common import (
    RATIO,
    ROOT,
    M,
    S,
    at_most,
    b,
    base,
    d,
    derivation,
    mass_from_odds,
    nu,
    proved,
    require_sign,
    softmax_ratio,
    ssa,
    z,
)
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import lam, named

#: e = e^(−λδ), a key's gap δ_j, the number of winners, the number of losers, and ε.
e, gap_j, k, losers, epsilon = sp.symbols("e delta_j k m_k epsilon", positive=True)

#: Sign cases of a row and one of its keys: name, logit of the winner, logit of the key.
CASES = {
    "M > 0, z_j > 0": (z + d, z),
    "M > 0, z_j = 0": (M, sp.Integer(0)),
    "M > 0 > z_j": (M, -z),
    "M = 0 > z_j": (sp.Integer(0), -z),
    "M < 0": (-z, -(z + d)),
}


def softmax_decay() -> Step:
    """Softmax: the ratio of a key to the winner depends on their gap δ_j = M − z_j alone."""
    return Step.of(
        softmax_decay, proved(softmax_ratio(lam * (z - gap_j), lam * z), sp.exp(-lam * gap_j), "ratio", RATIO)
    )


def softmax_sum() -> Step:
    """Let k keys tie for the winner, δ be the gap of the largest loser, and e = e^(−λδ). One loser has ratio e, none
    has more, and there are m − k of them: e ≤ S' ≤ (m − k)e for the losers' sum S'. Their mass S'/(k + S') rises with
    S'. For k = 1 this is the theorem; for any k the winners' weights tend to 1/k exponentially fast.
    """
    mass = S / (k + S)
    require_sign(sp.diff(mass, S), True, "the losers' mass rises with their sum")
    return Step.of(
        softmax_sum,
        sp.Le(e / (k + e), mass, evaluate=False),
        sp.Le(mass, losers * e / (k + losers * e), evaluate=False),
    )


def ratios() -> dict[str, tuple[sp.Expr, sp.Expr]]:
    """Return for every sign case the ratio R_j from the score's weights, and the closed form of its n-th root."""
    closed = {
        "M > 0, z_j > 0": z / (z + d) + (1 - z / (z + d)) / (1 + lam * b * (z + d)),
        "M > 0, z_j = 0": 1 / (1 + lam * b * M),
        "M > 0 > z_j": 1 / ((1 + lam * b * z) * (1 + lam * b * M)),
        "M = 0 > z_j": 1 / (1 + lam * b * z),
        "M < 0": z / (z + d) + (1 - z / (z + d)) / (1 + lam * b * (z + d)),
    }
    return {case: (ssa(lam * key) / ssa(lam * top), closed[case]) for case, (top, key) in CASES.items()}


def ratio_cases() -> tuple[Step, ...]:
    """Return one step for each sign case."""
    words = {
        "M > 0, z_j > 0": "Both logits positive, z_j = z, M = z + d, d ≥ 0. The n-th root of R_j mixes z_j/M and 1.",
        "M > 0, z_j = 0": "The key at 0, whose weight is 1.",
        "M > 0 > z_j": "Opposite signs, z_j = −z: both factors shrink the ratio.",
        "M = 0 > z_j": "The winner at 0, z_j = −z.",
        "M < 0": "Both negative, M = −z and z_j = −(z + d): as in the first case, with r = |M|/|z_j|.",
    }
    return tuple(
        Step(words[case], (proved(base(ratio), form, case, ROOT),)) for case, (ratio, form) in ratios().items()
    )


def falling() -> Step:
    """Each ratio falls with λ: the derivative of ln R_j is nowhere above 0. In the order of the cases, divided by n:"""
    slopes = [sp.diff(sp.log(form), lam) for _, form in ratios().values()]
    return Step.of(falling, *(sp.Le(require_sign(slope, False, "R_j falls"), 0, evaluate=False) for slope in slopes))


def not_faster() -> Step:
    """But the exponent −d ln R_j/d ln λ is never above 2n: it is n times the difference of two numbers sgn(x)λb|x|/(1 +
    λb|x|) between −1 and 1, for M and z_j. Integrated from λ to λ': R_j(λ') ≥ (λ/λ')^(2n) R_j(λ).
    """
    exponents = [-lam * sp.diff(sp.log(form), lam) for _, form in ratios().values()]
    shown = [at_most(sp.factor(exponent), 2, "no faster than λ^(−2n)") for exponent in exponents]
    return Step.of(not_faster, *shown)


def limits() -> Step:
    """λ → ∞: R_j tends to (z_j/M)^n, 0, 0, 0 and (M/z_j)^n in the five cases (and is 1 for a tie). Hence p_j ∝
    (z_j)₊ⁿ if M > 0, uniform over the zeros if M = 0, ∝ |z_j|^(−n) if M < 0. The scale b has dropped out.
    """
    limit_root = named("R_j(∞)^(1/n)", r"R_j(\infty)^{1/n}")
    expected = dict(zip(CASES, (z / (z + d), 0, 0, 0, z / (z + d)), strict=True))
    found = {case: sp.limit(form, lam, sp.oo) for case, (_, form) in ratios().items()}
    return Step.of(
        limits,
        *(proved(found[case], expected[case], f"limit for {case}", limit_root) for case in CASES),
    )


def mixture() -> Step:
    """Every root is at most a mixture r + (1 − r)ε: ε = 1/(1 + λbζ), ζ = |M| or, for M = 0, the smallest |z_j| > 0,
    and r the limit of the root. In the first case this is the closed form itself. In the next three r = 0, and the
    root is at most ε, as (1 + λbz)^(−1) ≤ 1 and z ≥ ζ. In the last the closed form has 1/(1 + λb|z_j|) ≤ ε in place
    of ε.
    """
    smaller = 1 / (1 + lam * b * (z + d))
    root = ratios()["M < 0"][1]
    return Step.of(
        mixture,
        at_most(root, z / (z + d) + (1 - z / (z + d)) / (1 + lam * b * z), "mixture, M < 0"),
        at_most(smaller, 1 / (1 + lam * b * z), "ε"),
        at_most(ratios()["M > 0 > z_j"][1], 1 / (1 + lam * b * M), "mixture, opposite signs"),
    )


def jensen() -> Step:
    """For n ≥ 1, xⁿ is convex, so (ε·1 + (1 − ε)r)ⁿ ≤ ε + (1 − ε)rⁿ. With R_j(∞) = rⁿ: R_j ≤ (1 − ε)R_j(∞) + ε. (For
    n < 1 it is concave, and the bound fails.) From below R_j(∞) bounds R_j, since R_j falls.
    """
    x = sp.Symbol("x", positive=True)
    curvature = sp.diff(x ** (1 + nu), x, 2)
    return Step.of(jensen, sp.Ge(require_sign(curvature, True, "convexity"), 0, evaluate=False))


def summed() -> Step:
    """Sum over the m − 1 keys: S(∞) ≤ S ≤ (1 − ε)S(∞) + (m − 1)ε. Where S(∞) > 0 (a second positive logit, M < 0, or a
    tie for the winner) SSA keeps this mass off the winner for ever.
    """
    limit_sum = named("S_inf", r"S_\infty")
    keys = sp.Symbol("m")
    return Step.of(
        summed,
        sp.Le(limit_sum, named("S", "S"), evaluate=False),
        sp.Le(named("S", "S"), (1 - epsilon) * limit_sum + (keys - 1) * epsilon, evaluate=False),
    )


def one_hot() -> Step:
    """Where S(∞) = 0, only the cases with root at most ε occur, so R_j ≤ εⁿ and S ≤ (m − 1)εⁿ. From below: no |z_j|
    exceeds ‖z‖ = z + d, so that all weights lie between (1 + λb‖z‖)^(−n) and (1 + λb‖z‖)^n, and R_j ≥ (1 +
    λb‖z‖)^(−2n). The mass off the winner falls like a power of λ, with an exponent from n to 2n. This is the
    published reading, "SSA saturates polynomially".
    """
    return Step.of(one_hot, *largest_weight())


def largest_weight() -> tuple[sp.Le, sp.Le]:
    """Return the bounds on the n-th roots of the weights of z and −z by those of z + d and −(z + d)."""
    norm = z + d
    above = at_most(base(ssa(lam * z)), base(ssa(lam * norm)), "largest weight")
    below = at_most(base(ssa(-lam * norm)), base(ssa(-lam * z)), "smallest weight")
    return above, below


def _softmax_steps() -> tuple[Step, ...]:
    return softmax_decay(), softmax_sum()


def _mass_steps() -> tuple[Step, ...]:
    return mass_from_odds(), mixture(), jensen(), summed(), one_hot()


PROOFS = (
    derivation("softmax-magnification", "Theorem 1, softmax: exponential saturation", "2", _softmax_steps),
    derivation("ssa-ratios", "Theorem 1, SSA: exact ratios in every sign case", "2", ratio_cases),
    derivation(
        "ssa-monotone", "Theorem 1, SSA: ratios fall, polynomially at most", "2", lambda: (falling(), not_faster())
    ),
    derivation("ssa-limit", "Limit law of SSA, with its error", "2", lambda: (limits(), mixture(), jensen())),
    derivation("ssa-magnification", "Theorem 1, SSA: polynomial saturation, or none", "2", _mass_steps),
)
