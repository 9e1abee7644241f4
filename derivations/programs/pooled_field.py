"""Numeric form of the data action Φ of linear attention with token+position inputs, and its forces.

The averages: mean s and transverse norm k⊥² of the pooling vector, the noise along the constant direction (n), along k⊥
(m) and in all others (q), and the copy overlap g.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.mean_field import STRENGTH
from derivations.programs.program import Function, Line, Module
from phasekit.derivations import pooling
from phasekit.derivations.pooling import k2, m, n
from phasekit.derivations.symbols import L, P, T, V, g, kappa, q, s, sigma_w, t

AVERAGES = (s, n, k2, g, m, q)
ARGUMENTS = (*AVERAGES, P, V, L, sigma_w, kappa)

data, x, y, w, keep_x, keep_y, keep_w, per_x, per_y, per_w = sp.symbols(
    "data x y w keep_x keep_y keep_w per_x per_y per_w"
)
s_sq, along, across, u, z, G, copied, copied_w, free = sp.symbols("s_sq along across u z G copied copied_w free")
f_u, f_across, pull, copying, half = sp.symbols("f_u f_across pull copying half")
grow, grow_across, width, rest, left, gain = sp.symbols("grow grow_across width rest left gain")

POOLED = (
    STRENGTH,
    *(Line(x, t * n), Line(y, t * m), Line(w, t * q)),
    *(Line(keep_x, 1 / (1 + x)), Line(keep_y, 1 / (1 + y)), Line(keep_w, 1 / (1 + w))),
    *(Line(per_x, t * keep_x), Line(per_y, t * keep_y), Line(per_w, t * keep_w)),
    Line(s_sq, s**2),
    Line(along, s_sq * per_x),
    Line(across, k2 * per_y),
    Line(u, along + across),
    Line(z, 1 / (1 + u), "what is left of the constant output"),
    Line(G, g**2 + k2 / L**2),
    Line(copied, per_y * G),
    Line(free, 1 - across * z, "of the direction of k⊥, for copying"),
)
COPIED_W = Line(copied_w, per_w * G)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    phi = pooling.data_action().subs(t, T)
    return Module(
        "pooled_field",
        "Posterior data action Φ of linear attention with token+position inputs, whose pooling is a vector.",
        (
            Function(
                "action",
                "Return Φ, with W integrated out.",
                ARGUMENTS,
                (
                    *POOLED,
                    Line(left, z + 1 - copied * free + (V - 2) * (keep_w + per_w * (q - G)), "unexplained"),
                    Line(width, sp.log(1 + x) + sp.log(1 + y) + (V - 2) * sp.log(1 + w) + sp.log(1 + u)),
                ),
                (P / (2 * kappa * V) * left + V / 2 * width,),
                (phi,),
            ),
            Function(
                "forces",
                "Return the derivatives of Φ by (s, n, k⊥², g, m, q).",
                ARGUMENTS,
                (
                    *(Line(data, P / (kappa * V)), *POOLED, COPIED_W, Line(half, data * copied / 2)),
                    Line(f_u, z / 2 * (V - z * (data + 2 * half * across))),
                    Line(f_across, f_u + half * z),
                    Line(copying, data * ((V - 2) * per_w + per_y * free)),
                ),
                (
                    2 * f_u * s * per_x,
                    per_x * (V / 2 - f_u * along),
                    per_y * f_across - copying / (2 * L**2),
                    -g * copying,
                    per_y * (V / 2 + half * free - f_across * across),
                    (V - 2) / 2 * per_w * (V + data * copied_w),
                ),
                tuple(sp.diff(phi, average) for average in AVERAGES),
            ),
            Function(
                "loss",
                "Return the expected mean squared error per position, 2 ∂Φ/∂(P/κ) at fixed averages.",
                ARGUMENTS,
                (
                    *(*POOLED, COPIED_W),
                    Line(grow_across, k2 * keep_y**2),
                    Line(grow, z * (s_sq * keep_x**2 + grow_across), "d ln(1 + u)/dt"),
                    Line(rest, (V - 2) * keep_w),
                    Line(width, n * keep_x + m * keep_y + q * rest + grow),
                    Line(left, z * (1 - t * grow) + 1 - copied * free + rest * (1 + t * (q - G))),
                    Line(gain, copied * (keep_y * free + t * z * (across * grow - grow_across)) + copied_w * rest),
                ),
                ((left - gain) / V + sigma_w**2 * width,),
                (pooling.loss().subs(t, T),),
            ),
        ),
        "a few units in the last place, of a sum relative to the sum of the absolute values of its terms.",
    )
