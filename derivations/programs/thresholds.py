"""Numeric form of the closed-form thresholds.

The onset is an eigenvalue problem of the whitened matrix K (see ``landau.whitened``),

    K = | a      c |     a = 1 + ε,   ε = (V−1)/L²,   ξ = λ ε (L−1)/L²,   c² = ξ ε
        | c      ξ |

whose largest eigenvalue (a + ξ + √((a − ξ)² + 4 ξ ε))/2 is a sum of positive terms.
"""

from __future__ import annotations

import sympy as sp

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import copying, jump, landau, linear
from phasekit.derivations.symbols import D, L, P, T, V, c1, cG, g, kappa, lam, q, s, sigma_g, sigma_w, t

ARGUMENTS = (V, L, sigma_w, sigma_g, kappa, lam)

eps, a, xi, c, eigenvalue, mode, g_sq = sp.symbols("eps a xi c eigenvalue mode g_sq", positive=True)

R, k, lean, shrink, hinder, share = sp.symbols("R k lean shrink hinder share", positive=True)
bulk = sp.Symbol("bulk", positive=True)

EPS = Line(eps, (V - 1) / L**2, "weight of the bulk of vocabulary space in a uniform pattern")
POOLING = Line(a, 1 + eps, "instability of pooling")
COPYING = Line(xi, lam * eps * (L - 1) / L**2, "instability of copying")
EIGENVALUE = Line(eigenvalue, (a + xi + sp.sqrt((a - xi) ** 2 + 4 * xi * eps)) / 2, "largest eigenvalue of K")
COUPLING = Line(c, sp.sqrt(lam * (L - 1)) / L * eps, "coupling")
MODE = Line(mode, sp.sqrt(lam / (L - 1)) / L * sp.tan(sp.atan2(2 * c, a - xi) / 2), "cG/s")

ACCURACY = (
    "a few units in the last place of each value; the component c1 of the critical mode relative to c1 + cG = 1, "
    "and the quartic form relative to its value at |s|, |cG|."
)


