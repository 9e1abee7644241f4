"""Straight-line numeric programs: the form in which a derived formula is computed, with a proof that it is the formula.

A formula that is right on paper may lose all its digits in floating point (1 − t g²/(1 + t q) when t is large).
A :class:`Function` therefore states the order of computation explicitly: named intermediate values in a
cancellation-free form. :meth:`Function.prove` has SymPy show that inserting them gives the derived expression back.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derivations.symbols import L, V


class NotProven(AssertionError):
    """The numeric form of a formula differs from the derived one."""


@dataclass(frozen=True)
class Line:
    """One assignment ``name = value`` and, where it isn't obvious, what the value means."""

    name: sp.Symbol
    value: sp.Expr
    meaning: str = ""


@dataclass(frozen=True)
class Function:
    """One numeric function.

    Attributes
    ----------
    name, summary : str
        Python name and first line of the docstring.
    arguments : tuple of sympy.Symbol
    lines : tuple of Line
        Intermediate values in order of computation.
    outputs : tuple of sympy.Expr
        What is returned, in terms of arguments and lines.
    derived : tuple of sympy.Expr
        What the derivations found, in terms of the arguments; :meth:`prove` compares it with ``outputs``.
    formula : tuple of sympy.Eq
        Equations shown in the docstring.
    notes : str
        Domain and accuracy, for the docstring.
    """

    name: str
    summary: str
    arguments: tuple[sp.Symbol, ...]
    lines: tuple[Line, ...]
    outputs: tuple[sp.Expr, ...]
    derived: tuple[sp.Expr, ...]
    formula: tuple[sp.Eq, ...] = ()
    notes: str = ""

    def unfolded(self) -> tuple[sp.Expr, ...]:
        """Return the outputs in terms of the arguments alone."""
        known: dict[sp.Symbol, sp.Expr] = {}
        for line in self.lines:
            known[line.name] = line.value.subs(known, simultaneous=True)
        return tuple(sp.sympify(output).subs(known, simultaneous=True) for output in self.outputs)

    def prove(self) -> None:
        """Show that the program computes the derived expressions.

        Raises
        ------
        NotProven
            If SymPy can't reduce a difference to zero.
        """
        if len(self.outputs) != len(self.derived):
            raise NotProven(f"{self.name}: {len(self.outputs)} outputs, {len(self.derived)} derived expressions")
        for k, (computed, derived) in enumerate(zip(self.unfolded(), self.derived, strict=True)):
            if not vanishes(computed - derived):
                raise NotProven(f"{self.name}, output {k}: the numeric form isn't the derived one")


@dataclass(frozen=True)
class Module:
    """A numeric module: its name, what it is about, its functions, and what is promised about their accuracy."""

    name: str
    summary: str
    functions: tuple[Function, ...]
    accuracy: str


def vanishes(expression: sp.Expr) -> bool:
    """Decide whether an expression is identically zero for V, L > 1.

    Handles rational functions of the symbols, of square roots, of exponentials (exp(k z) is the k-th power of one
    positive symbol per z) and of logarithms, and half angles of ``atan2``.
    """
    beyond_one = {symbol: 1 + sp.Dummy(positive=True) for symbol in (V, L)}
    expression = expression.replace(_is_half_angle, _half_angle)
    if expression.find(_is_root) or expression.has(sp.log):
        expression = expression.subs(beyond_one).replace(sp.log, lambda argument: sp.log(sp.factor(argument)))
        expression = sp.expand_log(expression, force=True)
        expression = expression.replace(_is_root, lambda root: sp.sqrt(sp.factor(root.base)) ** (2 * root.exp))
    symbols: dict[sp.Expr, sp.Dummy] = {}
    powers = {}
    for exponential in expression.atoms(sp.exp):
        k, z = exponential.args[0].as_coeff_Mul()
        powers[exponential] = symbols.setdefault(z, sp.Dummy(positive=True)) ** k
    numerator, _ = sp.fraction(sp.together(expression.xreplace(powers)))
    return _expands_to_zero(numerator)


def _expands_to_zero(expression: sp.Expr) -> bool:
    """Multiply out as a sparse polynomial (much faster than ``expand``); roots and logarithms count as symbols."""
    atoms = {atom: sp.Dummy() for atom in expression.find(lambda e: _is_root(e) or isinstance(e, sp.log))}
    expression = expression.xreplace(atoms)
    if not expression.free_symbols:
        return bool(expression == 0)
    ring = sp.polys.rings.PolyRing(sorted(expression.free_symbols, key=str), sp.QQ)
    return bool(ring.from_expr(expression) == 0)


def _is_root(expression: sp.Expr) -> bool:
    return bool(expression.is_Pow and expression.exp.is_Rational and not expression.exp.is_Integer)


def _is_half_angle(expression: sp.Expr) -> bool:
    return isinstance(expression, sp.tan) and isinstance(2 * expression.args[0], sp.atan2)


def _half_angle(tangent: sp.Expr) -> sp.Expr:
    """Return tan(θ/2) = (√(x² + y²) − x)/y for θ = atan2(y, x)."""
    y, x = (2 * tangent.args[0]).args
    return (sp.sqrt(x**2 + y**2) - x) / y
