"""Large gaps: how mass and gradients decay as Δ → ∞ with the other logits fixed (docs/saturation.md, section 5).

S₀ = Σ_{j≠i*} f(z_j). With κ = |1 + bc|/(bΔ) < 1, the winner's weight is (bΔ)^n (1 ± κ)^n, and κ/(1 − κ) bounds
|ln(1 ± κ)|: the leading forms hold with an explicit error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Domain, Inputs
from phasekit.saturation.formulas import log_count, log_winner_loss, positive
from phasekit.saturation.theorem import Formula, Hypothesis, Point, Theorem
from phasekit.saturation.theorems import variables as v
from phasekit.saturation.theorems.imbalance import log_odds

SECTION = "5"


def _kappa(xp: Arithmetic, x: Point) -> Number:
    return xp.absolute(1 + x["b"] * x["others"][:, :1]) / (x["b"] * x["gap"])


def leading_odds(xp: Arithmetic, x: Point) -> Number:
    """Return ln[S₀ (bΔ)^(−n)]."""
    return xp.logsumexp(xp.ssa(x["others"], x["n"], x["b"])) - x["n"] * xp.log(x["b"] * x["gap"])


def leading_gradient(xp: Arithmetic, x: Point) -> Number:
    """Return ln[n b S₀ (bΔ)^(−n−1)], of ∂p_i*/∂z_i*."""
    return leading_odds(xp, x) + xp.log(x["n"] / x["gap"])


def leading_other_gradients(xp: Arithmetic, x: Point) -> Number:
    """Return ln[f(z_j) t'(z_j) (bΔ)^(−n)], of |∂p_i*/∂z_j| for every other key."""
    log_weights = xp.ssa(x["others"], x["n"], x["b"])
    return log_weights + _log_slope(xp, x, x["others"]) - x["n"] * xp.log(x["b"] * x["gap"])


def _log_slope(xp: Arithmetic, x: Point, z: Number) -> Number:
    """Return ln t'(z) = ln[n b/(1 + b|z|)]."""
    return xp.log(x["n"] * x["b"]) - xp.log1p(x["b"] * xp.absolute(z))


def _gradient(xp: Arithmetic, x: Point) -> Number:
    """Return ln ∂p_i*/∂z_i* = ln[p (1 − p) t'(c + Δ)]."""
    odds = log_odds(xp, x)
    return odds - 2.0 * log_winner_loss(xp, odds) + _log_slope(xp, x, x["others"][:, :1] + x["gap"])


def _other_gradients(xp: Arithmetic, x: Point) -> Number:
    """Return ln |∂p_i*/∂z_j| = ln[p_i* p_j t'(z_j)] for every other key."""
    winner = xp.ssa(x["others"][:, :1] + x["gap"], x["n"], x["b"])
    log_ratio = xp.ssa(x["others"], x["n"], x["b"]) - winner
    return log_ratio - 2.0 * log_winner_loss(xp, log_odds(xp, x)) + _log_slope(xp, x, x["others"])


def _error(xp: Arithmetic, x: Point, power: float | Number) -> Number:
    """Return power · κ/(1 − κ)."""
    kappa = _kappa(xp, x)
    return power * kappa / (1 - kappa)


def _saturation_error(xp: Arithmetic, x: Point) -> Number:
    """Return an upper bound of 2 ln(1 + S): 2S, with S bounded by its leading form."""
    return 2.0 * xp.exp(leading_odds(xp, x) + _error(xp, x, x["n"]))


def _between(leading: Formula, below: Formula, above: Formula) -> tuple[Formula, Formula]:
    """Return the bounds ``leading − below`` and ``leading + above``."""
    return lambda xp, x: leading(xp, x) - below(xp, x), lambda xp, x: leading(xp, x) + above(xp, x)


def _power_error(extra: float, saturation: bool) -> Formula:
    def error(xp: Arithmetic, x: Point) -> Number:
        total = _error(xp, x, x["n"] + extra)
        return total + _saturation_error(xp, x) if saturation else total

    return error


def _kappa_below_one(inputs: Inputs) -> NDArray[np.bool_]:
    # The margin keeps κ away from 1, where its error bound is infinite, and is wider than the rounding of this line.
    return np.abs(1 + inputs["b"] * inputs["others"][:, :1]) < inputs["b"] * inputs["gap"] * (1 - 2.0**-20)


def _winner_not_negative(inputs: Inputs) -> NDArray[np.bool_]:
    return inputs["others"][:, :1] + inputs["gap"] >= 0


def _ssa(
    name: str, title: str, statement: str, quantity: str, value: Formula, bounds: tuple[Formula, Formula]
) -> Theorem:
    return Theorem(
        name=name,
        title=title,
        section=SECTION,
        statement=statement,
        quantity=quantity,
        hypotheses=(
            *positive("gap", "n", "b"),
            Hypothesis("gap", "bΔ must exceed |1 + bc|", _kappa_below_one),
            Hypothesis("gap", "c + Δ must not be below 0", _winner_not_negative),
        ),
        value=value,
        lower=bounds[0],
        upper=bounds[1],
        domain=Domain(
            {"others": v.OTHERS, "gap": v.LARGE_GAP, "n": v.N, "b": v.B},
            extra_keys=1,
            condition="bΔ > |1 + bc|; c + Δ ≥ 0",
        ),
    )


_plain, _shifted = _power_error(0.0, False), _power_error(1.0, False)

ODDS = _ssa(
    "ssa-tail",
    "Large gaps, SSA: mass ~ S₀ (bΔ)^(−n)",
    "S = S₀ (bΔ)^(−n) e^(±nκ/(1−κ)), κ = |1+bc|/(bΔ);  1 − p_i* = S/(1+S)",
    "ln S",
    log_odds,
    _between(leading_odds, _plain, _plain),
)
GRADIENT = _ssa(
    "ssa-gradient",
    "Large gaps, SSA: winner's gradient ~ Δ^(−n−1)",
    "∂p_i*/∂z_i* = nb S₀ (bΔ)^(−n−1), within factors e^((n+1)κ/(1−κ)) above and e^(−(n+1)κ/(1−κ) − 2S) below",
    "ln ∂p_i*/∂z_i*",
    _gradient,
    _between(leading_gradient, _power_error(1.0, True), _shifted),
)
OTHER_GRADIENTS = _ssa(
    "ssa-gradient-others",
    "Large gaps, SSA: other keys' gradients ~ Δ^(−n)",
    "|∂p_i*/∂z_j| = f(z_j) t'(z_j) (bΔ)^(−n), within factors e^(nκ/(1−κ)) above and e^(−nκ/(1−κ) − 2S) below",
    "ln |∂p_i*/∂z_j|",
    _other_gradients,
    _between(leading_other_gradients, _power_error(0.0, True), _plain),
)


def _softmax_gradient(xp: Arithmetic, x: Point) -> Number:
    odds = xp.logsumexp((x["others"] - x["others"][:, :1]) - x["gap"])
    return odds - 2.0 * log_winner_loss(xp, odds)


def softmax_gradient_lower(xp: Arithmetic, x: Point) -> Number:
    """Return ln[e^(−Δ)/(1 + (m − 1)e^(−Δ))²]."""
    return -x["gap"] - 2.0 * log_winner_loss(xp, log_count(xp, x.exact["others"]) - x["gap"])


def softmax_gradient_upper(xp: Arithmetic, x: Point) -> Number:
    """Return ln[(m − 1)e^(−Δ)]."""
    return log_count(xp, x.exact["others"]) - x["gap"]


SOFTMAX_GRADIENT = Theorem(
    name="softmax-gradient",
    title="Large gaps, softmax: gradient ~ e^(−Δ)",
    section=SECTION,
    statement="e^(−Δ)/(1 + (m−1)e^(−Δ))² ≤ ∂p_i*/∂z_i* ≤ (m−1)e^(−Δ)",
    quantity="ln ∂p_i*/∂z_i*",
    hypotheses=positive("gap"),
    value=_softmax_gradient,
    lower=softmax_gradient_lower,
    upper=softmax_gradient_upper,
    domain=Domain({"others": v.SOFTMAX_OTHERS, "gap": v.SOFTMAX_GAP}, extra_keys=1),
)

THEOREMS = (ODDS, GRADIENT, OTHER_GRADIENTS, SOFTMAX_GRADIENT)
