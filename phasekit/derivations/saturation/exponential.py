"""The exponential limit: SSA with b = 1/n tends to softmax."""

from __future__ import annotations

import sympy as sp

from phasekit.derivations.saturation.common import b, derivation, n, proved, require_sign, ssa, z
from phasekit.derivations.steps import Step
from phasekit.derivations.symbols import named

epsilon = sp.Symbol("epsilon", positive=True)


def log_weight() -> sp.Expr:
    """Return t(z) for z > 0 and b = 1/n."""
    return sp.expand_log(sp.log(ssa(z).subs(b, 1 / n)), force=True)


def slope() -> Step:
    """Let b = 1/n. For x = z > 0 the log-weight t(z) = n ln(1 + z/n) has slope 1/(1 + z/n), which falls short of 1 by
    at most z/n.
    """
    shortfall = 1 - sp.diff(log_weight(), z)
    return Step.of(
        slope,
        sp.Ge(require_sign(shortfall, True, "slope at most 1"), 0, evaluate=False),
        sp.Ge(require_sign(z / n - shortfall, True, "shortfall at most z/n"), 0, evaluate=False),
    )


def integral() -> Step:
    """Integrate from 0: −z²/(2n) ≤ t(z) − z ≤ 0. t is odd, so |t(x) − x| ≤ x²/(2n) for every x."""
    x = sp.Symbol("x", positive=True)
    return Step.of(
        integral,
        proved(log_weight().subs(z, 0), sp.Integer(0), "t(0) = 0", named("t(0)", "t(0)")),
        proved(sp.integrate(x / n, (x, 0, z)), z**2 / (2 * n), "integral", sp.Integral(x / n, (x, 0, z))),
        proved(base_of_negative(), 1 / (1 + z / n), "t is odd", named("f(-z)^(1/n)", "f(-z)^{1/n}")),
    )


def base_of_negative() -> sp.Expr:
    """Return the n-th root of f(−z)."""
    return sp.exp(sp.expand_log(sp.log(ssa(-z).subs(b, 1 / n)), force=True) / n)


def quotient() -> Step:
    """With ε = ‖z‖²/(2n), each log-weight is off by at most ε, so the weights and their sum change by factors between
    e^(−ε) and e^ε, and p_SSA/p_softmax is between e^(−2ε) and e^(2ε).
    """
    changed = named("p_SSA/p_softmax", r"p_\mathrm{SSA}/p_\mathrm{softmax}")
    return Step.of(
        quotient,
        sp.Le(sp.exp(-2 * epsilon), changed, evaluate=False),
        sp.Le(changed, sp.exp(2 * epsilon), evaluate=False),
    )


PROOFS = (
    derivation(
        "exponential-limit",
        "Exponential limit: SSA with b = 1/n, n → ∞, is softmax",
        "7",
        lambda: (slope(), integral(), quotient()),
    ),
)
