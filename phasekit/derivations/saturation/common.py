"""What the proofs share: symbols, the weights taken from the score objects, and how signs are proven."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from phasekit.derivations.proof import NotProven, require_equal
from phasekit.derivations.steps import Derivation, Step
from phasekit.derivations.symbols import named
from phasekit.scores import SSA, Softmax

PAGE = "docs/saturation.md"

#: SSA's sharpness and scale; n = 1 + nu where a proof needs n ≥ 1.
n, b = sp.symbols("n b", positive=True)
nu = sp.Symbol("nu", nonnegative=True)
#: Gap Δ of the winner, and excesses d ≥ 0 by which one magnitude exceeds another.
Delta = sp.Symbol("Delta", positive=True)
d = sp.Symbol("d", nonnegative=True)
#: Magnitudes of logits: of the winner's and of another key's.
M, z = sp.symbols("M z", positive=True)
#: How roots of ratios and the sum of ratios are written.
RATIO, ROOT = named("R_j", "R_j"), named("R_j^(1/n)", "R_j^{1/n}")
#: Odds against the winner, S = Σ_{j≠i*} R_j.
S = sp.Symbol("S", nonnegative=True)


def ssa(x: sp.Expr) -> sp.Expr:
    """Return SSA's unnormalised weight f(x), from the score object; x must have a known sign."""
    return SSA().symbolic_weight(x, {"n": n, "b": b})


def softmax(x: sp.Expr) -> sp.Expr:
    """Return softmax's unnormalised weight, from the score object."""
    return Softmax().symbolic_weight(x)


def softmax_ratio(key: sp.Expr, winner: sp.Expr) -> sp.Expr:
    """Return softmax's ratio of the weights of two logits, its exponents added up."""
    return sp.powsimp(softmax(sp.expand(key)) / softmax(sp.expand(winner)))


def base(weight: sp.Expr) -> sp.Expr:
    """Return the n-th root of a product of n-th powers of positive numbers."""
    exponent = sp.expand_log(sp.log(weight), force=True) / n
    return sp.factor(sp.exp(sp.expand(exponent)))


def require_sign(expression: sp.Expr, positive: bool, what: str) -> sp.Expr:
    """Return the factored expression after proving that it is ≥ 0 (or ≤ 0) from its symbols' assumptions.

    Raises
    ------
    NotProven
        If SymPy can't tell.
    """
    factored = sp.factor(sp.together(expression))
    sign = factored.is_nonnegative if positive else factored.is_nonpositive
    if sign is not True:
        raise NotProven(f"{what}: the sign of {factored}")
    return factored


def proved(left: sp.Expr, right: sp.Expr, what: str, shown: sp.Expr | None = None) -> sp.Eq:
    """Return left = right as a displayed equation, after proving it; ``shown`` names the left side instead."""
    require_equal(left, right, what)
    return sp.Eq(left if shown is None else shown, right, evaluate=False)


def at_most(left: sp.Expr, right: sp.Expr, what: str) -> sp.Le:
    """Return left ≤ right as a displayed inequality, after proving it from the symbols' assumptions."""
    require_sign(sp.sympify(right) - left, True, what)
    return sp.Le(left, right, evaluate=False)


def derivation(name: str, title: str, section: str, build: Callable[[], tuple[Step, ...]]) -> Derivation:
    """Return a derivation that belongs to docs/saturation.md."""
    return Derivation(name, title, section, build, page=PAGE)


def mass_from_odds() -> Step:
    """Divide by the winner's weight: with the ratios R_j = w_j/w_i* and S = Σ R_j over the other keys, p_i* = 1/(1+S),
    so the mass off the winner is S/(1+S). This rises with S: bounds on S are bounds on the mass.
    """
    mass = 1 - 1 / (1 + S)
    require_sign(sp.diff(mass, S), True, "the mass rises with S")
    return Step.of(mass_from_odds, proved(mass, S / (1 + S), "mass and odds"))
