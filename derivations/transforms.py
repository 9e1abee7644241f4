"""The transforms t(x) of the softmax family with their first two derivatives, from each score's own symbolic form.

They are printed for NumPy and for JavaScript, from |x| for either sign of x: signs then are no condition.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import sympy as sp
from sympy.codegen.rewriting import log1p_opt, optimize

from derivations.printer import Printer, UnreadableCode
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.scores.registry import score_types

SIZE = sp.Symbol("size", positive=True)
_NAMES = ("a", "b", "c", "d", "e")


class Half(NamedTuple):
    """(t, t', t'') for one sign of x: named intermediate values, and what is returned."""

    score: str
    side: str
    numbers: tuple[sp.Symbol, ...]
    lines: tuple[tuple[sp.Symbol, sp.Expr], ...]
    outputs: tuple[sp.Expr, ...]

    def code(self, kind: type[Printer]) -> tuple[list[tuple[str, str]], list[str]]:
        """Return assignments and outputs as code."""
        printer = kind([*self.numbers, SIZE, *(name for name, _ in self.lines)])
        lines = [(name.name, _signed(printer, value)) for name, value in self.lines]
        return lines, [_signed(printer, output) for output in self.outputs]


def halves() -> Iterator[Half]:
    """Yield both halves of every registered transform of this package."""
    for name, kind in sorted(score_types().items()):
        if not issubclass(kind, ElementwiseSoftmax) or kind.__module__.partition(".")[0] != "phasekit":
            continue
        numbers = {number: sp.Symbol(number, positive=True) for number in kind().numbers}
        for sign, side in ((1, "upper"), (-1, "lower")):
            t = sp.sympify(kind().symbolic_transform(sign * SIZE, **numbers))
            jet = [sp.simplify(sign**order * sp.diff(t, SIZE, order)) for order in range(3)]
            fresh = iter(sp.Symbol(f"{letter}_") for letter in _NAMES)
            lines, outputs = sp.cse([optimize(part, [log1p_opt]) for part in jet], symbols=fresh, order="none")
            yield Half(name, side, tuple(numbers.values()), tuple(lines), tuple(outputs))


def numpy_source(header: str) -> str:
    """Return the generated module."""
    parts = [
        header,
        "\"\"\"Transforms t(x) of the softmax family, from |x|: (t, t', t'') for x ≥ 0 (upper) and x < 0 (lower).\n\n"
        "Accuracy: a few units in the last place of each value, wherever the score's numbers are finite.\n"
        '"""\n\nfrom collections.abc import Callable\n\nimport numpy as np\nfrom numpy.typing import NDArray\n\n'
        "Array = NDArray[np.float64]\n"
        "Half = Callable[..., tuple[Array, Array, Array]]\n",
    ]
    names = []
    for half in halves():
        lines, outputs = half.code(Printer)
        name = f"{half.score}_{half.side}"
        names.append((half.score, half.side, name))
        arguments = ", ".join(f"{symbol}: Array" for symbol in ("size", *half.numbers))
        constants = {"0": "np.zeros_like(size)", "1": "np.ones_like(size)"}
        outputs = [constants.get(output, output) for output in outputs]
        outputs = [o if "size" in o or "_" in o else f"{o} + np.zeros_like(size)" for o in outputs]
        body = [f'"""Return (t, t\', t\'\') of {half.score}."""', *(f"{left} = {right}" for left, right in lines)]
        body.append(f"return {', '.join(outputs)}")
        text = f"def {name}({arguments}) -> tuple[Array, Array, Array]:\n" + textwrap.indent("\n".join(body), "    ")
        parts.append(f"\n{text}\n")
    scores = sorted({score for score, _, _ in names})
    table = "".join(f'    "{score}": ({score}_upper, {score}_lower),\n' for score in scores)
    parts.append(f"\nTRANSFORMS: dict[str, tuple[Half, Half]] = {{\n{table}}}\n")
    return "\n".join(parts)


def javascript_source(kind: type[Printer]) -> str:
    """Return the same for one number, as an object of functions by the score's name."""
    sides: dict[str, dict[str, Half]] = {}
    for half in halves():
        sides.setdefault(half.score, {})[half.side] = half
    parts = []
    for score, pair in sides.items():
        arguments = ", ".join(["x", *map(str, pair["upper"].numbers)])
        body = ["const size = Math.abs(x);"]
        for side, condition in (("upper", "if (x >= 0) "), ("lower", "")):
            lines, outputs = pair[side].code(kind)
            inner = [*(f"const {left} = {right};" for left, right in lines), f"return [{', '.join(outputs)}];"]
            if condition:
                body += [f"{condition}{{", *(f"  {row}" for row in inner), "}"]
            else:
                body += inner
        parts.append(f'"{score}"({arguments}) {{\n' + textwrap.indent("\n".join(body), "  ") + "\n},\n")
    return "const transforms = {\n" + textwrap.indent("\n".join(parts), "  ") + "};\n"


def _signed(printer: Printer, expression: sp.Expr) -> str:
    """Print an expression that may be a sum of negative terms."""
    try:
        return printer(expression)
    except UnreadableCode:
        return f"-({printer(sp.expand(-expression))})"
