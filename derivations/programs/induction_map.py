"""Numeric form of the induction head's action over the second layer's log odds δ, and of the route through the first.

With y = e^(−δ), x = (L − 1) y, ν = 1 − ρy written as (1 − ρ) + ρ(1 − y), and E = N + tν², every bracket is a sum of
positive terms for δ > 0; below, only ν changes sign, where the readout does.
"""

from __future__ import annotations

import sympy as sp
from sympy.codegen.cfunctions import expm1

from derivations.programs import softmax_map as softmax
from derivations.programs.program import Function, Line, Module
from phasekit.derivations import induction
from phasekit.derivations.symbols import D, L, P, T, V, kappa, sigma_g, sigma_w, t
from phasekit.derivations.two_level import delta

others, spread, rho, free = softmax.OTHERS.name, *sp.symbols("spread rho free", positive=True)
y, wide, square, signal, trace, keep = sp.symbols("y wide square signal trace keep", positive=True)
x, nu, wrong, noise, N, K, per_E, weight, match = sp.symbols("x nu wrong noise N K per_E weight match")
told, bound, copy, base, bulk = sp.symbols("told bound copy base bulk", positive=True)
log_y, taken, push, shrink, bend = sp.symbols("log_y taken push shrink bend")
data = softmax.DATA.name
Y, pressure, price, ratio = sp.symbols("Y pressure price ratio", positive=True)
extra, nu_symbol = induction.extra, induction.nu

_MODEL = (
    softmax.OTHERS,
    Line(rho, others / (V - 1), "share of the vocabulary that a sequence holds, next to the right key"),
    Line(free, (V - L) / (V - 1), "1 − ρ"),
    Line(spread, rho * V * free, "what wrong keys add to the squared norm"),
)
_PLACE = (
    Line(log_y, -delta),
    Line(y, sp.exp(log_y), "weight of a wrong key, in units of the right one's"),
    Line(x, others * y),
    Line(wide, 1 + x),
    Line(nu, free - rho * expm1(log_y), "1 − ρy"),
)
_ENERGY = (
    Line(trace, spread * y**2),
    Line(noise, t * trace),
    Line(square, wide**2),
    Line(N, noise + square),
    Line(signal, nu**2),
    Line(per_E, 1 / (N + t * signal)),
)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    return Module(
        "induction_map",
        "Map action of an induction head, over the log odds δ of its second layer.",
        (_jet(), _force(), _terms(), _loss(), _route(), _small_match(), _joint_jump(), _joint_odds()),
        "Φ and the loss to a few units in the last place, the force and the route too for δ > 0; second derivatives "
        "relative to the sum of the absolute values of their terms.",
    )


def _jet() -> Function:
    action = induction.data_action().subs(t, T)
    lines = (
        softmax.STRENGTH,
        *_MODEL,
        softmax.DATA,
        Line(base, data / (1 + t), "what the constant direction contributes: rows sum to 1"),
        Line(bulk, (V - 1) * data, "weight of the V − 1 other directions"),
        *_PLACE,
        *_ENERGY,
        Line(taken, rho * y),
        Line(match, x + taken),
        Line(K, noise + match * wide),
        Line(push, nu * K),
        Line(weight, 2 * t * bulk * per_E**2),
        Line(shrink, 4 * per_E * (x * wide + noise - t * taken * nu), "−2 d ln E/dδ"),
        Line(bend, taken * K - nu * ((wide + x) * match + 2 * noise) + push * shrink),
    )
    return Function(
        "data_jet",
        "Return (Φ, dΦ/dδ, d²Φ/dδ²).",
        (delta, P, V, L, sigma_w, kappa),
        lines,
        (base + bulk * N * per_E, -(weight * push), -(weight * bend)),
        (action, sp.diff(action, delta), sp.diff(action, delta, 2)),
    )


def _force() -> Function:
    derived = induction.unfold(induction.data_force())
    return Function(
        "data_force",
        "Return (force, d ln force/d ln t): the force −dΦ/dδ of data of strength t = Pσ_w²/(κV).",
        (delta, t, V, L, sigma_w),
        (*_MODEL, *_PLACE, *_ENERGY, Line(K, noise + (x + rho * y) * wide)),
        ((V - 1) * nu * K * (t * per_E / sigma_w) ** 2, 2 * square * per_E + noise / K),
        (derived, t * sp.diff(derived, t) / derived),
        (sp.Eq(sp.Symbol("force"), induction.data_force()),),
    )


