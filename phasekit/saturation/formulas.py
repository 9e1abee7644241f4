"""Building blocks of the theorems' formulas, all in logarithms so that tiny masses keep all their digits.

Notation (docs/saturation.md): m keys, the winner i* has the largest logit M, R_j = w_j/w_i*, S = Σ_{j≠i*} R_j. Then
1 − p_i* = S/(1 + S) and p_j = R_j/(1 + S), without approximation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.domain import Inputs
from phasekit.saturation.theorem import Hypothesis, Point


def log_mass(xp: Arithmetic, log_odds: Number) -> Number:
    """Return ln(1 − p) = ln[S/(1 + S)] from ln S."""
    return log_odds - log_winner_loss(xp, log_odds)


def log_winner_loss(xp: Arithmetic, log_odds: Number) -> Number:
    """Return −ln p = ln(1 + S) from ln S."""
    return xp.log1p(xp.exp(log_odds))


def log_ratios(log_weights: Number) -> Number:
    """Return ln R_j of all keys but the winner, from log-weights in descending order."""
    return log_weights[:, 1:] - log_weights[:, :1]


def magnified(xp: Arithmetic, x: Point) -> Number:
    """Return SSA's log-weights t(λz)."""
    return xp.ssa(x["lam"] * x["z"], x["n"], x["b"])


def log_count(xp: Arithmetic, row: NDArray[np.float64], less: int = 0) -> Number:
    """Return the logarithm of the number of keys in a row, less some: computed, because a float would be rounded."""
    return xp.log(xp.lift(np.full((1, 1), float(row.shape[-1] - less))))


def largest_magnitude(xp: Arithmetic, x: Point) -> Number:
    """Return ‖z‖_∞ of descending logits."""
    z = x.exact["z"]
    first_is_larger = np.abs(z[:, :1]) >= np.abs(z[:, -1:])
    return xp.absolute(xp.where(first_is_larger, x["z"][:, :1], x["z"][:, -1:]))


def positive(*fields: str) -> tuple[Hypothesis, ...]:
    """Return the hypotheses that these inputs are above 0."""

    def above_zero(field: str) -> Hypothesis:
        return Hypothesis(field, "must be above 0", lambda inputs: inputs[field] > 0)

    return tuple(above_zero(field) for field in fields)


def _not_all_zero(inputs: Inputs) -> NDArray[np.bool_]:
    return np.asarray((inputs["z"] != 0).any(axis=-1, keepdims=True))


def _not_all_equal(inputs: Inputs) -> NDArray[np.bool_]:
    return inputs["z"][:, :1] > inputs["z"][:, -1:]


N_AT_LEAST_ONE = Hypothesis("n", "must be at least 1", lambda inputs: inputs["n"] >= 1)
NOT_ALL_ZERO = Hypothesis("z", "must not be 0 at every key", _not_all_zero)
NOT_ALL_EQUAL = Hypothesis("z", "must not be equal at all keys", _not_all_equal)
