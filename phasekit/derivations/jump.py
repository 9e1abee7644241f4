"""Softmax attention: where both minima have the same action. Self-consistent closed forms of P* and their regimes."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import prior, softmax
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import D, L, P, V, gap, kappa, named, sigma_g, sigma_w, t

#: Gain parameter y = t/N of the upper minimum, and the data's weight p = P(V − 1)/(κV).
gain, weight = sp.symbols("y p", positive=True)
#: Odds against the copy entry at the upper minimum.
odds = softmax.odds
#: Exponent of the vocabulary, V = L^a.
exponent = sp.Symbol("a", positive=True)


def conditions() -> tuple[sp.Expr, sp.Expr]:
    """Take the lower minimum as Δ = 0 with nothing gained (N ≫ t). At the jump the upper minimum, at Δ = D, has the
    same action, and its slope vanishes: two conditions for D and the data's weight p = P (V − 1)/(κV). Their
    quotient is free of p: −N'/(N + t) = 2/D.
    """
    N, slope = sp.symbols("N N_prime")
    gained = weight / 2 * t / (N + t)
    equal = gained - prior.gap_cost().subs(gap, D)
    stationary = sp.diff(gained, N) * slope - sp.diff(prior.gap_cost(), gap).subs(gap, D)
    (found,) = sp.solve(equal, weight)
    require_equal(stationary.subs({weight: found, slope: -2 * (N + t) / D}), 0, "quotient of the two conditions")
    return equal, stationary


@cache
def upper_odds() -> sp.Expr:
    """Insert N = 1 + 2x + c x², N' = −2x (1 + c x) with c = 1 + t/(L − 1): a quadratic equation for the odds x at
    the upper minimum, with one positive root. Written like this nothing cancels for D ≥ 2.
    """
    c = 1 + t / (L - 1)
    root = 2 * (1 + t) / (D - 2 + sp.sqrt((D - 2) ** 2 + 4 * c * (D - 1) * (1 + t)))
    N, slope = 1 + 2 * odds + c * odds**2, -2 * odds * (1 + c * odds)
    require_equal(softmax.numerator_in_odds(), N, "the numerator in powers of the odds")
    require_equal((slope * D + 2 * (N + t)).subs(odds, root), 0, "odds at the upper minimum")
    return root


def gap_update() -> sp.Expr:
    """The odds are x = (L − 1) e^(−D), which gives D back: a fixed-point equation. For large D its right-hand side
    hardly depends on D, so iterating it converges.
    """
    return sp.log((L - 1) / odds)


@cache
def jump_from_gap() -> sp.Expr:
    """Equal action gives P* at D, where N + t = D x (1 + c x); t = P* σ_w²/(κV) closes the system. This form holds
    in all regimes; its error is the gain and the cost at the lower minimum, which it neglects.
    """
    (found,) = sp.solve(conditions()[0], weight)
    slope = 2 * odds * (1 + (1 + t / (L - 1)) * odds)
    return kappa * V / (V - 1) * found.subs(sp.Symbol("N"), slope * D / 2 - t)


@cache
def thin_copy() -> tuple[sp.Expr, sp.Expr]:
    """At fixed V and large L the copy weight at the jump is small, α ≪ 1: then x ≫ 1, N ≈ c x² with c ≈ 1 + t/L,
    and the gain is y/(1 + y) with y = t/(c x²) = e^(2Δ)/(L (1 + L/t)) = α²/(1/L + 1/t). The quotient of the
    conditions becomes 1 + y = D.
    """
    cost = L * D**2 / (2 * sigma_g**2)
    gained = weight / 2 * gain / (1 + gain)
    equal, stationary = gained - cost, 2 * gain * sp.diff(gained, gain) - sp.diff(cost, D)
    ((y, p),) = sp.solve([equal, stationary], [gain, weight])
    return y, sp.factor(p)


def jump_from_log() -> sp.Expr:
    """So P* is explicit in D."""
    return kappa * V / (V - 1) * thin_copy()[1]


@cache
def log_update() -> sp.Expr:
    """And D is a logarithm: y = e^(2D)/(L (1 + L/t)) = D − 1. The equation has two roots (the upper one is meant) if
    L (1 + L/t) ≥ 2e³ = 40.2, and none for shorter contexts.
    """
    found = sp.log(L * (1 + L / t) * (D - 1)) / 2
    require_equal(sp.expand_log(found, force=True), sp.log(gain_parameter_inverse()) / 2, "D as a logarithm")
    shortest = sp.exp(2 * D) / (D - 1)
    (turning,) = sp.solve(sp.diff(shortest, D), D)
    if shortest.subs(D, turning) != 2 * sp.exp(3):
        raise AssertionError("smallest L(1 + L/t) with a solution")
    return found


def gain_parameter_inverse() -> sp.Expr:
    """Return e^(2D) at the gain y of ``thin_copy``."""
    return thin_copy()[0] * L * (1 + L / t)


@cache
def long_context() -> sp.Expr:
    """First regime, t ≫ L: the last one when L grows at fixed V. D → ½ ln L, extremely slowly, hence P* ~ L ln²L with a
    prefactor that has nothing left of σ_w.
    """
    law = kappa * V / (4 * (V - 1) * sigma_g**2) * L * sp.log(L) ** 2
    length = sp.exp(2 * D) / (D - 1)
    _require_limit((jump_from_log() / law).subs(L, length), 1)
    return law


@cache
def wide_vocabulary() -> sp.Expr:
    """Second regime, 1 ≪ t ≪ L, reached when the vocabulary grows with the context, V = L^a with 0 < a ≤ 1: then
    t ≈ L^(1−a) D² σ_w²/σ_g², so D → (1 + a)/2 · ln L: still L ln²L, with another prefactor.
    """
    law = kappa / sigma_g**2 * ((1 + exponent) / 2) ** 2 * L * sp.log(L) ** 2
    log_length = (2 * D + sp.log(D**3 * sigma_w**2 / ((D - 1) ** 2 * sigma_g**2))) / (1 + exponent)
    _require_limit(D**3 / (D - 1) / (((1 + exponent) / 2) ** 2 * log_length**2), 1)
    return law


@cache
def scarce_data() -> tuple[sp.Expr, sp.Expr]:
    """Third regime, t ≪ 1 (V ≫ L ln²L): the gain t/(N + t) ≈ t/N is small, so it needs the whole copy weight. N ≈
    (1 + x)²; the quotient of the conditions gives x = 1/(D − 1), hence D = ln[L (D − 1)] and, for V ≫ 1, P* ~ √(V
    L) ln L: not L ln²L any more.
    """
    x = 1 / (D - 1)
    N, slope = (1 + odds) ** 2, -2 * odds * (1 + odds)
    require_equal((slope * D + 2 * N).subs(odds, x), 0, "odds at the upper minimum for scarce data")
    squared = L * D**2 / sigma_g**2 * (1 + x) ** 2 * (kappa * V / sigma_w) ** 2 / (V - 1)
    found = kappa * V * sp.sqrt(L) / (sigma_w * sigma_g * sp.sqrt(V - 1)) * D**2 / (D - 1)
    require_equal(found**2, squared, "P* for scarce data")
    leading = kappa * sp.sqrt(V * L) / (sigma_w * sigma_g) * sp.log(L)
    _require_limit(D**2 / (D - 1) / sp.log(sp.exp(D) / (D - 1)), 1)
    return found, leading


def _require_limit(expression: sp.Expr, value: int) -> None:
    """Check a limit for D → ∞ (D grows without bound, as ln L)."""
    logarithms = sp.expand_log(expression, force=True)
    if sp.limit(logarithms, D, sp.oo) != value:
        raise AssertionError(f"{expression} doesn't tend to {value}")


def _steps() -> tuple[Step, ...]:
    P_star, N = named("P*", "P^*"), softmax.numerator
    p = sp.Eq(weight, P * (V - 1) / (kappa * V))
    explicit, leading = scarce_data()
    return (
        Step.of(
            conditions,
            sp.Eq(weight / 2 * t / (N + t), prior.gap_cost().subs(gap, D), evaluate=False),
            sp.Eq(-sp.Symbol("N'") / (N + t), 2 / D, evaluate=False),
            p,
        ),
        Step.of(upper_odds, sp.Eq(odds, upper_odds())),
        Step.of(gap_update, sp.Eq(D, gap_update())),
        Step.of(jump_from_gap, sp.Eq(P_star, jump_from_gap())),
        Step.of(thin_copy, sp.Eq(gain, thin_copy()[0]), sp.Eq(weight, thin_copy()[1])),
        Step.of(jump_from_log, sp.Eq(P_star, jump_from_log())),
        Step.of(log_update, sp.Eq(D, log_update())),
        Step.of(long_context, sp.Eq(P_star, long_context())),
        Step.of(wide_vocabulary, sp.Eq(P_star, wide_vocabulary())),
        Step.of(scarce_data, sp.Eq(P_star, explicit), sp.Eq(D, sp.log(L * (D - 1))), sp.Eq(P_star, leading)),
    )


DERIVATION = Derivation("jump", "Softmax attention: the jump P*", "5", _steps)
