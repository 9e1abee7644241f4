"""Averages over one attention row under the posterior's tilt, from draws: rows that aren't f(h)/Σf.

Given the mean field, rows are independent, and the weight of a row's logits is the prior times exp(θ g + η q). Rows are
drawn with the copy logit raised by several amounts, between none and as much as copying needs. Every row then counts by
the exact ratio of the prior to the mixture of all these laws (the balance heuristic), so what comes out is an average
over the true row map whatever the amounts; they only decide how noisy it is. The rows stay the same for all θ and η:
ln Z is a smooth function with exact derivatives. Independent groups of rows give its standard error.

Such a sample is good enough for scores whose tilt is weak where they begin to copy, as it is for sparse ones. Rows
f(h)/Σf have a strong one that acts on all logits at once; they are integrated (:mod:`.row_quadrature`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtri

from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.theory.action.base import Array
from phasekit.theory.action.row_averages import Cumulants, Rows, Tilt

#: Independent groups of rows (each a scrambled Sobol sequence of its own), and rows of each law in a group: by default,
#: and how far that may go in powers of two.
GROUPS = 8
ROWS = 1024
_FEWEST, _MOST = 7, 14
#: By how many prior standard deviations the copy logit is raised.
_RAISED = np.linspace(0.0, 5.0, 16)
#: Longest row: more would take minutes and gigabytes.
LONGEST = 4096
_NUMBERS_AT_ONCE = 2**21


class RowSample(Rows):
    """Weighted rows of one system.

    Parameters
    ----------
    g, q : arrays, shape (groups, rows)
        Copy weight and squared norm of each row.
    log_weight : array, shape (groups, rows)
        Logarithm of prior over mixture; each group's weights average to 1 up to noise.
    """

    def __init__(self, g: Array, q: Array, log_weight: Array) -> None:
        self.g, self.q, self.log_weight = g, q, log_weight
        self.prior, _ = self.cumulants(0.0, 0.0)

    def cumulants(self, theta: float, eta: float, near: Any = None) -> tuple[Cumulants, Any]:
        exponent = theta * self.g + eta * self.q + self.log_weight
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        weight /= total
        g, q = float((weight * self.g).sum()), float((weight * self.q).sum())
        from_g, from_q = self.g - g, self.q - q
        weighted = weight * from_g
        gg, gq = float((weighted * from_g).sum()), float((weighted * from_q).sum())
        qq = float((weight * from_q * from_q).sum())
        return Cumulants(top + np.log(total / self.g.size), g, q, gg, gq, qq), None

    def effective_rows(self, theta: float, eta: float) -> float:
        """Return (Σw)²/Σw²."""
        exponent = theta * self.g + eta * self.q + self.log_weight
        weight = np.exp(exponent - exponent.max())
        return float(weight.sum() ** 2 / (weight**2).sum())

    def error_of_difference(self, low: Tilt, high: Tilt) -> float:
        """Return the standard error: the same rows are in both."""
        differences = self.group_log_Z(*high[:2]) - self.group_log_Z(*low[:2])
        return float(differences.std(ddof=1) / np.sqrt(differences.size))

    def group_log_Z(self, theta: float, eta: float) -> Array:
        """Return ln Z₁ from each group alone, shape (groups,): their spread is the error of the whole."""
        exponent = theta * self.g + eta * self.q + self.log_weight
        top = exponent.max()
        return np.asarray(top + np.log(np.exp(exponent - top).mean(axis=1)))


def rows_of_each_law(times: float) -> int:
    """Return how many rows of each law to draw in a group, for so many times the default: a power of two."""
    return int(2 ** np.clip(np.ceil(np.log2(ROWS * times) - 1e-9), _FEWEST, _MOST))


@lru_cache(maxsize=64)
def row_sample(score: Score, L: int, sigma_g: float, rows: int = ROWS, seed: int = 0) -> RowSample:
    """Draw the rows of a system.

    Raises
    ------
    InputError
        If they are longer than :data:`LONGEST`.
    """
    if L > LONGEST:
        raise InputError("L", L, f"the posterior of {score.name} is computed up to {LONGEST}")
    shape = (GROUPS, _RAISED.size * rows)
    g, q, log_weight = (np.empty(shape) for _ in range(3))
    for group in range(GROUPS):
        generator = np.random.default_rng([seed, group])
        for k, raised in enumerate(_RAISED):
            points = stats.qmc.Sobol(L, rng=generator).random(rows)
            logits = ndtri(np.clip(points, 1e-12, 1 - 1e-12))
            logits[:, 0] += raised
            place = slice(k * rows, (k + 1) * rows)
            g[group, place], q[group, place] = _weights(score, logits * sigma_g)
            ratios = np.exp(_RAISED * logits[:, :1] - _RAISED**2 / 2)
            log_weight[group, place] = -np.log(ratios.mean(axis=1))
    return RowSample(g, q, log_weight)


def _weights(score: Score, logits: Array) -> tuple[Array, Array]:
    """Return copy weight and squared norm of each row, by the score's own row map."""
    import torch

    g, q = [], []
    step = max(1, _NUMBERS_AT_ONCE // logits.shape[1])
    for first in range(0, len(logits), step):
        A = score.rows(torch.from_numpy(logits[first : first + step]))
        g.append(A[:, 0].numpy())
        q.append((A * A).sum(dim=1).numpy())
    return np.concatenate(g), np.concatenate(q)
