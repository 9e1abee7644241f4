"""Numeric form of the softmax map action.

With x = (L − 1) e^(−Δ), the odds against the copy entry (α = 1/(1 + x)), the bulk bracket becomes

    1 − t g²/(1 + t q) = N/(N + t),    N = (1 + x)² + t x²/(L − 1) = 1 + 2 x + (1 + t/(L − 1)) x²

and dx/dΔ = −x, so value and derivatives need one exponential and sums of positive terms; no α² and no
1 − α ever has to be formed, and nothing overflows while Δ > −700.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import evidence, prior, softmax
from phasekit.derivations.symbols import L, P, T, V, g, gap, kappa, q, s, s2, sigma_g, sigma_w, t

ARGUMENTS = (gap, P, V, L, sigma_w, sigma_g, kappa)

data, bulk, others, excess, stiffness, base, pull, full = sp.symbols("data bulk others excess stiffness base pull full")
x, y, N, D, per_D, weight, wide, dilution = sp.symbols("x y N D per_D weight wide dilution")

# Numbers that depend on the model only.
STRENGTH = Line(t, T, "strength of the data against the prior of W")
FULL = Line(full, 1 + t)
OTHERS = Line(others, L - 1, "entries of a row that aren't copied")
EXCESS = Line(excess, 1 + t / others)
DATA = Line(data, P / (2 * kappa * V), "weight of the constant direction of vocabulary space")
BULK = Line(bulk, (V - 1) * data, "weight of the V − 1 other directions")
BASE = Line(base, data / full, "what the constant direction contributes: rows sum to 1")
STIFFNESS = Line(stiffness, others / sigma_g**2, "prior curvature")
PULL = Line(pull, 2 * t * bulk)

# Numbers that depend on the gap.
ODDS = Line(x, others * sp.exp(-gap), "odds against the copy entry")
SPREAD = Line(y, excess * x)
NUMERATOR = Line(N, 1 + x * (2 + y))
NUMERATOR_PLAIN = Line(N, 1 + x * (2 + excess * x))
DENOMINATOR = Line(D, full + x * (2 + y), "N + t")
PER_D = Line(per_D, 1 / (N + t))
WIDE = Line(wide, 1 + 2 * y)
WEIGHT = Line(weight, pull * x * per_D**2)

VALUE = base + bulk * N * per_D + stiffness * gap**2 / 2
GRADIENT = stiffness * gap - weight * (1 + y)
# From N'' D − 2 N'² with N' = −2x(1 + y), N'' = 2x(1 + 2y), and the terms that cancel identically taken out.
HESSIAN = stiffness + weight * per_D * (full * wide - x * (2 + y * (2 + wide)))

ACCURACY = (
    "S and the loss to a few units in the last place of their own value; a derivative relative to the sum of the "
    "absolute values of its terms (data and prior), because it is their difference. Valid for gap > −700 (below, "
    "the odds overflow)."
)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    action = softmax.action().subs(t, T)
    loss = softmax.map_loss().subs(t, T)
    gradient, hessian = sp.diff(action, gap), sp.diff(action, gap, 2)
    S = sp.Symbol("S")
    derived_averages = softmax.averages()
    residual = derived_averages[3] - derived_averages[2] ** 2
    copy = sp.Symbol("copy")
    return Module(
        "softmax_map",
        "Map action of softmax attention over the logit gap Δ of the copy entry.",
        (
            Function(
                "averages",
                "Return (s, s2, g, q): mean row sum, mean squared row sum, copy overlap, squared norm / L.",
                (gap, L),
                (
                    OTHERS,
                    ODDS,
                    Line(copy, 1 / (1 + x), "weight of the copy entry"),
                    Line(dilution, x * copy, "of all others"),
                ),
                (sp.Integer(1), sp.Integer(1), copy, copy**2 + dilution**2 / others),
                derived_averages,
                tuple(sp.Eq(name, value) for name, value in zip((s, s2, g, q), derived_averages, strict=True)),
            ),
            Function(
                "residual",
                "Return q − g², the part of the squared norm that doesn't copy.",
                (gap, L),
                (OTHERS, ODDS, Line(dilution, x / (1 + x), "weight of all other entries")),
                (dilution**2 / others,),
                (residual,),
            ),
            Function(
                "action",
                "Return the action S, at the averages s = s2 = 1, g, q.",
                ARGUMENTS,
                (STRENGTH, FULL, OTHERS, EXCESS, DATA, BULK, BASE, STIFFNESS, ODDS, NUMERATOR_PLAIN),
                (base + bulk * N / (N + t) + stiffness * gap**2 / 2,),
                (action,),
                (sp.Eq(S, evidence.data_action() + prior.gap_cost()), sp.Eq(t, T)),
            ),
            Function(
                "gradient",
                "Return dS/dΔ.",
                ARGUMENTS,
                (STRENGTH, FULL, OTHERS, EXCESS, DATA, BULK, STIFFNESS, PULL, ODDS, SPREAD, DENOMINATOR),
                (stiffness * gap - pull * x * (1 + y) / D**2,),
                (gradient,),
            ),
            Function(
                "hessian",
                "Return d²S/dΔ².",
                ARGUMENTS,
                (STRENGTH, FULL, OTHERS, EXCESS, DATA, BULK, STIFFNESS, PULL, ODDS, SPREAD, DENOMINATOR, WIDE),
                (stiffness + pull * x * (full * wide - x * (2 + y * (2 + wide))) / D**3,),
                (hessian,),
            ),
            Function(
                "jet",
                "Return (S, dS/dΔ, d²S/dΔ²).",
                ARGUMENTS,
                (
                    *(STRENGTH, FULL, OTHERS, EXCESS, DATA, BULK, BASE, STIFFNESS, PULL),
                    *(ODDS, SPREAD, NUMERATOR, PER_D, WEIGHT, WIDE),
                ),
                (VALUE, GRADIENT, HESSIAN),
                (action, gradient, hessian),
            ),
            Function(
                "loss",
                "Return the mean squared error per position at the best W, at the averages s = s2 = 1, g, q.",
                ARGUMENTS,
                (STRENGTH, FULL, OTHERS, EXCESS, ODDS, NUMERATOR_PLAIN),
                ((1 / full**2 + (V - 1) * (N**2 + t * (t / others) * x**2) / (N + t) ** 2) / V,),
                (loss,),
                (sp.Eq(sp.Symbol("loss"), evidence.loss()), sp.Eq(t, T)),
            ),
        ),
        ACCURACY,
    )
