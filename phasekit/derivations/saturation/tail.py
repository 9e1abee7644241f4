"""Large gaps: the mass off the winner and its gradients as Δ → ∞, the other logits fixed."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.saturation.common import Delta, S, b, derivation, n, proved, require_sign, softmax, ssa
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import named

X = sp.Symbol("X", positive=True)
c = sp.Symbol("c", real=True)
kappa = sp.Symbol("kappa", nonnegative=True)
#: How the winner's gradient is written.
GRADIENT = named("∂p/∂z", r"\partial p_{i^*}/\partial z_{i^*}")
#: S₀ = Σ_{j≠i*} f(z_j), the weights of the others; w, one of them; W_rest, the rest without the winner; e = e^(−Δ).
S0, w, W_rest, keys, e = sp.symbols("S_0 w W_rest m e", positive=True)


def exact_odds() -> Step:
    """The winner's logit is X = c + Δ ≥ 0, so S = S₀/f(X) exactly, with S₀ = Σ f(z_j) over the other keys."""
    return Step.of(exact_odds, proved(S0 / ssa(X), S0 * (1 + b * X) ** -n, "odds", named("S", "S")))


def leading_odds() -> Step:
    """Take bΔ out of 1 + b(c + Δ). What remains is 1 ± κ with κ = |1 + bc|/(bΔ) → 0: S ~ S₀ (bΔ)^(−n)."""
    relative = 1 + (1 + b * c) / (b * Delta)
    limit = sp.limit(relative, Delta, sp.oo)
    return Step.of(
        leading_odds,
        proved(1 + b * (c + Delta), b * Delta * relative, "factor bΔ"),
        proved(limit, sp.Integer(1), "the rest tends to 1", named("lim (1 ± κ)", r"\lim (1 \pm \kappa)")),
    )


def logarithm_error() -> Step:
    """For 0 ≤ κ < 1 both ln(1 + κ) and −ln(1 − κ) are at most κ/(1 − κ): equal at κ = 0, and the derivatives of the
    differences are positive. So ln S differs from ln[S₀ (bΔ)^(−n)] by at most nκ/(1 − κ).
    """
    inside = kappa / (1 + kappa)  # any number from 0 to 1, for the sign
    bound = kappa / (1 - kappa)
    shown = []
    for logarithm in (sp.log(1 + kappa), -sp.log(1 - kappa)):
        slope = sp.factor(sp.diff(bound - logarithm, kappa))
        require_sign(slope.subs(kappa, inside), True, "error of the logarithm")
        shown.append(sp.Ge(slope, 0, evaluate=False))
    return Step.of(logarithm_error, *shown)


def winner_gradient() -> Step:
    """Differentiate p_i* = f(X)/(f(X) + S₀) by the winner's own logit. In terms of S = S₀/f(X) it is nb/(1 + bX) times
    S/(1 + S)².
    """
    weight = ssa(X)
    gradient = sp.diff(weight / (weight + S0), X)
    expected = n * b / (1 + b * X) * S / (1 + S) ** 2
    return Step.of(
        winner_gradient, proved(sp.simplify(gradient.subs(S0, S * weight)), expected, "winner's gradient", GRADIENT)
    )


def other_gradients() -> Step:
    """Differentiate it by another key's logit, of weight w and slope t' = (ln f)': the gradient is −p_i* p_j t', or
    −t' (w/f(X))/(1 + S)². Its slope t'(z_j) is that of the key's own logit and doesn't decay with Δ.
    """
    x = sp.Symbol("x")
    t_slope = sp.Symbol("t'", positive=True)
    top = ssa(X)
    other = sp.Function("f")(x)
    gradient = sp.diff(top / (top + other + W_rest), x).subs(sp.Derivative(other, x), t_slope * other)
    gradient = gradient.subs(other, w).subs(W_rest, S * top - w)
    expected = -t_slope * (w / top) / (1 + S) ** 2
    shown = named("∂p/∂z_j", r"\partial p_{i^*}/\partial z_j")
    return Step.of(other_gradients, proved(sp.simplify(gradient), expected, "other's gradient", shown))


def saturation_error() -> Step:
    """(1 + S)^(−2) lies between e^(−2S) and 1, since ln(1 + S) ≤ S. So the leading forms are nb S₀ (bΔ)^(−n−1) for the
    winner's gradient (one more power of 1 + bX, whose error is that of the power n + 1), and f(z_j) t'(z_j) (bΔ)^(−n)
    for the others': the winner stops learning one power of Δ earlier than the keys it beats.
    """
    slope = sp.diff(S - sp.log(1 + S), S)
    return Step.of(saturation_error, sp.Ge(require_sign(slope, True, "ln(1 + S) ≤ S"), 0, evaluate=False))


def softmax_gradient() -> Step:
    """Softmax: t' = 1, so the gradient by the winner's logit is p(1 − p) = S/(1 + S)²."""
    weight = softmax(X)
    gradient = sp.diff(weight / (weight + S0), X).subs(S0, S * weight)
    return Step.of(softmax_gradient, proved(sp.simplify(gradient), S / (1 + S) ** 2, "softmax gradient", GRADIENT))


def softmax_bounds() -> Step:
    """Theorem 2 gives e ≤ S ≤ (m − 1)e with e = e^(−Δ): bound the numerator from one side, the denominator from the
    other.
    """
    odds = sp.Symbol("S")
    return Step.of(
        softmax_bounds,
        sp.Le(e / (1 + (keys - 1) * e) ** 2, odds / (1 + odds) ** 2, evaluate=False),
        sp.Le(odds / (1 + odds) ** 2, (keys - 1) * e, evaluate=False),
    )


def _odds_steps() -> tuple[Step, ...]:
    return exact_odds(), leading_odds(), logarithm_error()


PROOFS = (
    derivation("ssa-tail", "Large gaps, SSA: mass ~ S₀ (bΔ)^(−n)", "5", _odds_steps),
    derivation(
        "ssa-gradient",
        "Large gaps, SSA: winner's gradient ~ Δ^(−n−1)",
        "5",
        lambda: (*_odds_steps(), winner_gradient(), saturation_error()),
    ),
    derivation(
        "ssa-gradient-others",
        "Large gaps, SSA: other keys' gradients ~ Δ^(−n)",
        "5",
        lambda: (*_odds_steps(), other_gradients(), saturation_error()),
    ),
    derivation(
        "softmax-gradient",
        "Large gaps, softmax: gradient ~ e^(−Δ)",
        "5",
        lambda: (softmax_gradient(), softmax_bounds()),
    ),
)
