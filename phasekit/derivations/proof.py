"""Decide whether two expressions are equal."""

from __future__ import annotations

import sympy as sp
from sympy.codegen.cfunctions import expm1, log1p

from phasekit.derivations.symbols import L, V


class NotProven(AssertionError):
    """SymPy couldn't reduce the difference of two expressions to zero."""


def require_equal(one: sp.Expr, other: sp.Expr, what: str) -> None:
    """Do nothing if both are equal.

    Raises
    ------
    NotProven
        If they aren't, naming ``what``.
    """
    if not vanishes(sp.sympify(one) - sp.sympify(other)):
        raise NotProven(what)


def vanishes(expression: sp.Expr) -> bool:
    """Decide whether an expression is identically zero for V, L > 1.

    Handles rational functions of the symbols, of square roots, of exponentials (exp(k z) is the k-th power of one
    positive symbol per z) and of logarithms, and half angles of ``atan2``.
    """
    expression = expression.replace(expm1, lambda z: sp.exp(z) - 1).replace(log1p, lambda z: sp.log(1 + z))
    expression = expression.replace(_is_half_angle, _half_angle)
    if expression.find(_is_root) or expression.has(sp.log):
        beyond_one = {symbol: 1 + sp.Dummy(positive=True) for symbol in (V, L)}
        expression = expression.subs(beyond_one).replace(sp.log, lambda argument: sp.log(sp.factor(argument)))
        expression = sp.expand_log(expression, force=True)
        expression = expression.replace(_is_root, lambda root: sp.sqrt(sp.factor(root.base)) ** (2 * root.exp))
    symbols: dict[sp.Expr, sp.Dummy] = {}
    powers = {}
    for exponential in expression.atoms(sp.exp):
        k, z = exponential.args[0].as_coeff_Mul()
        powers[exponential] = symbols.setdefault(z, sp.Dummy(positive=True)) ** k
    return _vanishes_algebraically(expression.xreplace(powers))


def _vanishes_algebraically(expression: sp.Expr) -> bool:
    """Decide for sums, products and half-integer powers, taking the outermost square root out one at a time."""
    roots = sorted(expression.find(_is_root), key=lambda root: len(root.base.find(_is_root)))
    if not roots:
        return _multiplies_out_to_zero(sp.fraction(sp.together(expression))[0])
    base, r = roots[-1].base, sp.Dummy(positive=True)
    rational = expression.replace(lambda e: _is_root(e) and e.base == base, lambda e: r ** (2 * e.exp))
    even, odd = sp.Integer(0), sp.Integer(0)
    for (power,), coefficient in sp.Poly(sp.fraction(sp.together(rational))[0], r).terms():
        if power % 2:
            odd += coefficient * base ** (power // 2)
        else:
            even += coefficient * base ** (power // 2)
    return _vanishes_algebraically(even) and _vanishes_algebraically(odd)


def _multiplies_out_to_zero(numerator: sp.Expr) -> bool:
    """Multiply out as a sparse polynomial (much faster than ``expand``)."""
    logarithms = {logarithm: sp.Dummy() for logarithm in numerator.find(sp.log)}
    numerator = numerator.xreplace(logarithms)
    if not numerator.free_symbols:
        return bool(numerator == 0)
    ring = sp.polys.rings.PolyRing(sorted(numerator.free_symbols, key=str), sp.QQ)
    return bool(ring.from_expr(numerator) == 0)


def _is_root(expression: sp.Expr) -> bool:
    return bool(expression.is_Pow and expression.exp.is_Rational and not expression.exp.is_Integer)


def _is_half_angle(expression: sp.Expr) -> bool:
    return isinstance(expression, sp.tan) and isinstance(2 * expression.args[0], sp.atan2)


def _half_angle(tangent: sp.Expr) -> sp.Expr:
    """Return tan(θ/2) = (√(x² + y²) − x)/y for θ = atan2(y, x)."""
    y, x = (2 * tangent.args[0]).args
    return (sp.sqrt(x**2 + y**2) - x) / y
