"""Numeric form of the data part of factorised linear attention: a row sum s, and r − 1 more singular values c.

In the readout w = t g/(1 + t q) of the bulk, whose derivatives are w_s = t (1 − 2 s w)/(L (1 + t q)) and (r − 1) times
the same with c, the action and its derivatives are polynomials of w.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import evidence, nuclear
from phasekit.derivations.nuclear import c, r
from phasekit.derivations.symbols import L, P, T, V, g, kappa, q, s, s2, sigma_w, t

ARGUMENTS = (s, c, r, P, V, L, sigma_w, kappa)

data, bulk, pull, others, x, per_s, per_q, w, stiff, give = sp.symbols(
    "data bulk pull others x per_s per_q w stiff give"
)
norm_q, with_s, with_c, drive, lift, force, rest = sp.symbols("norm_q with_s with_c drive lift force rest")
field, ahead, behind, copied = sp.symbols("field ahead behind copied")

STRENGTH = Line(t, T, "strength of the data against the prior of W")
DATA = Line(data, P / (2 * kappa * V), "weight of the constant direction of vocabulary space")
BULK = Line(bulk, (V - 1) * data, "weight of the V − 1 other directions")
PULL = Line(pull, 2 * bulk / L)
OTHERS = Line(others, r - 1, "modes of the shift besides the uniform one")
OVERLAP = Line(g, (s + others * c) / L, "copy overlap")
SQUARE = Line(x, s**2)
NORM = Line(norm_q, (x + others * c**2) / L, "squared norm / L")
PER_S = Line(per_s, 1 / (1 + t * x))
PER_Q = Line(per_q, 1 / (1 + t * norm_q))
FIELD = Line(field, t * per_q)
READOUT = Line(w, field * g, "readout in the bulk")
WITH_S, WITH_C = Line(with_s, s * w), Line(with_c, c * w)
DRIVE = Line(drive, pull * w)
LIFT = Line(lift, drive * w)
COPIED = Line(copied, others * lift)
FORCE = Line(force, 2 * data * t * per_s**2)
STIFF = Line(stiff, pull * field / L)
AHEAD, BEHIND = Line(ahead, 1 - 2 * with_s), Line(behind, 1 - 2 * with_c)
GIVE = Line(give, others * stiff)

ACCURACY = (
    "A few units in the last place, of a sum relative to the sum of the absolute values of its terms; where w g is "
    "close to 1, the action relative to P/κ."
)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    overlap, norm = nuclear.best_pattern()
    action = evidence.data_action(s, s**2, overlap, norm).subs(t, T)
    loss = evidence.loss().subs({s2: s**2, g: overlap, q: norm}, simultaneous=True).subs(t, T)
    seconds = tuple(sp.diff(action, x, y) for x, y in ((s, s), (s, c), (c, c)))
    return Module(
        "nuclear_map",
        "Data part of linear attention's map action over singular values: s of the row sums, c of r − 1 more modes.",
        (
            Function(
                "data_jet",
                "Return (Φ, Φ_s, Φ_c, Φ_ss, Φ_sc, Φ_cc).",
                ARGUMENTS,
                (
                    *(STRENGTH, DATA, BULK, PULL, OTHERS, OVERLAP, SQUARE, NORM, PER_S, PER_Q, FIELD, READOUT),
                    *(WITH_S, WITH_C, DRIVE, LIFT, COPIED, FORCE, STIFF, GIVE, AHEAD, BEHIND),
                ),
                (
                    data * per_s + bulk * (1 - w * g),
                    drive * (with_s - 1) - force * s,
                    -others * drive * (1 - with_c),
                    lift - stiff * ahead**2 - force * (4 * per_s - 3),
                    -give * ahead * behind,
                    copied - others * give * behind**2,
                ),
                (action, sp.diff(action, s), sp.diff(action, c), *seconds),
            ),
            Function(
                "loss",
                "Return the mean squared error per position at the best W.",
                ARGUMENTS,
                (
                    *(STRENGTH, OTHERS, OVERLAP, SQUARE, NORM, PER_S, PER_Q, FIELD, READOUT),
                    Line(rest, norm_q - g**2, "q − g²"),
                ),
                ((per_s**2 + (V - 1) * ((1 - w * g) ** 2 + w**2 * rest)) / V,),
                (loss,),
            ),
        ),
        ACCURACY,
    )