WHITENED = (
    "The instabilities are the eigenvalues of K = ((a, c), (c, xi)), the data part of the quadratic form in "
    "coordinates (s, cG) in which the prior is the identity; the mode is at half the mixing angle of K."
)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    mode_s, mode_cG = landau.critical_mode()
    overlap, norm = (average.subs(c1, 1 - cG) for average in linear.averages()[2:])
    P1, P2, S4 = sp.symbols("P1 P2 S4")
    return Module(
        "thresholds",
        "Closed forms of the transitions: onset of linear attention, crossover to copying, jump of softmax attention.",
        (
            Function(
                "onset",
                "Return P₁, where the zero pattern of linear attention becomes unstable.",
                ARGUMENTS,
                (
                    *(EPS, POOLING, COPYING),
                    EIGENVALUE,
                ),
                (kappa * V * sp.sqrt(lam / eigenvalue) / (sigma_w * sigma_g),),
                (landau.onset(),),
                (sp.Eq(P1, kappa * V * sp.sqrt(lam / eigenvalue) / (sigma_w * sigma_g)),),
                WHITENED,
            ),
            Function(
                "onset_large_L",
                "Return the limit of P₁ for L ≫ V.",
                ARGUMENTS,
                (),
                (kappa * V * sp.sqrt(lam) / (sigma_w * sigma_g),),
                (landau.onset_large_L(),),
                (sp.Eq(P1, landau.onset_large_L()),),
            ),
            Function(
                "critical_mode",
                "Return the direction (c1, cG) of the first instability, with c1 + cG = 1.",
                (V, L, lam),
                (
                    *(EPS, POOLING, COPYING),
                    *(COUPLING, MODE),
                ),
                (1 - mode, mode),
                (mode_s - mode_cG, mode_cG),
                notes=WHITENED,
            ),
            Function(
                "onset_growth",
                "Return d(s²)/d ln P just above P₁: s² = onset_growth · (P − P₁)/P₁ to leading order.",
                (cG, t, V, L),
                (
                    Line(g, (1 + (L - 1) * cG) / L, "copy overlap of the mode"),
                    Line(g_sq, g**2),
                    Line(q, g_sq + (L - 1) * ((1 - cG) / L) ** 2, "squared norm / L of the mode"),
                    Line(bulk, (V - 1) * g_sq),
                ),
                ((1 + bulk) / (t * (1 + bulk * q)),),
                (landau.growth().subs({g: overlap, q: norm}),),
                notes="cG is the copying part of the critical mode, and t = P₁ σ_w²/(κV).",
            ),
            Function(
                "quartic",
                "Return the quartic form of the action's expansion around 0; positive, so the onset is second order.",
                (s, cG, P, V, L, sigma_w, sigma_g, kappa, lam),
                (
                    Line(t, T),
                    Line(g, (s + (L - 1) * cG) / L, "copy overlap"),
                    Line(g_sq, g**2),
                    Line(q, g_sq + (L - 1) * ((s - cG) / L) ** 2, "squared norm / L"),
                ),
                (P * t**2 / (2 * kappa * V) * (s**4 + (V - 1) * g_sq * q),),
                (landau.unfolded(landau.quartic()).subs(t, T),),
                (sp.Eq(S4, landau.quartic()), sp.Eq(t, T)),
            ),
            Function(
                "copying_leading",
                "Return the leading form of P₂, where a copying pattern alone would become unstable.",
                (V, L, sigma_w, sigma_g, kappa),
                (),
                (kappa * L * V * sp.sqrt((L - 1) / (V - 1)) / (sigma_w * sigma_g),),
                (copying.leading(),),
                (sp.Eq(P2, copying.leading()),),
            ),
            Function(
                "copying_balance",
                "Return a function of the spread R = t (q − g²) that falls with R; its root gives P₂ exactly (L > 2).",
                (R, V, L, lam),
                (
                    Line(k, sp.sqrt(L - 1)),
                    Line(lean, (L + k - 1) / L, "s/c1 at the crossover"),
                    Line(shrink, (1 + 2 * R) / (1 + R * (L + k - 1) ** 2 / (L - 1))),
                    Line(hinder, (V - 1) * k / L**2 * (R * (k - 1) - 1), "the bulk pushes c1 back"),
                    Line(share, (1 - 1 / L) + R * (1 + (k - 1) / L)),
                ),
                (lean * shrink**2 - hinder - (V - 1) * lam * lean * share / (L**2 * k * (k - 1)),),
                (copying.balance(),),
                notes="If it is negative at R = 0, copying comes with the onset and there is no separate crossover.",
            ),
            Function(
                "copying_from_spread",
                "Return P₂ from the root R of ``copying_balance``.",
                (R, V, L, sigma_w, sigma_g, kappa),
                (Line(k, sp.sqrt(L - 1)), Line(share, (1 - 1 / L) + R * (1 + (k - 1) / L))),
                (kappa * V * L * (1 + 2 * R) * sp.sqrt(k * (k - 1) / ((V - 1) * share)) / (sigma_w * sigma_g),),
                (copying.crossover(),),
                (sp.Eq(P2, copying.crossover().subs(copying.k, k)), sp.Eq(k, copying.k)),
            ),
            Function(
                "jump_from_log",
                "Return P* of softmax attention from D, the gap at the upper minimum.",
                (D, V, L, sigma_g, kappa),
                (),
                (kappa * V / (V - 1) * (L / sigma_g**2) * (D**2 * D / (D - 1)),),
                (jump.jump_from_log(),),
                (sp.Eq(sp.Symbol("P*"), jump.jump_from_log()),),
            ),
            Function(
                "log_update",
                "Return the right-hand side of the fixed-point equation for D, with t = P* σ_w²/(κV).",
                (D, t, L),
                (),
                (sp.log(L * (1 + L / t) * (D - 1)) / 2,),
                (jump.log_update(),),
                (sp.Eq(D, sp.log(L * (1 + L / t) * (D - 1)) / 2),),
            ),
        ),
        ACCURACY,
    )
