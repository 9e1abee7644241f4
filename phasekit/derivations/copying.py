"""Linear attention: the crossover to copying P₂, where g²/q = 1/2."""

from __future__ import annotations

from functools import cache

import sympy as sp

from phasekit.derivations import landau, linear
from phasekit.derivations.proof import require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import L, P, V, X, c1, cG, g, kappa, lam, named, s, sigma_g, sigma_w, t, x

#: R = t (q − g²): what the squared norm holds beyond the copy overlap, at the crossover.
spread = sp.Symbol("R", positive=True)
#: k = √(L − 1).
k = sp.sqrt(L - 1)


def crossover_pattern() -> sp.Expr:
    """Once c1 ≠ 0, g² contains the field 2 c1 cG/L, so cG is never zero and copying sets in smoothly. Its place is
    defined by g²/q = 1/2: half of the squared norm copies. With q − g² = (L − 1) c1²/L² this fixes cG/c1.
    """
    solution = c1 * (k - 1) / L
    _, _, overlap, norm = linear.averages()
    require_equal((norm - 2 * overlap**2).subs(cG, solution), 0, "the pattern with g²/q = 1/2")
    return solution


@cache
def strength() -> sp.Expr:
    """The difference of the two stationarity conditions, S_G − S_1 = 0, is free of the force through s. At the
    crossover it gives x as a function of the spread R = t (q − g²) alone, with k = √(L − 1).
    """
    difference = linear.gradient()[1] - linear.gradient()[0]
    condition = _at_crossover(difference)
    found = L**2 * k * (k - 1) * (1 + 2 * spread) ** 2 / ((V - 1) * (1 - 1 / L + spread * (1 + (k - 1) / L)))
    require_equal(condition.subs(x, found), 0, "strength at the crossover")
    return found


@cache
def balance() -> sp.Expr:
    """The other condition, S_1 = 0, then fixes R: the root of this function, which falls with R (for L > 2), is R
    at P₂. Without a root (the function is negative at R = 0) more than half of the norm copies already at the
    onset, and there is no separate pooling stage.
    """
    lean = (L + k - 1) / L
    found = (
        lean * ((1 + 2 * spread) / (1 + spread * (L + k - 1) ** 2 / (L - 1))) ** 2
        - (V - 1) * k / L**2 * (spread * (k - 1) - 1)
        - lam * (V - 1) * lean / (L**2 * k * (k - 1)) * (1 - 1 / L + spread * (1 + (k - 1) / L))
    )
    condition = _at_crossover(linear.gradient()[0]).subs(x, strength())
    require_equal(
        condition, -found * c1 * strength() / (sigma_g**2 * (1 + 2 * spread) ** 2), "balance at the crossover"
    )
    return found


@cache
def pooling_first() -> sp.Expr:
    """The sign of the balance at R = 0 says whether pooling comes first. For positional inputs it is positive
    exactly for V < L − 1. For token+position inputs at large L, with V = v L, the condition is v³ < (1 + v)², that
    is V < 2.15 L.
    """
    at_onset = balance().subs(spread, 0)
    positional = sp.factor(sp.simplify(at_onset.subs(lam, L**2)))
    ratio = sp.Symbol("v", positive=True)
    require_equal(positional.subs(V, L - 1), 0, "boundary of the pooling stage, positional inputs")
    scaled = at_onset.subs(lam, (V * L / (V + L)) ** 2).subs(V, ratio * L)
    require_equal(sp.limit(scaled, L, sp.oo), 1 - ratio**3 / (1 + ratio) ** 2, "boundary, token+position inputs")
    return positional


def crossover() -> sp.Expr:
    """Return P₂ as a function of the spread R."""
    return kappa * V / (sigma_w * sigma_g) * sp.sqrt(strength())


def leading() -> sp.Expr:
    """At large L the spread is small: (1 + R L)² ≈ L/(V − 1) gives R ≈ (L (V − 1))^(−1/2) for positional inputs,
    and R³ ≈ 1/(L (V − 1)) for token+position inputs, where pooling is cheap. For R → 0, x → L²(L − 1)/(V − 1): that
    is where a copying pattern alone would become unstable (second diagonal entry of the quadratic form's matrix).
    The first corrections are a factor 1 + 3R/2 − 1/(2k), with k = √(L − 1).
    """
    matrix = landau.quadratic_matrix()
    (alone,) = sp.solve(matrix[1, 1].subs(s, 0), x)
    limit = L**2 * (L - 1) / (V - 1)
    if sp.limit(alone / limit, L, sp.oo) != 1 or sp.limit(strength().subs(spread, 0) / limit, L, sp.oo) != 1:
        raise AssertionError("leading form of the crossover")
    return kappa * V / (sigma_w * sigma_g) * sp.sqrt(limit)


def _at_crossover(expression: sp.Expr) -> sp.Expr:
    """Insert the crossover pattern, t by its spread R = t (L − 1) c1²/L², and P by x."""
    expression = expression.subs({linear.w: 1 + spread, linear.u: 1 + 2 * spread})
    expression = expression.subs(linear.m, t * (1 - 1 / L) * c1 * cG)
    expression = expression.subs({s: c1 + cG, g: cG + c1 / L}, simultaneous=True).subs(cG, crossover_pattern())
    return expression.subs(P, x * kappa * V / (t * sigma_g**2)).subs(t, spread * L**2 / ((L - 1) * c1**2))


def _steps() -> tuple[Step, ...]:
    P2, root = named("P_2", "P_2"), {k: sp.Symbol("k", positive=True)}
    return (
        Step.of(crossover_pattern, sp.Eq(cG, crossover_pattern().subs(root)), sp.Eq(root[k], k)),
        Step.of(strength, sp.Eq(x, strength().subs(root)), sp.Eq(x, X)),
        Step.of(balance, sp.Eq(balance().subs(root), 0)),
        Step.of(pooling_first, sp.Eq(named("balance(R=0)", r"\mathrm{balance}(R=0)"), pooling_first().subs(root))),
        Step(
            "P₂ follows from R. It is exact: the only freedom left is whether this branch is the global one.",
            (sp.Eq(P2, kappa * V / (sigma_w * sigma_g) * sp.sqrt(x)),),
        ),
        Step.of(leading, sp.Eq(P2, leading())),
    )


DERIVATION = Derivation("copying", "Linear attention: the crossover to copying P₂", "4", _steps)
