"""Draw equations for a terminal or in LaTeX, positive terms first (SymPy alone writes −3 t s² + 1)."""

from __future__ import annotations

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.pretty.pretty import PrettyPrinter

from phasekit.derivations.symbols import GREEK, LATEX


class _PositiveFirst:
    """Mixin for SymPy's printers: order of the terms of a sum."""

    def _as_ordered_terms(self, expr: sp.Add, order: str | None = None) -> list[sp.Expr]:
        terms = super()._as_ordered_terms(expr, order="rev-lex")  # type: ignore[misc]
        return sorted(terms, key=lambda term: bool(term.as_coeff_Mul()[0].is_negative))


class _Unicode(_PositiveFirst, PrettyPrinter):  # type: ignore[misc]
    pass


class _Latex(_PositiveFirst, LatexPrinter):  # type: ignore[misc]
    pass


def unicode(equation: sp.Basic, names: dict[sp.Symbol, sp.Symbol] = GREEK) -> str:
    """Return an equation drawn over several lines, without trailing blanks, with symbols renamed by ``names``."""
    printer = _Unicode({"use_unicode": True, "wrap_line": False})
    return "\n".join(row.rstrip() for row in printer.doprint(equation.xreplace(names)).splitlines())


def latex(equation: sp.Basic) -> str:
    """Return an equation in LaTeX, without delimiters."""
    return str(_Latex({"symbol_names": LATEX}).doprint(equation))
