"""The exponential limit: SSA with b = 1/n becomes softmax (docs/saturation.md, section 7)."""

from __future__ import annotations

from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Domain, Variable
from phasekit.saturation.formulas import largest_magnitude, positive
from phasekit.saturation.theorem import Point, Theorem


def log_quotient(xp: Arithmetic, x: Point) -> Number:
    """Return ln(p_SSA/p_softmax) of every key, with b = 1/n."""
    log_weights = xp.ssa(x["z"], x["n"], 1 / x["n"])
    return (log_weights - x["z"]) - (xp.logsumexp(log_weights) - xp.logsumexp(x["z"]))


def double_error(xp: Arithmetic, x: Point) -> Number:
    """Return 2ε, ε = ‖z‖²_∞/(2n)."""
    size = largest_magnitude(xp, x)
    return size * size / x["n"]


def _minus_double_error(xp: Arithmetic, x: Point) -> Number:
    return -double_error(xp, x)


EXPONENTIAL_LIMIT = Theorem(
    name="exponential-limit",
    title="Exponential limit: SSA with b = 1/n, n → ∞, is softmax",
    section="7",
    statement="b = 1/n: e^(−2ε) ≤ p_SSA/p_softmax ≤ e^(2ε), ε = ‖z‖²_∞/(2n)",
    quantity="ln(p_SSA/p_softmax)",
    hypotheses=positive("n"),
    value=log_quotient,
    lower=_minus_double_error,
    upper=double_error,
    domain=Domain(
        {"z": Variable("z", "logits", 1e-2, 30.0), "n": Variable("n", "positive", 0.3, 1e6)},
    ),
)

THEOREMS = (EXPONENTIAL_LIMIT,)
