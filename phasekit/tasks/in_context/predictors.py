"""What can be predicted of y_i from x_1, y_1 … x_{i−1}, y_{i−1} and x_i, for every i and many prompts at once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Added to the diagonal of a covariance, relative to it, so that it has a Cholesky factor without noise too.
_JITTER = 1e-9


def ridge_predictions(features: Array, y: Array, ratio: float) -> Array:
    """Return ridge predictions with penalty ratio²; least squares of least norm at ratio 0.

    Parameters
    ----------
    features : array, shape (prompts, points, coefficients)
    y : array, shape (prompts, points)
    ratio : float
        Standard deviation of the noise over that of the coefficients.

    Returns
    -------
    array, shape (prompts, points)
        The first is 0.
    """
    prompts, points, size = features.shape
    prior = np.broadcast_to(ratio * np.eye(size), (prompts, size, size))
    found = np.zeros((prompts, points))
    for i in range(1, points):
        rows = np.concatenate([features[:, :i], prior], axis=1)
        known = np.concatenate([y[:, :i], np.zeros((prompts, size))], axis=1)
        coefficients = (np.linalg.pinv(rows, rcond=1e-12) @ known[..., None])[..., 0]
        found[:, i] = (features[:, i] * coefficients).sum(1)
    return found


def kernel_predictions(kernel: Array, y: Array, noise: float) -> Array:
    """Return the best linear predictions of y with prior covariance ``kernel`` (prompts, points, points) plus noise².

    For Gaussian y they are the means of the posterior.
    """
    return one_step_ahead(kernel, y, noise)[0]


def mixed_predictions(x: Array, y: Array, nonzero: int, noise: float) -> Array:
    """Return the mean of the posterior of w·x where all but ``nonzero`` coefficients are 0, over all supports."""
    total, mean, top = np.zeros(y.shape), np.zeros(y.shape), np.full(y.shape, -np.inf)
    for support in combinations(range(x.shape[-1]), nonzero):
        part = x[..., list(support)]
        predicted, log_density = one_step_ahead(part @ part.swapaxes(-1, -2), y, noise)
        before = np.cumsum(np.pad(log_density, ((0, 0), (1, 0)))[:, :-1], axis=1)  # evidence of what came before i
        higher = np.maximum(top, before)
        old, new = np.exp(top - higher), np.exp(before - higher)
        total, mean, top = old * total + new, old * mean + new * predicted, higher
    return np.asarray(mean / total)


def one_step_ahead(kernel: Array, y: Array, noise: float) -> tuple[Array, Array]:
    """Return the prediction of every y_i from those before, and the log density of y_i there, without 2π.

    With the Cholesky factor C of the covariance and e = C⁻¹y, y_i is predicted as y_i − C_ii·e_i, with variance C_ii².
    """
    floor = noise**2 + _JITTER * np.einsum("bii->bi", kernel) + 1e-12
    factor = np.linalg.cholesky(kernel + floor[:, :, None] * np.eye(kernel.shape[-1]))
    white = np.linalg.solve(factor, y[..., None])[..., 0]
    spread = np.einsum("bii->bi", factor)
    return y - spread * white, -0.5 * white**2 - np.log(spread)
