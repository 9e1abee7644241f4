"""Print SymPy expressions as code that reads as if written by hand (SymPy's own printers scramble the order).

Factors and terms appear in the order in which their symbols are defined. What depends on the model only is defined
first, so a product of model numbers (small arrays) is formed before it meets the order parameters (large arrays).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sympy as sp
from sympy.codegen.cfunctions import expm1, log1p

#: Functions and their names.
FUNCTIONS = {
    sp.exp: "exp",
    sp.log: "log",
    sp.sqrt: "sqrt",
    sp.tan: "tan",
    sp.atan2: "arctan2",
    expm1: "expm1",
    log1p: "log1p",
}

_SUM, _PRODUCT, _POWER, _ATOM = range(4)


class UnreadableCode(ValueError):
    """An expression that this printer doesn't know, or whose code would be slow: name a part of it."""


class Printer:
    """Prints expressions over the given symbols as NumPy code; a subclass prints for another language.

    Parameters
    ----------
    order : sequence of sympy.Symbol
        All symbols, in order of definition.
    """

    functions: ClassVar[Mapping[Any, str]] = {kind: f"np.{name}" for kind, name in FUNCTIONS.items()}

    def __init__(self, order: Sequence[sp.Symbol]) -> None:
        self._rank = {symbol: k for k, symbol in enumerate(order)}

    def __call__(self, expression: sp.Expr) -> str:
        """Return one line of code.

        Raises
        ------
        UnreadableCode
            For unknown functions, unknown symbols, and powers beyond the fourth (slow in numpy).
        """
        return self._print(sp.sympify(expression))[0]

    def _print(self, e: sp.Expr) -> tuple[str, int]:
        """Return the code and how tightly it binds."""
        if e.is_Symbol and e in self._rank:
            return e.name, _ATOM
        if e.is_Integer and e >= 0:
            return str(e), _ATOM
        if e.is_Add:
            return self._sum(e), _SUM
        if e.is_Mul or e.is_Rational:
            return self._product(e)
        if e.is_Pow:
            return self._power(e)
        if e.func is sp.log and e.args[0].is_Add and 1 in e.args[0].args:
            return f"{self.functions[log1p]}({self(e.args[0] - 1)})", _ATOM  # exact where the argument is close to 1
        if e.func in FUNCTIONS:
            return f"{self.functions[e.func]}({', '.join(self(argument) for argument in e.args)})", _ATOM
        raise UnreadableCode(f"can't print {e}")

    def _bound(self, e: sp.Expr, strength: int) -> str:
        text, binds = self._print(e)
        return text if binds >= strength else f"({text})"

    def _position(self, e: sp.Expr) -> tuple[int, int]:
        """Where the latest and the earliest symbol of an expression is defined."""
        ranks = [self._rank.get(symbol, -1) for symbol in e.free_symbols]
        return (max(ranks), min(ranks)) if ranks else (-1, -1)

    def _sum(self, e: sp.Add) -> str:
        negative = {term: sp.sympify(term).as_coeff_Mul()[0].is_negative for term in e.args}
        terms = sorted(
            e.args, key=lambda term: (negative[term], negative[term] and term.is_number, self._position(term))
        )
        if negative[terms[0]]:
            raise UnreadableCode(f"a sum of negative terms: {e}")
        text = self._bound(terms[0], _PRODUCT)
        for term in terms[1:]:
            text += f" - {self._bound(-term, _PRODUCT)}" if negative[term] else f" + {self._bound(term, _PRODUCT)}"
        return text

    def _product(self, e: sp.Expr) -> tuple[str, int]:
        over, under = [], []
        for factor in sp.Mul.make_args(e):
            if factor.is_Rational:
                over += [sp.Integer(factor.p)] if factor.p != 1 else []
                under += [sp.Integer(factor.q)] if factor.q != 1 else []
            elif factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
                under.append(1 / factor)
            else:
                over.append(factor)
        if any(factor.is_Integer and factor < 0 for factor in over):
            return f"-{self._bound(-e, _PRODUCT)}", _SUM
        over.sort(key=self._position)
        under.sort(key=self._position)
        text = " * ".join(self._bound(factor, _POWER) for factor in over) or "1"
        if len(under) == 1:
            text += f" / {self._bound(under[0], _POWER)}"
        elif under:
            text += f" / ({' * '.join(self._bound(factor, _POWER) for factor in under)})"
        return text, _PRODUCT if under or len(over) > 1 else self._print(over[0])[1]

    def _power(self, e: sp.Pow) -> tuple[str, int]:
        base, exponent = e.as_base_exp()
        if exponent == sp.Rational(1, 2):
            return f"{self.functions[sp.sqrt]}({self(base)})", _ATOM
        if exponent.is_Rational and exponent.is_negative:
            return self._product(e)
        return self._raised(base, exponent)

    def _raised(self, base: sp.Expr, exponent: sp.Expr) -> tuple[str, int]:
        if exponent.free_symbols:
            power = "**" if base.is_Symbol and exponent.is_Symbol else " ** "
            return f"{self._bound(base, _ATOM)}{power}{self._bound(exponent, _ATOM)}", _POWER
        square = f"{self(base)}**2" if base.is_Symbol else f"({self(base)}) ** 2"
        if exponent == 2:
            return square, _POWER
        if exponent == 3 and base.is_Symbol:
            return f"{square} * {self(base)}", _PRODUCT
        if exponent == 4 and base.is_Symbol:
            return f"({square}) ** 2", _POWER
        raise UnreadableCode(f"power {exponent} of {base}")
