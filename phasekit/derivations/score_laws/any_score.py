"""The jump of any normalised score: two conditions, in which a score is nothing but the price of its log odds."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import jump, softmax, two_level
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import GREEK, LATEX, D, L, V, gap, kappa, named, sigma_g, sigma_w, t
from phasekit.derivations.two_level import down, u, up, w

#: Prior cost of the logits at the upper minimum, times 2: 2C.
price = sp.Symbol("price", positive=True)
LATEX[price], GREEK[price] = "2C", sp.Symbol("2C")
#: Odds against the copy entry there, the numerator N of the bulk bracket, and the data's weight p = P(V − 1)/(κV).
odds, N, weight = softmax.odds, softmax.numerator, jump.weight
#: Gain parameter y and the factor R = e^δ.
gain, factor = jump.gain, sp.Symbol("R", positive=True)


@cache
def elasticity() -> sp.Expr:
    """The cost C of two levels of logits (u on the copy entry, −w elsewhere) is quadratic, so u C_u + w C_w = 2C. Where
    the logits are the cheapest for their log odds δ, C_u = C'(δ) δ_u and C_w = C'(δ) δ_w. Hence D := 2C/C'(δ) = u δ_u +
    w δ_w: the growth of δ per relative growth of all logits. For softmax D is the gap.
    """
    A, B, C = two_level.stiffnesses()
    cost = (A * u**2 + 2 * B * u * w + C * w**2) / (2 * sigma_g**2)
    in_levels = two_level.pair_cost().subs({gap: u + w, two_level.mean: (u - (L - 1) * w) / L}, simultaneous=True)
    require_equal(cost, in_levels, "cost of two levels")
    require_equal(u * sp.diff(cost, u) + w * sp.diff(cost, w), 2 * cost, "Euler's theorem")
    return u * up + w * down


@cache
def conditions() -> tuple[sp.Expr, sp.Expr]:
    """Neglect what the lower minimum gains and costs, as for softmax. At P* the upper minimum gains what it costs, and
    is stationary. N belongs to the data, so it is that of softmax, N = (1 + x)² + t x²/(L − 1) with x = (L − 1)
    e^(−δ); the quotient of both conditions, −N'/(N + t) = 2/D, knows the score by D alone.
    """
    slope = sp.Symbol("N_prime")
    gained = weight / 2 * t / (N + t)
    equal, stationary = gained - price / 2, sp.diff(gained, N) * slope - price / D
    (found,) = sp.solve(equal, weight)
    require_equal(stationary.subs({weight: found, slope: -2 * (N + t) / D}), 0, "quotient of the two conditions")
    return equal, stationary


@cache
def strength() -> sp.Expr:
    """The quotient is linear in t: the place of the upper minimum says how strong the data are."""
    slope = -2 * odds * (1 + odds * (1 + t / (L - 1)))
    found = (1 + odds) * ((D - 1) * odds - 1) / (1 - (D - 1) * odds**2 / (L - 1))
    quotient = slope * D + 2 * (softmax.numerator_in_odds() + t)
    require_equal(quotient.subs(t, found), 0, "strength of the data")
    require_equal(sp.diff(softmax.numerator_in_odds(), odds) * -odds, slope, "N'")
    return found


@cache
def window() -> tuple[sp.Expr, sp.Expr]:
    """So at P* the odds lie between 1/(D − 1), where t = 0, and √((L − 1)/(D − 1)), where t = ∞. **Only a score with D
    > 1 can jump**: it has to be possible to raise the log odds more than in proportion to the logits.
    """
    least, most = 1 / (D - 1), sp.sqrt((L - 1) / (D - 1))
    over, under = sp.fraction(sp.together(strength()))
    require_equal(over.subs(odds, least), 0, "t = 0")
    require_equal(under.subs(odds, most), 0, "t = ∞")
    return least, most


@cache
def closure() -> sp.Expr:
    """Equal action gives t² in terms of the same place, which fixes it; then P* = κVt/σ_w². This holds in all regimes
    and for all scores. Dropped: the gain at the lower minimum, of relative order (N + t)/(L(L + t)).
    """
    (found,) = sp.solve(conditions()[0], weight)
    slope = 2 * odds * (1 + (1 + t / (L - 1)) * odds)
    samples = kappa * V / (V - 1) * found.subs(N, slope * D / 2 - t)
    require_equal(samples.subs(price, (L - 1) * D**2 / sigma_g**2), jump.jump_from_gap(), "P* of softmax")
    squared = sigma_w**2 / (V - 1) * price * D * odds * (1 + odds * (1 + t / (L - 1)))
    require_equal(samples * sigma_w**2 * t / (kappa * V), squared, "t² at P*")
    return squared


@cache
def thin_copy() -> tuple[sp.Expr, sp.Expr]:
    """If the copy weight at the jump is small (t ≫ 1), x ≫ 1 and x = L/R with R = e^δ. Then y = R²/(L(1 + L/t)) = D −
    1, and P* is explicit. Dropped: terms of relative order 1/x.
    """
    length, spread, grow = sp.symbols("l xi s", positive=True)
    scaled = strength().subs({L: 1 + length * grow**2, odds: spread * grow}, simultaneous=True)
    leading = (D - 1) * spread**2 / (1 - (D - 1) * spread**2 / length)
    if sp.simplify(sp.limit(scaled / grow**2, grow, sp.oo) - leading) != 0:
        raise AssertionError("strength of the data for a small copy weight")
    at = {spread: sp.sqrt(length * t / ((D - 1) * (length + t)))}
    require_equal(leading.subs(at), t, "y = D − 1")
    y = factor**2 / (L * (1 + L / t))
    samples = kappa * V / (V - 1) * price * D / (D - 1)
    exact = kappa * V / (V - 1) * price * D * odds**2 * (1 + t / L) / t
    require_equal(exact.subs(odds, L / factor).subs(factor, sp.sqrt((D - 1) * L * (1 + L / t))), samples, "thin P*")
    return y, samples


@cache
def full_copy() -> tuple[sp.Expr, sp.Expr]:
    """If data are scarce (t ≪ 1) the gain is small, and the jump goes to a large copy weight 1 − 1/D: x = 1/(D − 1), R
    = (L − 1)(D − 1), and P* grows as √V. Dropped: terms of relative order t.
    """
    at = window()[0]
    require_equal(strength().subs(odds, at), 0, "t = 0")
    samples = kappa * V * sp.sqrt(price) * D / (sp.sqrt(V - 1) * (D - 1) * sigma_w)
    require_equal((kappa * V / sigma_w**2) ** 2 * closure().subs({odds: at, t: 0}), samples**2, "P* for scarce data")
    return (L - 1) * (D - 1), samples


def steps() -> tuple[Step, ...]:
    """Return the steps of this part."""
    P_star = named("P*", "P^*")
    least, most = window()
    thin, scarce = thin_copy(), full_copy()
    return (
        Step.of(elasticity, sp.Eq(D, price / named("C'", "C'(\\delta)"), evaluate=False), sp.Eq(D, elasticity())),
        Step.of(
            conditions,
            sp.Eq(weight * t / (N + t), price, evaluate=False),
            sp.Eq(-sp.Symbol("N'") / (N + t), 2 / D, evaluate=False),
        ),
        Step.of(strength, sp.Eq(t, strength())),
        Step.of(window, least < odds, odds < most),
        Step.of(closure, sp.Eq(t**2, closure()), sp.Eq(P_star, kappa * V * t / sigma_w**2)),
        Step.of(thin_copy, sp.Eq(D - 1, thin[0]), sp.Eq(P_star, thin[1])),
        Step.of(full_copy, sp.Eq(factor, scarce[0]), sp.Eq(P_star, scarce[1])),
    )
