"""The crossover gap: SSA is sharper than softmax below, flatter above."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.proof import NotProven, require_equal
from phasekit.derivations.saturation.common import Delta, b, derivation, n, proved, require_sign, softmax, ssa
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import named

#: A branch of Lambert's function: w e^w = −e^(−1/(nb))/(nb), negative.
w = sp.Symbol("w", negative=True)


def advantage() -> sp.Expr:
    """Return h(Δ) = ln[f(Δ)/f(0)] − Δ."""
    ratio = (ssa(Delta) / ssa(sp.Integer(0))) / (softmax(Delta) / softmax(sp.Integer(0)))
    return sp.expand_log(sp.log(ratio), force=True)


def odds() -> Step:
    """All other logits are 0. SSA's odds for the winner are G/(m − 1) with G = (1 + bΔ)^n, softmax's e^Δ/(m − 1). Let
    h be the logarithm of their quotient: SSA is the sharper one where h > 0.
    """
    return Step.of(odds, proved(advantage(), n * sp.log(1 + b * Delta) - Delta, "advantage", named("h", "h")))


def concave() -> Step:
    """h vanishes at 0, is concave, starts with slope nb − 1 and ends at −∞. If nb ≤ 1 it is nowhere positive. If nb >
    1 it is positive up to exactly one root Δ_x, and negative beyond.
    """
    h = advantage()
    curvature = sp.diff(h, Delta, 2)
    start = sp.limit(sp.diff(h, Delta), Delta, 0)
    return Step.of(
        concave,
        sp.Le(require_sign(curvature, False, "h is concave"), 0, evaluate=False),
        proved(start, n * b - 1, "slope at 0", named("h'(0)", "h'(0)")),
        proved(sp.limit(sp.diff(h, Delta), Delta, sp.oo), sp.Integer(-1), "slope at ∞", named("h'(∞)", r"h'(\infty)")),
    )


def root() -> Step:
    """The root in closed form: put 1 + bΔ = −nb w, so that h = n ln(−nb w) + n w + 1/b vanishes if w e^w =
    −e^(−1/(nb))/(nb). Of the two real branches of Lambert's function W₀ gives Δ = 0, W₋₁ the crossover gap. For n =
    3/2, b = 4/5 it is 0.5313, for n = 2, b = 4/5 it is 1.7528.
    """
    gap = -n * w - 1 / b
    at_root = n * (sp.log(n * b) + sp.log(-w)) - gap  # ln(1 + bΔ) = ln(nb) + ln(−w)
    lambert = -1 / (n * b) - sp.log(n * b) - w  # ln(−w), from w e^w = −e^(−1/(nb))/(nb)
    require_equal(1 + b * gap, -n * b * w, "1 + bΔ")
    require_equal(sp.expand(at_root.subs(sp.log(-w), lambert)), sp.Integer(0), "crossover gap")
    formula = -n * sp.LambertW(-sp.exp(-1 / (n * b)) / (n * b), -1) - 1 / b
    for sharpness, value in ((sp.Rational(3, 2), 0.5313), (sp.Integer(2), 1.7528)):
        number = formula.subs({n: sharpness, b: sp.Rational(4, 5)}).evalf(30)
        residue = advantage().subs({n: sharpness, b: sp.Rational(4, 5), Delta: number})
        if abs(residue) > 1e-25 or abs(number - value) > 5e-5:
            raise NotProven(f"crossover gap for n = {sharpness}: {number}")
    return Step.of(root, sp.Eq(named("Delta_x", r"\Delta_\times"), formula, evaluate=False))


def tangents() -> Step:
    """A concave function lies below its tangents, at 0 and at Δ_x, and above the chord between two of its zeros.
    Beyond Δ_x it falls no faster than with slope −1, the limit of its slope.
    """
    return Step.of(tangents, sp.Ge(require_sign(sp.diff(advantage(), Delta) + 1, True, "h' ≥ −1"), 0, evaluate=False))


PROOFS = (
    derivation(
        "crossover",
        "SSA is sharper than softmax up to a crossover gap",
        "6",
        lambda: (odds(), concave(), root(), tangents()),
    ),
)