def _terms() -> Function:
    return Function(
        "force_terms",
        "Return (e, a, b) of the force (a s + b)/(s (s + e)²), s = 1/t.",
        (delta, V, L, sigma_w),
        (
            *_MODEL,
            *_PLACE,
            Line(copy, 1 / wide, "weight of the right key"),
            Line(signal, copy**2),
            Line(trace, spread * y**2 * signal),
            Line(weight, (V - 1) * nu * signal / sigma_w**2),
        ),
        (trace + nu**2 * signal, weight * (x + rho * y) * copy, weight * trace),
        tuple(induction.unfold(term) for term in induction.force_terms()),
    )


def _loss() -> Function:
    return Function(
        "loss",
        "Return the mean squared error per sequence at the best W.",
        (delta, P, V, L, sigma_w, kappa),
        (softmax.STRENGTH, *_MODEL, *_PLACE, *_ENERGY),
        ((1 / (1 + t) ** 2 + (V - 1) * (trace * signal * t**2 + N**2) * per_E**2) / V,),
        (induction.map_loss().subs(t, T),),
    )


def _route() -> Function:
    route = (induction.second_gap() / induction.beta).subs(induction.first, delta)
    return Function(
        "route",
        "Return (γ, dγ/dδ, d²γ/dδ²): the share of a match that reaches layer 2, at log odds δ of layer 1.",
        (delta, L),
        (
            Line(log_y, -delta),
            Line(y, sp.exp(log_y)),
            Line(x, (L - 1) * y),
            Line(copy, 1 / (1 + x), "weight of the previous token"),
            Line(keep, L * y * copy**2),
        ),
        (-(copy * expm1(log_y)), keep, keep * copy * (x - 1)),
        (route, sp.diff(route, delta), sp.diff(route, delta, 2)),
        (sp.Eq(sp.Symbol("gamma"), route),),
    )


def _small_match() -> Function:
    r = induction.steepness
    return Function(
        "small_match",
        "Return the P from which on a small match pays for layer 1, where r = γ/Δ; infinite for V = L.",
        (r, V, L, sigma_w, sigma_g, kappa),
        (
            Line(told, (V - L) / (L * (V - 1)), "what looking at a random token tells"),
            Line(bound, kappa * L**2 * sp.sqrt((V - 1) / (L - 1)) / (2 * r * sigma_g**2)),
        ),
        (bound + sp.sqrt(bound**2 + 2 * bound * kappa * V / (sigma_w**2 * told)),),
        (induction.small_match(),),
        (sp.Eq(sp.Symbol("P"), induction.small_match()),),
    )


def _joint_jump() -> Function:
    return Function(
        "joint_jump",
        "Return P* of both layers, at log odds D of layer 2 and what layer 1 adds to their price, C.",
        (D, extra, V, sigma_g, kappa),
        (
            Line(price, D * (V - 1)),
            Line(ratio, D + extra / price, "1 + Y"),
        ),
        (kappa * V * (D * price + extra) * ratio / (sigma_g**2 * (V - 1) * (ratio - 1)),),
        (induction.joint_jump(),),
        (sp.Eq(sp.Symbol("P_star"), induction.joint_jump()),),
    )


def _joint_odds() -> Function:
    """Solve (1 + x)² + t c y² = t ν²/Y for y = e^(−D)."""
    derived = sp.Symbol("Y") * induction.unfold(induction.numerator()) - t * induction.unfold(nu_symbol**2)
    return Function(
        "odds_balance",
        "Return (a, b, c) of the equation a y² + 2b y + c = 0 for y = e^(−D), at a given ratio Y = tν²/N.",
        (Y, t, V, L),
        (*_MODEL, Line(pressure, t / Y, "tν²/N over Y, per ν²")),
        (
            others**2 + t * spread - pressure * rho**2,
            others + pressure * rho,
            1 - pressure,
        ),
        _coefficients(derived / sp.Symbol("Y")),
    )


def _coefficients(expression: sp.Expr) -> tuple[sp.Expr, ...]:
    """Return a, b and c of a quadratic expression a y² + 2b y + c in y = e^(−δ)."""
    in_y = sp.Poly(sp.expand(expression.subs(sp.exp(-delta), y).subs(sp.Symbol("Y"), Y)), y)
    second, first, constant = (in_y.coeff_monomial(y**k) for k in (2, 1, 0))
    return second, first / 2, constant
