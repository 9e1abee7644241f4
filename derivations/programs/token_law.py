"""Numeric form of what the data say about g and q when tokens aren't equally frequent."""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import tokens
from phasekit.derivations.symbols import g, q
from phasekit.derivations.tokens import S21, S31, S32, S42, S53, size

rest, apart, pooled, share, per, overlap, both, skew, copied, weight, full, square, pair, rise, gain, fall = sp.symbols(
    "rest apart pooled share per overlap both skew copied weight full square pair rise gain fall"
)


def module() -> Module:
    """Build the function, with the derived expressions that it is proven against."""
    T = tokens.evidence()
    return Module(
        "token_law",
        "What the data of tokens of any frequencies say about an attention matrix whose rows sum to one.",
        (
            Function(
                "evidence",
                "Return (T, dT/dg, dT/dq) of the data part Φ = P/(2κ) (1 − T), from sums over the vocabulary.",
                (g, q, size, S21, S31, S32, S42, S53),
                (
                    Line(rest, 1 - g),
                    Line(apart, 1 - q),
                    Line(skew, rest - g),
                    Line(both, 2 * g * rest),
                    Line(copied, g**2),
                    Line(pooled, rest * size),
                    Line(weight, rest * pooled),
                    Line(full, copied + weight),
                    Line(per, 1 / (1 + apart * S21)),
                    Line(share, apart * per),
                    Line(pair, S21 * S31),
                    Line(square, S21**2),
                    Line(overlap, copied * S42 + both * pair + weight * square),
                    Line(rise, skew * (S31 - share * pair) + g * (S21 - share * S42) - pooled * (S21 - share * square)),
                    Line(gain, copied * S53 + both * (S32 * S31 + S21 * S42) / 2 + weight * S21 * S32),
                    Line(fall, S32 * full + both * S42),
                ),
                (
                    S21 * full + both * S31 - share * overlap,
                    2 * rise,
                    per**2 * overlap * (1 - apart**2 * S32) + 2 * share * gain - fall,
                ),
                (T, sp.diff(T, g), tokens.evidence_in_q()),
            ),
        ),
        "T to a few units in the last place; 1 − T, which is what is left to learn, relative to 1.",
    )
