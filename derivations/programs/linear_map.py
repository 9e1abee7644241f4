"""Numeric form of the linear map action.

With q − g² = (1 − 1/L) c1²/L every bracket of the action becomes a quotient of sums of positive terms:

    1 − t s²/(1 + t s²) = 1/(1 + t s²)
    1 − t g²/(1 + t q)  = w/u,    w = 1 + t (q − g²),   u = w + t g² = 1 + t q

so nothing cancels in the action and the loss. The derivatives are differences between data and prior, as they must
be where they vanish; each of their terms is accurate.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import evidence, linear, prior
from phasekit.derivations.symbols import L, P, T, V, c1, cG, g, kappa, lam, q, s, s2, sigma_g, sigma_w, t

ARGUMENTS = (c1, cG, P, V, L, sigma_w, sigma_g, kappa, lam)

data, bulk, rest, slope, pooling, copying = sp.symbols("data bulk rest slope pooling copying")
pull_s, pull_g, pull_1 = sp.symbols("pull_s pull_g pull_1")
s_sq, u1, spread, field, w, u, m1 = sp.symbols("s_sq u1 spread field w u m1")
per_u1, per_u, per_u_sq, bracket, drive, force_s, both, stiff, turn, lean, side, load, cG_sq = sp.symbols(
    "per_u1 per_u per_u_sq bracket drive force_s both stiff turn lean side load cG_sq"
)

# Numbers that depend on the model only.
STRENGTH = Line(t, T, "strength of the data against the prior of W")
DATA = Line(data, P / (2 * kappa * V), "weight of the constant direction of vocabulary space")
BULK = Line(bulk, (V - 1) * data, "weight of the V − 1 other directions")
REST = Line(rest, t * (L - 1) / L, "t (1 − 1/L)")
SLOPE = Line(slope, rest / L)
POOLING = Line(pooling, lam / sigma_g**2, "prior curvature of s")
COPYING = Line(copying, L**2 * (L - 1) / sigma_g**2, "prior curvature of cG")
PULL_S = Line(pull_s, 2 * t * data)
PULL_G = Line(pull_g, 2 * t * bulk)
PULL_1 = Line(pull_1, pull_g / L)
MODEL = (STRENGTH, DATA, BULK, REST, SLOPE, POOLING, COPYING)
PULLS = (PULL_S, PULL_G, PULL_1)

# Numbers that depend on the order parameters.
ROW_SUM = Line(s, c1 + cG, "mean row sum")
OVERLAP = Line(g, cG + c1 / L, "copy overlap")
SQUARE = Line(s_sq, s**2)
COPY_SQUARE = Line(cG_sq, cG**2)
SPREAD = Line(spread, slope * c1**2, "t (q − g²)")
SPREAD_1 = Line(w, 1 + slope * c1**2, "1 + t (q − g²)")
FIELD = Line(field, t * g**2)
NORM = Line(u, w + field, "1 + t q")
PLACE = (ROW_SUM, OVERLAP, SPREAD_1)

# Value: the two brackets are 1/u1 and w/u.
PER_U1 = Line(per_u1, 1 / (1 + t * s_sq))
PER_U = Line(per_u, 1 / (w + t * g**2), "1/(1 + t q)")
BRACKET = Line(bracket, w * per_u)
VALUE = data * per_u1 + bulk * bracket + (pooling * s_sq + copying * cG_sq) / 2

# Gradient. The bulk bracket has the derivatives 2 t g m1/(L u²) along c1 and −2 t g w/u² along cG.
PER_U_SQ = Line(per_u_sq, per_u**2)
DRIVE = Line(drive, g * per_u_sq)
LEAN = Line(lean, rest * c1)
MIXED = Line(m1, lean * cG - 1)
FORCE_S = Line(force_s, pull_s * per_u1**2)
LOAD = Line(load, pull_g * w)
BOTH = Line(both, s * (pooling - force_s), "force through the row sum s = c1 + cG")
GRADIENT = (both + pull_1 * drive * m1, both + copying * cG - load * drive)

# Hessian, with (1 − 3 t s²)/u1 = 4/u1 − 3 and (w − 3 t g²)/u = 4 w/u − 3.
STIFF = Line(stiff, pooling - force_s * (4 * per_u1 - 3), "curvature through s")
TURN = Line(turn, 4 * t * g * s * per_u, "turning of the norm against the overlap")
SIDE = Line(side, pull_1 * per_u_sq)
HESSIAN = (
    stiff + side / L * (2 * m1 + 1 + rest * L * cG_sq - turn * m1),
    stiff - side * (w + 2 * lean * g - turn * w),
    stiff + copying - load * per_u_sq * (4 * bracket - 3),
)

ACCURACY = (
    "S and the loss to a few units in the last place of their own value; a derivative relative to the sum of the "
    "absolute values of its terms (data and prior), because it is their difference. The copy overlap g = cG + "
    "c1/L enters the derivatives as a factor; where it cancels, they are accurate relative to |cG| + |c1|/L."
)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    action = linear.action().subs(t, T)
    loss = linear.map_loss().subs(t, T)
    gradient = (sp.diff(action, c1), sp.diff(action, cG))
    hessian = (sp.diff(action, c1, 2), sp.diff(action, c1, cG), sp.diff(action, cG, 2))
    S = sp.Symbol("S")
    shown = (sp.Eq(S, evidence.data_action() + prior.pattern_cost()), sp.Eq(t, T))
    return Module(
        "linear_map",
        "Map action of linear attention over the order parameters c1 (pooling) and cG (copying).",
        (
            Function(
                "averages",
                "Return (s, s2, g, q): mean row sum, mean squared row sum, copy overlap, squared norm / L.",
                (c1, cG, L),
                (ROW_SUM, OVERLAP),
                (s, s**2, g, g**2 + (L - 1) * (c1 / L) ** 2),
                linear.averages(),
                tuple(sp.Eq(name, value) for name, value in zip((s, s2, g, q), linear.averages(), strict=True)),
            ),
            Function(
                "action",
                "Return the action S, at the averages s, s2 = s², g, q.",
                ARGUMENTS,
                (*MODEL, *PLACE, SQUARE),
                (data / (1 + t * s_sq) + bulk * w / (w + t * g**2) + (pooling * s_sq + copying * cG**2) / 2,),
                (action,),
                shown,
            ),
            Function(
                "gradient",
                "Return (S_c1, S_cG).",
                ARGUMENTS,
                (
                    *(*MODEL, *PULLS, *PLACE, Line(per_u1, 1 / (1 + t * s**2)), PER_U),
                    *(Line(drive, g * per_u**2), LEAN, MIXED, LOAD, FORCE_S, BOTH),
                ),
                GRADIENT,
                gradient,
            ),
            Function(
                "hessian",
                "Return (S_c1c1, S_c1cG, S_cGcG).",
                ARGUMENTS,
                (
                    *(*MODEL, *PULLS, *PLACE, Line(per_u1, 1 / (1 + t * s**2)), PER_U, BRACKET, PER_U_SQ),
                    *(COPY_SQUARE, LEAN, MIXED, LOAD, FORCE_S, STIFF, TURN, SIDE),
                ),
                HESSIAN,
                hessian,
            ),
            Function(
                "jet",
                "Return (S, S_c1, S_cG, S_c1c1, S_c1cG, S_cGcG), for about the price of the Hessian.",
                ARGUMENTS,
                (
                    *(*MODEL, *PULLS, *PLACE, SQUARE, COPY_SQUARE, PER_U1, PER_U, BRACKET, PER_U_SQ),
                    *(DRIVE, LEAN, MIXED, LOAD, FORCE_S, BOTH, STIFF, TURN, SIDE),
                ),
                (VALUE, *GRADIENT, *HESSIAN),
                (action, *gradient, *hessian),
            ),
            Function(
                "loss",
                "Return the mean squared error per position at the best W, at the averages s, s2 = s², g, q.",
                ARGUMENTS,
                (
                    *(STRENGTH, REST, SLOPE, ROW_SUM, OVERLAP),
                    *(Line(u1, 1 + t * s**2), SPREAD, Line(w, 1 + spread), FIELD, NORM),
                ),
                ((1 / u1**2 + (V - 1) * (w**2 + field * spread) / u**2) / V,),
                (loss,),
                (sp.Eq(sp.Symbol("loss"), evidence.loss()), sp.Eq(t, T)),
            ),
        ),
        ACCURACY,
    )
