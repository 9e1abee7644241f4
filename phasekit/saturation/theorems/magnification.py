"""Theorem 1: what becomes of a row when all its logits are magnified, z → λz (docs/saturation.md, section 2)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.base import Arithmetic, Mask, Number
from phasekit.saturation.domain import Domain
from phasekit.saturation.formulas import (
    N_AT_LEAST_ONE,
    NOT_ALL_EQUAL,
    NOT_ALL_ZERO,
    largest_magnitude,
    log_count,
    log_mass,
    log_ratios,
    magnified,
    positive,
)
from phasekit.saturation.theorem import Hypothesis, Point, Theorem
from phasekit.saturation.theorems import variables as v

SECTION = "2"


# Softmax. With k winners, S' = Σ over the losers of R_j, and 1 − k p_i* = S'/(k + S') is the mass of the losers.


def _losers(x: Point) -> Mask:
    return np.asarray(x.exact["z"] < x.exact["z"][:, :1])


def _winners(x: Point) -> NDArray[np.intp]:
    """Return k."""
    return np.asarray((~_losers(x)).sum(axis=-1, keepdims=True))


def _losers_mass(xp: Arithmetic, x: Point, log_losers: Number) -> Number:
    """Return ln[S'/(k + S')] from ln S'."""
    log_k = xp.log(xp.lift(_winners(x).astype(float)))
    return log_mass(xp, log_losers - log_k)


def _softmax_value(xp: Arithmetic, x: Point) -> Number:
    return _losers_mass(xp, x, xp.logsumexp(x["lam"] * (x["z"] - x["z"][:, :1]), _losers(x)))


def _softmax_decay(xp: Arithmetic, x: Point) -> Number:
    """Return −λδ, δ the gap to the largest of the losers."""
    return x["lam"] * (xp.take(x["z"], _winners(x)) - x["z"][:, :1])


def softmax_lower(xp: Arithmetic, x: Point) -> Number:
    """Return the bound with one loser at gap δ."""
    return _losers_mass(xp, x, _softmax_decay(xp, x))


def softmax_upper(xp: Arithmetic, x: Point) -> Number:
    """Return the bound with all losers at gap δ."""
    losers = xp.lift(_losers(x).sum(axis=-1, keepdims=True).astype(float))
    return _losers_mass(xp, x, _softmax_decay(xp, x) + xp.log(losers))


SOFTMAX = Theorem(
    name="softmax-magnification",
    title="Theorem 1, softmax: exponential saturation",
    section=SECTION,
    statement="k winners, gap δ to the next logit, e = e^(−λδ): e/(k + e) ≤ 1 − k p_i* ≤ (m−k)e/(k + (m−k)e)",
    quantity="ln(1 − k p_i*)",
    hypotheses=(*positive("lam"), NOT_ALL_EQUAL),
    value=_softmax_value,
    lower=softmax_lower,
    upper=softmax_upper,
    domain=Domain({"z": v.SOFTMAX_Z, "lam": v.SOFTMAX_LAM}),
)


# SSA: the ratios R_j of every sign case.


def _ratios(xp: Arithmetic, x: Point) -> Number:
    return log_ratios(magnified(xp, x))


def closed_ratios(xp: Arithmetic, x: Point) -> Number:
    """Return ln R_j by the closed form of the row's and the key's signs."""
    top, z = x.exact["z"][:, :1], x.exact["z"][:, 1:]
    n = x["n"]
    scale = x["lam"] * x["b"]
    size, size_top = xp.absolute(x["z"][:, 1:]), xp.absolute(x["z"][:, :1])
    log_winner = xp.log1p(scale * size_top)
    log_key = xp.log1p(scale * size)
    both_positive = n * _mixed(xp, _safe_ratio(xp, size, size_top, top > 0), 1 / (1 + scale * size_top))
    both_negative = n * _mixed(xp, _safe_ratio(xp, size_top, size, z < 0), 1 / (1 + scale * size))
    opposite = -(n * (log_key + log_winner))  # zeros on either side included: ln(1 + 0) = 0
    return xp.where((top > 0) & (z > 0), both_positive, xp.where(top < 0, both_negative, opposite))


