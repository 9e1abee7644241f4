"""Numeric form of the posterior's data action Φ and its derivatives in the four averages.

Written with x = 1 + t s₂ and y = 1 + t q, the brackets are (1 + t (s₂ − s²))/x and (1 + t (q − g²))/y: both differences
are variances, so nothing negative is added. The callers pass the variances, because for a pattern they are known
without subtraction.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import posterior
from phasekit.derivations.symbols import P, T, V, g, kappa, q, s, s2, sigma_w, t

MODEL = (P, V, sigma_w, kappa)
ARGUMENTS = (s, s2, g, q, *MODEL)

data, bulk, x, y, w1, w, per_x, per_y, rest_1, rest, pull_1, pull, width = sp.symbols(
    "data bulk x y w1 w per_x per_y rest_1 rest pull_1 pull width"
)
spread_1, spread, bias_1, bias, s_sq, g_sq, give_1, give = sp.symbols(
    "spread_1 spread bias_1 bias s_sq g_sq give_1 give"
)

STRENGTH = Line(t, T, "strength of the data against the prior of W")
DATA = Line(data, P / kappa)
BULK = Line(bulk, (V - 1) * data)
NORM_1 = Line(x, 1 + t * s2)
NORM = Line(y, 1 + t * q)
PER_X = Line(per_x, t / (1 + t * s2))
PER_Y = Line(per_y, t / (1 + t * q))
REST_1 = Line(rest_1, 1 + t * (s2 - s**2))
REST = Line(rest, 1 + t * (q - g**2))
READOUT_1 = Line(w1, s * per_x, "readout along the constant direction")
READOUT = Line(w, g * per_y, "readout in the bulk")

ACCURACY = "a few units in the last place, of a sum relative to the sum of the absolute values of its terms."


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    action = posterior.data_action().subs(t, T)
    forces = tuple(posterior.forces()[a].subs(t, T) for a in (s, s2, g, q))
    stiffness = tuple(value.subs(t, T) for value in posterior.stiffness().values())
    return Module(
        "mean_field",
        "Posterior data action Φ of any attention matrix, as a function of its averages (s, s2, g, q).",
        (
            Function(
                "action",
                "Return Φ, with W integrated out.",
                ARGUMENTS,
                (
                    *(STRENGTH, Line(data, P / (2 * kappa * V)), BULK, REST_1, REST),
                    *(Line(x, t * s2), Line(y, t * q)),
                    Line(pull, data * rest_1 / (1 + x) + bulk * rest / (1 + y)),
                    Line(width, V / 2 * (sp.log(1 + x) + (V - 1) * sp.log(1 + y)), "what the readout's width costs"),
                ),
                (pull + width,),
                (action,),
            ),
            Function(
                "forces",
                "Return (Φ_s, Φ_s2, Φ_g, Φ_q).",
                ARGUMENTS,
                (STRENGTH, Line(data, P / (kappa * V)), BULK, PER_X, PER_Y, READOUT_1, READOUT),
                (
                    -data * w1,
                    (data * w1**2 + V * per_x) / 2,
                    -bulk * w,
                    (bulk * w**2 + V * (V - 1) * per_y) / 2,
                ),
                forces,
            ),
            Function(
                "stiffness",
                "Return the second derivatives of Φ: (ss, ss2, s2s2, gg, gq, qq).",
                ARGUMENTS,
                (
                    *(STRENGTH, Line(data, P / (kappa * V)), BULK, PER_X, PER_Y, READOUT_1, READOUT),
                    *(Line(pull_1, data * per_x), Line(pull, bulk * per_y)),
                    Line(give_1, pull_1 * w1**2 + V * per_x**2 / 2),
                    Line(give, pull * w**2 + V * (V - 1) * per_y**2 / 2),
                ),
                (
                    -pull_1,
                    pull_1 * w1,
                    -give_1,
                    -pull,
                    pull * w,
                    -give,
                ),
                stiffness,
            ),
            Function(
                "loss",
                "Return the expected mean squared error per position, 2 ∂Φ/∂(P/κ) at fixed averages.",
                ARGUMENTS,
                (
                    *(STRENGTH, NORM_1, NORM),
                    *(Line(s_sq, s**2), Line(g_sq, g**2)),
                    *(Line(spread_1, t * (s2 - s_sq)), Line(spread, t * (q - g_sq))),
                    Line(bias_1, ((1 + spread_1) ** 2 + t * s_sq * spread_1) / x**2),
                    Line(bias, ((1 + spread) ** 2 + t * g_sq * spread) / y**2, "of the mean readout"),
                    Line(pull, (bias_1 + (V - 1) * bias) / V),
                ),
                (pull + sigma_w**2 * (s2 / x + (V - 1) * q / y),),
                (posterior.loss().subs(t, T),),
            ),
        ),
        ACCURACY,
    )
