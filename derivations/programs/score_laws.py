"""Numeric form of the closed forms of P* for scores other than softmax, and of their laws.

The place of the upper minimum solves one equation. Multiplied with the denominator of t it has no poles, and its sign
tells on which side of the root a place is.
"""

from __future__ import annotations

import sympy as sp
from sympy.codegen.cfunctions import expm1, log1p

from derivations.programs.program import Function, Line, Module
from phasekit.derivations import jump, two_level
from phasekit.derivations.proof import require_equal
from phasekit.derivations.score_laws import any_score, entmax, ssa
from phasekit.derivations.score_laws.any_score import odds as x
from phasekit.derivations.score_laws.any_score import price
from phasekit.derivations.score_laws.entmax import m
from phasekit.derivations.score_laws.ssa import b, n
from phasekit.derivations.symbols import D, L, V, gap, kappa, lam, sigma_g, sigma_w, t
from phasekit.derivations.two_level import delta, k, u, w, weight

over, under, pay, share, past, whole = sp.symbols("over under pay share past whole", positive=True)
A, B, C, pull, stiff, high, low = sp.symbols("A B C pull stiff high low", positive=True)
rate, decay, level, needed, root = sp.symbols("rate decay level needed root", positive=True)
K, M, W, drift = sp.symbols("K M W drift", positive=True)

P_star = sp.Symbol("P*")

PAST = Line(past, D - 1)
WHOLE = Line(whole, 1 + x, "1/α")
OVER = Line(over, whole * (past * x - 1), "numerator of t")
UNDER = Line(under, 1 - past * x**2 / (L - 1), "denominator of t")
PAY = Line(pay, sigma_w**2 / (V - 1) * (price * D * x))
STIFF = Line(stiff, (L - 1) * lam / L, "C − B")
LINEAR = Line(A, lam / L**2 + (L - 1))
MIXED = Line(B, (L - 1) * (1 - lam / L**2))
OTHERS = Line(C, B + stiff)


def module() -> Module:
    """Build the functions, with the derived expressions that they are proven against."""
    return Module(
        "score_laws",
        "Closed forms of P* for any normalised score, from the price of its log odds; and their limits as laws.",
        (*_any_score(), *_ssa_price(), _entmax_price(), *_softmax_laws(), *_ssa_laws(), *_entmax_laws()),
        "each value to a few units in the last place; the differences over, under and excess relative to their terms.",
    )


def _any_score() -> tuple[Function, ...]:
    strong, squared = any_score.strength(), any_score.closure()
    place = (x, D, price, V, L, sigma_w)
    over_, under_ = (1 + x) * ((D - 1) * x - 1), 1 - (D - 1) * x**2 / (L - 1)
    require_equal(strong, over_ / under_, "t at the upper minimum")
    return (
        Function(
            "jump_balance",
            "Return (over, under, excess): t = over/under at the upper minimum, and excess = 0 fixes its place.",
            place,
            (PAST, WHOLE, OVER, UNDER, PAY),
            (over, under, over**2 - pay * under * (whole * under + over * x / (L - 1))),
            (over_, under_, (strong**2 - squared.subs(t, strong)) * under_**2),
            (sp.Eq(t, strong), sp.Eq(t**2, squared)),
            "Odds x against the copy entry, elasticity D and price 2C belong to one place. A jump has over, under > 0.",
        ),
        Function(
            "jump_from_place",
            "Return P* from the place at which ``jump_balance`` has excess 0.",
            (*place, kappa),
            (PAST, WHOLE, OVER, UNDER, PAY, Line(t, over / under)),
            (kappa * V / sigma_w**2 * sp.sqrt(pay * (whole + x * t / (L - 1))),),
            (kappa * V / sigma_w**2 * sp.sqrt(squared.subs(t, strong)),),
            (sp.Eq(P_star, kappa * V * t / sigma_w**2), sp.Eq(t**2, squared)),
        ),
    )


def _ssa_price() -> tuple[Function, ...]:
    stiffnesses = dict(zip((A, B, C), two_level.stiffnesses(), strict=True))
    pair = (A * u**2 + 2 * B * u * w + C * w**2) / sigma_g**2
    return (
        Function(
            "ssa_depth",
            "Return w = −v: how far below zero all other logits are cheapest, for the copy entry's logit u > 0.",
            (u, L, lam, b),
            (LINEAR, MIXED, STIFF, OTHERS, Line(pull, u * (lam / L + A * b * u))),
            (2 * pull / (stiff + sp.sqrt(stiff**2 + 4 * C * b * pull)),),
            (ssa.relaxed_depth(),),
        ),
        Function(
            "ssa_price",
            "Return (δ, D, 2C) of SSA: log odds, elasticity and price of the logits u and −w.",
            (u, w, L, lam, sigma_g, n, b),
            (LINEAR, MIXED, STIFF, OTHERS, Line(high, b * u), Line(low, b * w)),
            (
                n * (log1p(high) + log1p(low)),
                n * (high / (1 + high) + low / (1 + low)),
                (A * u**2 + w * (2 * B * u + C * w)) / sigma_g**2,
            ),
            (ssa.log_odds(), ssa.elasticity(), pair.subs(stiffnesses)),
            (sp.Eq(delta, ssa.log_odds()), sp.Eq(D, ssa.elasticity())),
        ),
    )