def _mixed(xp: Arithmetic, ratio: Number, epsilon: Number) -> Number:
    """Return ln[r + (1 − r)ε]."""
    return xp.log(ratio * (1 - epsilon) + epsilon)


def _safe_ratio(xp: Arithmetic, part: Number, whole: Number, defined: Mask) -> Number:
    """Return part/whole where that is defined, and 1 elsewhere."""
    return xp.where(defined, part, 1.0) / xp.where(defined, whole, 1.0)


RATIOS = Theorem(
    name="ssa-ratios",
    title="Theorem 1, SSA: exact ratios in every sign case",
    section=SECTION,
    statement="R_j(λ) in closed form for M > 0 (z_j above, at, below 0), M = 0 and M < 0",
    quantity="ln R_j",
    hypotheses=positive("lam", "n", "b"),
    value=_ratios,
    lower=closed_ratios,
    upper=closed_ratios,
    domain=Domain({"z": v.Z, "lam": v.LAM, "n": v.N, "b": v.B}),
)


# SSA: ratios fall with λ, but never faster than λ^(−2n).


def _later_ratios(xp: Arithmetic, x: Point) -> Number:
    return log_ratios(xp.ssa(x["lam"] * x["factor"] * x["z"], x["n"], x["b"]))


def slowest_fall(xp: Arithmetic, x: Point) -> Number:
    """Return ln[R_j(λ) (λ/λ')^(2n)]."""
    return _ratios(xp, x) - 2.0 * x["n"] * xp.log(x["factor"])


MONOTONE = Theorem(
    name="ssa-monotone",
    title="Theorem 1, SSA: ratios fall, polynomially at most",
    section=SECTION,
    statement="λ' ≥ λ: (λ/λ')^(2n) R_j(λ) ≤ R_j(λ') ≤ R_j(λ)",
    quantity="ln R_j(λ')",
    hypotheses=(
        *positive("lam", "n", "b"),
        Hypothesis("factor", "λ'/λ must be at least 1", lambda inputs: inputs["factor"] >= 1),
    ),
    value=_later_ratios,
    lower=slowest_fall,
    upper=_ratios,
    domain=Domain({"z": v.Z, "lam": v.LAM, "factor": v.FACTOR, "n": v.N, "b": v.B}),
)


# SSA: the limit law, with its error at every λ.


def log_limit_ratios(xp: Arithmetic, x: Point) -> tuple[Number, Mask]:
    """Return ln R_j(∞) of all keys but the winner, and where R_j(∞) isn't 0 (elsewhere the number means nothing).

    M > 0: (z_j/M)^n if z_j > 0, else 0. M = 0: 1 if z_j = 0, else 0. M < 0: (M/z_j)^n.
    """
    top, z = x.exact["z"][:, :1], x.exact["z"][:, 1:]
    survives: Mask = np.asarray((z > 0) | (top < 0) | ((top == 0) & (z == 0)))
    ordinary = survives & (top != 0)
    size, size_top = xp.absolute(x["z"][:, 1:]), xp.absolute(x["z"][:, :1])
    ratio = _safe_ratio(
        xp, xp.where(top < 0, size_top, size), xp.where(top < 0, size, size_top), ordinary
    )  # 1 for ties at 0
    return x["n"] * xp.log(ratio), survives


def epsilon(xp: Arithmetic, x: Point) -> Number:
    """Return ε = 1/(1 + λbζ): ζ = |M|, or the smallest non-zero |z_j| if M = 0."""
    z = x.exact["z"]
    zeros_on_top = (z == 0).sum(axis=-1, keepdims=True)
    column = np.where(z[:, :1] == 0, np.minimum(zeros_on_top, z.shape[-1] - 1), 0)
    return 1 / (1 + x["lam"] * x["b"] * xp.absolute(xp.take(x["z"], column)))


