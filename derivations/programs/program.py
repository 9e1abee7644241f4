"""Straight-line numeric programs: the form in which a derived formula is computed, with a proof that it is the formula.

A formula that is right on paper may lose all its digits in floating point (1 − t g²/(1 + t q) when t is large).
A :class:`Function` therefore states the order of computation explicitly: named intermediate values in a
cancellation-free form. :meth:`Function.prove` has SymPy show that inserting them gives the derived expression back.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from phasekit.derivations.proof import NotProven, require_equal


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
            require_equal(computed, derived, f"{self.name}, output {k}: the numeric form isn't the derived one")


@dataclass(frozen=True)
class Module:
    """A numeric module: its name, what it is about, its functions, and what is promised about their accuracy."""

    name: str
    summary: str
    functions: tuple[Function, ...]
    accuracy: str
