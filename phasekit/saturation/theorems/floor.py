"""Floors: no key ever gets less than this (docs/saturation.md, section 3)."""

from __future__ import annotations

from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Domain
from phasekit.saturation.formulas import largest_magnitude, log_count, magnified, positive
from phasekit.saturation.theorem import Point, Theorem
from phasekit.saturation.theorems import variables as v


def _softmax_weights(xp: Arithmetic, x: Point) -> Number:
    scaled = x["lam"] * x["z"]
    return scaled - xp.logsumexp(scaled)


def softmax_floor(xp: Arithmetic, x: Point) -> Number:
    """Return ln[e^(−λ(M − z_j))/m]."""
    return x["lam"] * (x["z"] - x["z"][:, :1]) - log_count(xp, x.exact["z"])


def _ssa_weights(xp: Arithmetic, x: Point) -> Number:
    log_weights = magnified(xp, x)
    return log_weights - xp.logsumexp(log_weights)


def ssa_floor(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(1/m)(1 + λb‖z‖_∞)^(−2n)]."""
    span = xp.log1p(x["lam"] * x["b"] * largest_magnitude(xp, x))
    return -2.0 * x["n"] * span - log_count(xp, x.exact["z"])


SOFTMAX = Theorem(
    name="softmax-floor",
    title="Floor of softmax: exponential in λ",
    section="3",
    statement="p_j ≥ e^(−λ(M − z_j))/m for every key",
    quantity="ln p_j",
    hypotheses=positive("lam"),
    value=_softmax_weights,
    lower=softmax_floor,
    upper=None,
    domain=Domain({"z": v.SOFTMAX_Z, "lam": v.SOFTMAX_LAM}),
)

SSA = Theorem(
    name="ssa-floor",
    title="Floor of SSA: polynomial in λ",
    section="3",
    statement="p_j ≥ (1/m)(1 + λb‖z‖_∞)^(−2n) for every key",
    quantity="ln p_j",
    hypotheses=positive("lam", "n", "b"),
    value=_ssa_weights,
    lower=ssa_floor,
    upper=None,
    domain=Domain({"z": v.Z, "lam": v.LAM, "n": v.N, "b": v.B}),
)

THEOREMS = (SOFTMAX, SSA)