def limit_lower(xp: Arithmetic, x: Point) -> Number:
    """Return ln R_j(∞); −inf where it is 0."""
    limit, survives = log_limit_ratios(xp, x)
    return xp.where(survives, limit, -math.inf)


def limit_upper(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(1 − ε) R_j(∞) + ε]."""
    limit, survives = log_limit_ratios(xp, x)
    eps = epsilon(xp, x)
    return xp.log((1 - eps) * xp.where(survives, xp.exp(limit), 0.0) + eps)


LIMIT = Theorem(
    name="ssa-limit",
    title="Limit law of SSA, with its error at finite λ",
    section=SECTION,
    statement="R_j(∞) ≤ R_j(λ) ≤ (1−ε)R_j(∞) + ε, ε = 1/(1+λbζ), ζ = |M| or, for M = 0, the smallest |z_j| > 0; "
    "p_j(∞) ∝ (z_j)₊ⁿ if M > 0, uniform on the zeros if M = 0, ∝ |z_j|⁻ⁿ if M < 0",
    quantity="ln R_j",
    hypotheses=(*positive("lam", "b"), N_AT_LEAST_ONE, NOT_ALL_ZERO),
    value=_ratios,
    lower=limit_lower,
    upper=limit_upper,
    domain=Domain({"z": v.Z, "lam": v.LAM, "n": v.N_FROM_ONE, "b": v.B}),
)


# SSA: the mass off the winner.


def _ssa_mass(xp: Arithmetic, x: Point) -> Number:
    return log_mass(xp, xp.logsumexp(_ratios(xp, x)))


def _limit_odds(xp: Arithmetic, x: Point) -> tuple[Number, Mask]:
    """Return ln S(∞), and where S(∞) isn't 0, that is where SSA does not become one-hot."""
    limit, survives = log_limit_ratios(xp, x)
    shared = np.asarray(survives.any(axis=-1, keepdims=True))
    return xp.logsumexp(limit, survives | ~shared), shared


def polynomial_floor(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(m − 1)(1 + λb‖z‖_∞)^(−2n)]."""
    span = xp.log1p(x["lam"] * x["b"] * largest_magnitude(xp, x))
    return log_count(xp, x.exact["z"], less=1) - 2.0 * x["n"] * span


def mass_lower(xp: Arithmetic, x: Point) -> Number:
    """Return the bound by S(∞), or by a power of λ if that is 0."""
    odds, shared = _limit_odds(xp, x)
    return log_mass(xp, xp.where(shared, odds, polynomial_floor(xp, x)))


def mass_upper(xp: Arithmetic, x: Point) -> Number:
    """Return the bound by (1 − ε)S(∞) + (m − 1)ε, or by (m − 1)ε^n if S(∞) is 0."""
    odds, shared = _limit_odds(xp, x)
    eps, others = epsilon(xp, x), float(x.exact["z"].shape[-1] - 1)
    mixed = xp.log((1 - eps) * xp.exp(odds) + others * eps)
    power = log_count(xp, x.exact["z"], less=1) + x["n"] * xp.log(eps)
    return log_mass(xp, xp.where(shared, mixed, power))


MASS = Theorem(
    name="ssa-magnification",
    title="Theorem 1, SSA: polynomial saturation, or none",
    section=SECTION,
    statement="1 − p_i* = S/(1+S); S(∞) = 0: (m−1)(1+λb‖z‖_∞)^(−2n) ≤ S ≤ (m−1)εⁿ; "
    "S(∞) > 0: S(∞) ≤ S ≤ (1−ε)S(∞) + (m−1)ε",
    quantity="ln(1 − p_i*)",
    hypotheses=(*positive("lam", "b"), N_AT_LEAST_ONE, NOT_ALL_ZERO),
    value=_ssa_mass,
    lower=mass_lower,
    upper=mass_upper,
    domain=Domain({"z": v.Z, "lam": v.LAM, "n": v.N_FROM_ONE, "b": v.B}),
)

THEOREMS = (SOFTMAX, RATIOS, MONOTONE, LIMIT, MASS)
