"""Theorem 2: one logit, c + Δ, exceeds the others, of which c is the largest (docs/saturation.md, section 4)."""

from __future__ import annotations

from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Domain
from phasekit.saturation.formulas import log_count, log_mass, positive
from phasekit.saturation.theorem import Point, Theorem
from phasekit.saturation.theorems import variables as v

SECTION = "4"


def _log_losers(xp: Arithmetic, x: Point) -> Number:
    """Return ln(m − 1)."""
    return log_count(xp, x.exact["others"])


def _softmax_value(xp: Arithmetic, x: Point) -> Number:
    c = x["others"][:, :1]
    return log_mass(xp, xp.logsumexp((x["others"] - c) - x["gap"]))


def softmax_lower(xp: Arithmetic, x: Point) -> Number:
    """Return ln[1/(1 + e^Δ)]."""
    return log_mass(xp, -x["gap"])


def softmax_upper(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(m − 1)/((m − 1) + e^Δ)]."""
    return log_mass(xp, _log_losers(xp, x) - x["gap"])


def log_odds(xp: Arithmetic, x: Point) -> Number:
    """Return ln S of SSA by its definition: the winner's logit is c + Δ."""
    winner = xp.ssa(x["others"][:, :1] + x["gap"], x["n"], x["b"])
    return xp.logsumexp(xp.ssa(x["others"], x["n"], x["b"]) - winner)


def _ssa_value(xp: Arithmetic, x: Point) -> Number:
    return log_mass(xp, log_odds(xp, x))


def log_G(xp: Arithmetic, x: Point) -> Number:
    """Return ln G, G = f(c + Δ)/f(c), by the closed form of the signs of c and c + Δ."""
    c, gap, n, b = x["others"][:, :1], x["gap"], x["n"], x["b"]
    c_exact = x.exact["others"][:, :1]
    winner_exact = c_exact + x.exact["gap"]  # a rounded sum of two floats has the sign of the sum
    size = xp.absolute(c)
    winner = xp.absolute(c + gap)
    above = xp.log1p(b * gap / (1 + b * size))
    across = xp.log1p(b * size) + xp.log1p(b * winner)
    below = xp.log1p(b * gap / (1 + b * winner))  # (1 + b|c|)/(1 + b(|c| − Δ)) = 1 + bΔ/(1 + b(|c| − Δ))
    return n * xp.where(c_exact >= 0, above, xp.where(winner_exact >= 0, across, below))


def ssa_lower(xp: Arithmetic, x: Point) -> Number:
    """Return ln[1/(1 + G)]."""
    return log_mass(xp, -log_G(xp, x))


def ssa_upper(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(m − 1)/((m − 1) + G)]."""
    return log_mass(xp, _log_losers(xp, x) - log_G(xp, x))


def _log_G_by_definition(xp: Arithmetic, x: Point) -> Number:
    c = x["c"]
    return xp.ssa(c + x["gap"], x["n"], x["b"]) - xp.ssa(c, x["n"], x["b"])


def _zero(xp: Arithmetic, x: Point) -> Number:
    return 0.0 * x["n"]


def largest_G(xp: Arithmetic, x: Point) -> Number:
    """Return ln (1 + bΔ/2)^(2n), which is reached at c = −Δ/2."""
    return 2.0 * x["n"] * xp.log1p(x["b"] * x["gap"] / 2.0)


SOFTMAX = Theorem(
    name="softmax-imbalance",
    title="Theorem 2, softmax",
    section=SECTION,
    statement="1/(1 + e^Δ) ≤ 1 − p_i* ≤ (m−1)/((m−1) + e^Δ) for every c",
    quantity="ln(1 − p_i*)",
    hypotheses=positive("gap"),
    value=_softmax_value,
    lower=softmax_lower,
    upper=softmax_upper,
    domain=Domain({"others": v.SOFTMAX_OTHERS, "gap": v.SOFTMAX_GAP}, extra_keys=1),
)

SSA = Theorem(
    name="ssa-imbalance",
    title="Theorem 2, SSA",
    section=SECTION,
    statement="1/(1 + G) ≤ 1 − p_i* ≤ (m−1)/((m−1) + G), G = f(c+Δ)/f(c): c ≥ 0: (1 + bΔ/(1+bc))ⁿ; "
    "c < 0 ≤ c+Δ: [(1+b|c|)(1+b(Δ−|c|))]ⁿ; c+Δ < 0: [(1+b|c|)/(1+b(|c|−Δ))]ⁿ",
    quantity="ln(1 − p_i*)",
    hypotheses=positive("gap", "n", "b"),
    value=_ssa_value,
    lower=ssa_lower,
    upper=ssa_upper,
    domain=Domain({"others": v.OTHERS, "gap": v.GAP, "n": v.N, "b": v.B}, extra_keys=1),
)

UNIFORM = Theorem(
    name="ssa-imbalance-uniform",
    title="Theorem 2, SSA: bound for every c",
    section=SECTION,
    statement="1 ≤ G ≤ (1 + bΔ/2)^(2n), whatever c",
    quantity="ln G",
    hypotheses=positive("gap", "n", "b"),
    value=_log_G_by_definition,
    lower=_zero,
    upper=largest_G,
    domain=Domain({"c": v.C, "gap": v.GAP, "n": v.N, "b": v.B}),
)

THEOREMS = (SOFTMAX, SSA, UNIFORM)
