"""Theorem 2: a winner c + Δ over others of which c is the largest."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.saturation.common import (
    RATIO,
    Delta,
    M,
    at_most,
    b,
    base,
    derivation,
    mass_from_odds,
    proved,
    require_sign,
    softmax_ratio,
    ssa,
    z,
)
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import named

c = sp.Symbol("c", real=True)
c_positive = sp.Symbol("c", nonnegative=True)
GROWTH = named("G^(1/n)", "G^{1/n}")
G, keys = sp.symbols("G m", positive=True)

#: Cases: c, Δ, and the closed form of the n-th root of G. Across zero |c| = z and c + Δ = M, so Δ = z + M;
#: below zero |c| − Δ = M.
CASES = {
    "c ≥ 0": (c_positive, Delta, 1 + b * Delta / (1 + b * c_positive)),
    "c < 0 ≤ c + Δ": (-z, z + M, (1 + b * z) * (1 + b * M)),
    "c + Δ < 0": (-(M + Delta), Delta, (1 + b * (M + Delta)) / (1 + b * M)),
}


def softmax_decay() -> Step:
    """Softmax: the key at c has ratio e^(−Δ), whatever c."""
    return Step.of(softmax_decay, proved(softmax_ratio(c, c + Delta), sp.exp(-Delta), "ratio at c", RATIO))


def softmax_sum() -> Step:
    """One other key is at c and none is above: e^(−Δ) ≤ S ≤ (m − 1)e^(−Δ). Insert this into S/(1 + S)."""
    odds = sp.exp(-Delta)
    return Step.of(
        softmax_sum,
        proved(odds / (1 + odds), 1 / (1 + sp.exp(Delta)), "lower bound"),
        proved((keys - 1) * odds / (1 + (keys - 1) * odds), (keys - 1) / (keys - 1 + sp.exp(Delta)), "upper bound"),
    )


def growth_factors() -> dict[str, tuple[sp.Expr, sp.Expr]]:
    """Return for every case the n-th root of G = f(c + Δ)/f(c) from the score's weights, and its closed form."""
    return {case: (base(ssa(at + gap) / ssa(at)), form) for case, (at, gap, form) in CASES.items()}


def growth_cases() -> tuple[Step, ...]:
    """Return one step for each case."""
    words = {
        "c ≥ 0": "SSA: let G = f(c + Δ)/f(c). Its n-th root if c ≥ 0:",
        "c < 0 ≤ c + Δ": "If the gap spans zero, with |c| = z and c + Δ = M:",
        "c + Δ < 0": "If both are negative, with |c + Δ| = M, so that |c| = M + Δ:",
    }
    return tuple(
        Step(words[case], (proved(root, form, case, GROWTH),)) for case, (root, form) in growth_factors().items()
    )


def ssa_sum() -> Step:
    """f rises, so one other key has ratio 1/G and none has more: 1/G ≤ S ≤ (m − 1)/G. Insert this into S/(1 + S)."""
    return Step.of(
        ssa_sum,
        proved((1 / G) / (1 + 1 / G), 1 / (1 + G), "lower bound"),
        proved(((keys - 1) / G) / (1 + (keys - 1) / G), (keys - 1) / (keys - 1 + G), "upper bound"),
    )


def at_least_one() -> Step:
    """G ≥ 1 in every case: Δ > 0 and f rises."""
    shown = [at_most(1, form, f"G ≥ 1 for {case}") for case, (_, _, form) in CASES.items()]
    return Step.of(at_least_one, *shown)


def largest() -> Step:
    """How large can G be for given Δ? Compare its n-th root with (1 + bΔ/2)². If the gap spans zero the difference is a
    square, which vanishes at c = −Δ/2: there the bound is reached. In the other two cases it is positive.
    """
    differences = []
    for case, (_, gap, form) in CASES.items():
        difference = require_sign((1 + b * gap / 2) ** 2 - form, True, f"largest G for {case}")
        differences.append(proved((1 + b * gap / 2) ** 2 - form, difference, f"difference for {case}"))
    return Step.of(largest, *differences)


def _ssa_steps() -> tuple[Step, ...]:
    return mass_from_odds(), *growth_cases(), ssa_sum()


PROOFS = (
    derivation(
        "softmax-imbalance", "Theorem 2, softmax", "4", lambda: (mass_from_odds(), softmax_decay(), softmax_sum())
    ),
    derivation("ssa-imbalance", "Theorem 2, SSA", "4", _ssa_steps),
    derivation(
        "ssa-imbalance-uniform",
        "Theorem 2, SSA: bound for every c",
        "4",
        lambda: (*growth_cases(), at_least_one(), largest()),
    ),
)
