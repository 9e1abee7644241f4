"""Laws of SSA that are exact, for one row or many: its limit under magnification, and how fast it gets there."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.checks import finite_numbers
from phasekit.errors import InputError


def limit_weights(z: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return SSA's weights in the limit λ → ∞ of z → λz: b has dropped out (docs/saturation.md, section 2).

    p_j ∝ (z_j)₊ⁿ if a logit is positive, uniform over the zeros if the largest is 0, ∝ |z_j|⁻ⁿ if all are negative.

    Parameters
    ----------
    z : array, shape (..., keys)
    n : array that broadcasts to (...)
        Above 0.

    Raises
    ------
    InputError
        If z isn't finite or has no keys, or n isn't above 0.
    """
    row, sharpness = _row(z), _sharpness(n)[..., None]
    top = row.max(axis=-1, keepdims=True)
    # Ratios to the winner, all at most 1, so that no power overflows.
    positive = np.where(row > 0, row, 0) / np.where(top > 0, top, 1)
    negative = np.where(top < 0, top, -1) / np.where(row < 0, row, -1)
    ratio = np.where(top > 0, positive, np.where(top < 0, negative, row == 0))
    weights = ratio**sharpness
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def saturation_exponent(z: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return the exponent a with which the mass off the winner falls in the end, 1 − p_i* ~ λ^(−a).

    0 where SSA keeps a mass off the winner for ever: several positive logits, only negative ones, or a tie for the
    winner. Otherwise n, if the winner or another key is at 0, or 2n.

    Parameters, shapes and errors as for :func:`limit_weights`. Rows have at least two keys.
    """
    row, sharpness = _row(z), _sharpness(n)
    if row.shape[-1] < 2:
        raise InputError("z", row.shape, "needs at least 2 keys")
    # By signs, not by the mass that is left: it may be smaller than the rounding of a weight.
    top, positive, zeros = row.max(axis=-1), (row > 0).sum(axis=-1), (row == 0).sum(axis=-1)
    alone = np.where(top > 0, positive == 1, (top == 0) & (zeros == 1))
    return np.asarray(np.where(alone, np.where(zeros > 0, 1, 2), 0) * sharpness)


def _row(z: ArrayLike) -> NDArray[np.float64]:
    row = finite_numbers("z", z)
    if row.ndim == 0 or row.shape[-1] == 0:
        raise InputError("z", z, "must be finite numbers, at least one key")
    return row


def _sharpness(n: ArrayLike) -> NDArray[np.float64]:
    sharpness = finite_numbers("n", n)
    if not np.all(sharpness > 0):
        raise InputError("n", n, "must be above 0")
    return sharpness
