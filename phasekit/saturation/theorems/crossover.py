"""SSA is flatter than softmax only beyond a crossover gap (docs/saturation.md, section 6).

All other logits are 0, so G = (1 + bΔ)^n against e^Δ: h(Δ) = n ln(1 + bΔ) − Δ is concave with h(0) = 0 and
h'(0) = nb − 1. If nb > 1 it is positive up to one root Δ_x, and negative beyond.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw

from phasekit.checks import finite_numbers
from phasekit.errors import InputError
from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Domain, Variable
from phasekit.saturation.formulas import positive
from phasekit.saturation.theorem import Hypothesis, Point, Theorem
from phasekit.saturation.theorems import variables as v

_SMALLEST_SLOPE = 1 + 1e-6  # below it float64 loses the root: Δ_x → 2(nb − 1)/(nb²)


def crossover_gap(n: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return the gap Δ_x with (1 + bΔ_x)^n = e^{Δ_x}; 0 where nb ≤ 1, SSA being flatter than softmax at every gap.

    Parameters
    ----------
    n, b : arrays that broadcast
        Above 0.

    Raises
    ------
    InputError
        If n or b isn't above 0, or the gap can't be computed in float64.
    """
    n, b = np.broadcast_arrays(finite_numbers("n", n), finite_numbers("b", b))
    for name, value in (("n", n), ("b", b)):
        if not np.all(value > 0):
            raise InputError(name, value.min(), "must be above 0")
    with np.errstate(all="ignore"):
        gap = _crossover_gap(n, b)
    if not np.isfinite(gap).all():
        raise InputError("n and b", (n.max(), b.max()), "their product, or a gap times b, is beyond float64")
    return gap


def _crossover_gap(n: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    slope = n * b
    inside = slope > _SMALLEST_SLOPE
    a = 1 / np.where(inside, slope, 2.0)
    near_one = 2 * (slope - 1) / (slope * b)  # leading order in nb − 1
    gap = np.where(slope < 1.01, near_one, -n * lambertw(-a * np.exp(-a), k=-1).real - 1 / b)
    for _ in range(4):  # Newton's method: neither of the two has all digits where nb is near 1
        gap = np.where(inside, gap, 1.0)
        gap = gap - (n * np.log1p(b * gap) - gap) / (n * b / (1 + b * gap) - 1)
    return np.asarray(np.where(inside, gap, np.maximum(near_one, 0.0)))


def _gap(xp: Arithmetic, x: Point) -> tuple[Number, Number, Number]:
    """Return Δ = ratio · Δ_x, Δ_x, and the steepness s = −h'(Δ_x)."""
    n, b = x["n"], x["b"]
    root = xp.root(
        crossover_gap(x.exact["n"], x.exact["b"]),
        lambda gap: n * xp.log1p(b * gap) - gap,
        lambda gap: n * b / (1 + b * gap) - 1,
    )
    return x["ratio"] * root, root, 1 - n * b / (1 + b * root)


def advantage(xp: Arithmetic, x: Point) -> Number:
    """Return ln of SSA's odds for the winner over softmax's, both from their log-weights."""
    gap = _gap(xp, x)[0]
    return xp.ssa(gap, x["n"], x["b"]) - gap


def advantage_lower(xp: Arithmetic, x: Point) -> Number:
    """Return 0 up to Δ_x, the steepest fall −(Δ − Δ_x) beyond."""
    gap, root, _ = _gap(xp, x)
    return xp.where(x.exact["ratio"] <= 1, 0.0, root - gap)


def advantage_upper(xp: Arithmetic, x: Point) -> Number:
    """Return the tangent at 0 up to Δ_x/2, and the tangent at Δ_x from there on."""
    gap, root, steepness = _gap(xp, x)
    return xp.where(x.exact["ratio"] <= 0.5, (x["n"] * x["b"] - 1) * gap, steepness * (root - gap))


CROSSOVER = Theorem(
    name="crossover",
    title="SSA is sharper than softmax up to a crossover gap",
    section="6",
    statement="nb > 1, others at 0, (1+bΔ_x)^n = e^(Δ_x): ln(odds of SSA / odds of softmax) is between 0 and its "
    "tangents at 0 and Δ_x for Δ ≤ Δ_x, between Δ_x − Δ and its tangent at Δ_x beyond",
    quantity="ln(odds of SSA / odds of softmax)",
    hypotheses=(
        *positive("n", "b", "ratio"),
        Hypothesis("b", "nb must exceed 1 + 1e-6", lambda inputs: inputs["n"] * inputs["b"] > _SMALLEST_SLOPE),
    ),
    value=advantage,
    lower=advantage_lower,
    upper=advantage_upper,
    domain=Domain(
        {"n": v.N, "b": v.B, "ratio": Variable("Δ/Δ_x", "positive", 1e-3, 1e3)},
        condition="nb > 1",
    ),
)

THEOREMS = (CROSSOVER,)
