"""Numeric form of the data part over log odds, and of the gap that entmax needs for them.

The data part is that of softmax attention (see ``programs.softmax_map``), without the prior. For α-entmax, with
k = α − 1, x = (L − 1) e^(−δ) and copy weight 1/(1 + x), nothing but 1 − e^(−kδ) is ever a difference.
"""

from __future__ import annotations

import sympy as sp
from sympy.codegen.cfunctions import expm1, log1p

from derivations.programs import softmax_map as softmax
from derivations.programs.program import Function, Line, Module
from phasekit.derivations import two_level
from phasekit.derivations.symbols import L, P, T, V, gap, kappa, sigma_w, t
from phasekit.derivations.two_level import delta, k, weight

rate, decay, share, level = sp.symbols("rate decay share level", positive=True)
x, force = sp.symbols("x force")
y, N, per_D, wide = softmax.y, softmax.N, softmax.per_D, softmax.wide
pull, full, bulk, base, excess, others = (
    line.name for line in (softmax.PULL, softmax.FULL, softmax.BULK, softmax.BASE, softmax.EXCESS, softmax.OTHERS)
)


def module() -> Module:
    """Build the functions over log odds, with the derived expressions that they are proven against."""
    action = two_level.data_action().subs(t, T)
    return Module(
        "two_level",
        "Data part of any normalised score's map action, over the log odds δ of the copy entry against another one.",
        (
            Function(
                "data_jet",
                "Return (Φ, dΦ/dδ, d²Φ/dδ²).",
                (delta, P, V, L, sigma_w, kappa),
                (
                    *(softmax.STRENGTH, softmax.FULL, softmax.OTHERS, softmax.EXCESS, softmax.DATA, softmax.BULK),
                    *(softmax.BASE, softmax.PULL),
                    Line(x, others * sp.exp(-delta), "odds against the copy entry"),
                    Line(y, excess * x),
                    Line(N, 1 + x * (2 + y)),
                    Line(per_D, 1 / (N + t)),
                    Line(force, pull * x * per_D**2),
                    Line(wide, 1 + 2 * y),
                ),
                (
                    base + bulk * N * per_D,
                    -(force * (1 + y)),
                    force * per_D * (full * wide - x * (2 + y * (2 + wide))),
                ),
                (action, sp.diff(action, delta), sp.diff(action, delta, 2)),
            ),
            _force(),
            _entmax(),
        ),
        "Φ to a few units in the last place of its own value, its first derivative too (a single product); the second "
        "one relative to the sum of the absolute values of its terms. The gap and its first derivative have full "
        "relative accuracy for k δ > 0, the force and its logarithmic slope always (sums of positive terms).",
    )


def _force() -> Function:
    a, b, c, d, e, f = sp.symbols("a b c d e f", positive=True)
    derived = two_level.data_force()
    return Function(
        "data_force",
        "Return (force, d ln force/d ln t): the force −dΦ/dδ of data of strength t = Pσ_w²/(κV).",
        (delta, t, V, L, sigma_w),
        (
            Line(x, (L - 1) * sp.exp(-delta), "odds against the copy entry"),
            Line(a, 1 + x),
            Line(b, x / (L - 1)),
            Line(c, a**2),
            Line(d, c + t * (1 + b * x)),
            Line(e, t * b),
            Line(f, a + e),
        ),
        (
            (V - 1) / sigma_w**2 * x * f * (t / d) ** 2,
            2 * c / d + e / f,
        ),
        (derived, t * sp.diff(derived, t) / derived),
        (sp.Eq(sp.Symbol("force"), derived),),
    )


def _entmax() -> Function:
    # Powers of the copy weight are written as exponentials, which the proof knows how to compare.
    log_weight = -sp.log(1 + (L - 1) * sp.exp(-delta))
    needed = two_level.entmax_gap().subs(weight**k, sp.exp(k * log_weight))
    return Function(
        "entmax_gap",
        "Return (Δ, dΔ/dδ, d²Δ/dδ²): the logit gap that α-entmax needs for log odds δ, with k = α − 1 > 0.",
        (delta, L, k),
        (
            Line(x, (L - 1) * sp.exp(-delta), "odds against the copy entry"),
            Line(share, 1 / (1 + x), "weight of the copy entry"),
            Line(rate, -k * delta),
            Line(decay, sp.exp(rate)),
            Line(level, sp.exp(-k * log1p(x)), "weight of the copy entry to the power k"),
        ),
        (
            -(level * expm1(rate) / k),
            level * share * (x + decay),
            level * share**2 * (k * x**2 - k * decay - x * (1 - decay)),
        ),
        (needed, sp.diff(needed, delta), sp.diff(needed, delta, 2)),
        (sp.Eq(gap, two_level.entmax_gap()), sp.Eq(weight, two_level.copy_weight())),
    )