def _entmax_price() -> Function:
    log_weight = -sp.log(1 + (L - 1) * sp.exp(-delta))
    gap_needed = two_level.entmax_gap().subs(weight**k, sp.exp(k * log_weight))
    return Function(
        "entmax_price",
        "Return (D, 2C) of α-entmax at log odds δ > 0, with k = α − 1 > 0.",
        (delta, L, sigma_g, k),
        (
            Line(x, (L - 1) * sp.exp(-delta), "odds against the copy entry"),
            Line(rate, -k * delta),
            Line(decay, sp.exp(rate)),
            Line(level, sp.exp(-k * log1p(x)), "weight of the copy entry to the power k"),
            Line(share, -expm1(rate) / k),
            Line(needed, level * share, "the gap"),
        ),
        (share * (1 + x) / (x + decay), (L - 1) * needed**2 / sigma_g**2),
        (entmax.elasticity().subs(x, (L - 1) * sp.exp(-delta)), (L - 1) * gap_needed**2 / sigma_g**2),
        (sp.Eq(D, entmax.elasticity()), sp.Eq(gap, two_level.entmax_gap())),
    )


def _softmax_laws() -> tuple[Function, ...]:
    model = (V, L, sigma_w, sigma_g, kappa)
    log_length, growth = sp.symbols("log_length growth", positive=True)
    logarithm = Line(log_length, sp.log(L))
    wider = Line(growth, sp.log(V * sigma_g**2 / sigma_w**2) / log_length, "a of V = L^a, with its variances")
    wide = jump.wide_vocabulary().subs(jump.exponent, wider.value.subs(log_length, logarithm.value))
    return (
        _law(
            *("softmax_long", "t ≫ L", model, jump.long_context(), (logarithm,)),
            kappa * V / (4 * (V - 1) * sigma_g**2) * L * log_length**2,
        ),
        _law(
            *("softmax_wide", "1 ≪ t ≪ L, V ≫ 1", model, wide, (logarithm, wider)),
            kappa / sigma_g**2 * L * (log_length * (1 + growth) / 2) ** 2,
        ),
        _law("softmax_scarce", "t ≪ 1, V ≫ 1", model, jump.scarce_data()[1]),
    )


def _ssa_laws() -> tuple[Function, ...]:
    model = (V, L, sigma_w, sigma_g, kappa, n, b)
    wide, pair = ssa.wide_factors(), ssa.wide_pair_factors()
    scale, power, double, toll = sp.symbols("scale power double toll", positive=True)
    common = Line(scale, kappa * V / (sp.sqrt(V - 1) * sigma_w * sigma_g * b))
    root_L = Line(root, sp.sqrt(L))
    tall = Line(power, ((2 * n - 1) * L) ** (1 / (2 * n)))
    return (
        _law("ssa_long", "t ≫ L, n > 1", model, ssa.long_context()),
        _law(
            *("ssa_wide", "max(1, L^(2 − n)) ≪ t ≪ L, n > 1", model, ssa.wide_vocabulary()),
            (Line(K, wide[0]), Line(M, wide[1])),
            K ** (n / (n + 1)) * M ** (1 / (n + 1)),
        ),
        _law(
            *("ssa_wide_pair", "1 ≪ t ≪ L^(2 − n), n < 2", model, ssa.wide_vocabulary_pair()),
            (root_L, Line(K, pair[0].xreplace({L ** sp.Rational(3, 2): L * root})), Line(M, pair[1])),
            K ** (2 * n / (2 * n + 1)) * M ** (1 / (2 * n + 1)),
        ),
        _law("ssa_scarce", "t ≪ 1, n > 2", model, ssa.scarce_data()),
        _law(
            *("ssa_scarce_pair", "t ≪ 1, n < 2", model, ssa.scarce_data_pair()),
            (common, tall, root_L),
            scale * power * sp.sqrt(2 * L * root) * 2 * n / (2 * n - 1),
        ),
        _law(
            *("ssa_scarce_marginal", "t ≪ 1, n = 2", (W, *model), ssa.marginal()[1]),
            (
                common,
                Line(double, 1 + 2 * W),
                Line(toll, sp.sqrt(W * double), "root of the price"),
            ),
            scale * L * toll * 2 * double / (1 + 3 * W),
            "W is the positive root of W (1 + W)⁴ = 1 + 3W.",
        ),
    )


def _entmax_laws() -> tuple[Function, ...]:
    model = (V, L, sigma_w, sigma_g, kappa, m)
    wide = entmax.wide_factors()
    return (
        _law("entmax_long", "t ≫ L, m > 1", model, entmax.long_context()),
        _law(
            *("entmax_wide", "m − 1 < t ≪ L", model, entmax.wide_vocabulary()),
            (Line(K, wide[0]), Line(M, wide[1])),
            K ** (m / (m + 1)) * M ** (1 / (m + 1)),
        ),
        _law("entmax_full", "t ≪ 1, or of the crossover P_x for m = 1 and t ≪ L", model, entmax.full_copy()[1]),
        Function(
            "sparsemax_onset",
            "Return P_x of sparsemax for any t.",
            model[:-1],
            (Line(drift, sigma_w**2 / ((V - 1) * sigma_g**2)),),
            (kappa * V / sigma_w**2 * (drift + sp.sqrt(drift * (drift + 4 * L))) / 2,),
            (entmax.sparsemax_onset(),),
            (sp.Eq(t**2, entmax.sparsemax()[0]), sp.Eq(sp.Symbol("P_x"), kappa * V * t / sigma_w**2)),
        ),
    )


def _law(
    name: str,
    where: str,
    arguments: tuple[sp.Symbol, ...],
    law: sp.Expr,
    lines: tuple[Line, ...] = (),
    shown: sp.Expr | None = None,
    notes: str = "",
) -> Function:
    """Return a law as a function of those arguments that it contains."""
    used = tuple(argument for argument in arguments if argument in law.free_symbols)
    words = f"Return the law of P* for {where}."
    return Function(name, words, used, lines, (law if shown is None else shown,), (law,), (sp.Eq(P_star, law),), notes)
