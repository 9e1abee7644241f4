"""From the score object to the attention pattern: what a score makes of a row with one raised entry."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.symbols import L
from phasekit.scores import Score

#: Row lengths at which the formula for general L is compared with the score's own row map.
CHECKED_LENGTHS = (2, 3, 4, 6)


class UnknownRowLaw(ValueError):
    """The score's dependence on the row length is none of the two that this module knows."""


def two_level_row(score: Score, copy_logit: sp.Expr, other_logit: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return the weights (copy entry, any other entry) of a row of symbolic length L.

    The row map is asked for rows of two entries, one copy entry with logit u and one other with logit v. Two laws
    carry this to any length: a normalised elementwise score keeps the ratio of the two weights and divides by the
    row sum; an unnormalised one depends on the length by the factor 1/L. Which law holds is read off, and checked
    against the score's own row map, at several lengths.

    Raises
    ------
    UnknownRowLaw
        If neither law reproduces the score at every length in ``CHECKED_LENGTHS``.
    """
    u, v = sp.symbols("u v", real=True)
    high, low = score.symbolic_rows([u, v])
    if score.normalised:
        ratio = sp.powsimp(sp.simplify(high / low))
        copy, other = ratio / (ratio + L - 1), 1 / (ratio + L - 1)
    else:
        copy, other = 2 * high / L, 2 * low / L
    for length in CHECKED_LENGTHS:
        row = score.symbolic_rows([u] + [v] * (length - 1))
        for weight, law in zip(row, [copy] + [other] * (length - 1), strict=True):
            if sp.simplify(weight - law.subs(L, length)) != 0:
                raise UnknownRowLaw(f"{score.name}: the weights of a row of {length} entries follow another law")
    logits = {u: copy_logit, v: other_logit}
    return _insert(copy, logits), _insert(other, logits)


def averages_of_pattern(copy: sp.Expr, other: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """Return s, s₂, g, q when every row has weight ``copy`` on its copy entry and ``other`` on the L − 1 others."""
    row_sum = sp.simplify(copy + (L - 1) * other)
    return row_sum, row_sum**2, copy, copy**2 + (L - 1) * other**2


def _insert(weight: sp.Expr, logits: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Insert the logits, and add up the exponents (SymPy leaves e^(Δ(L−1)/L + Δ/L) as it is)."""
    return weight.subs(logits, simultaneous=True).replace(sp.exp, lambda exponent: sp.exp(sp.expand(exponent)))
