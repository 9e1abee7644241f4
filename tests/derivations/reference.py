"""The model's definition once more, written down from docs/theory.md without any of the derivations.

``math`` is the module to compute with: numpy, or mpmath for fifty digits.
"""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np


def phi(s: Any, s2: Any, g: Any, q: Any, P: Any, V: Any, sigma_w: Any, kappa: Any) -> Any:
    """Data part of the map action."""
    t = P * sigma_w**2 / (kappa * V)
    return P / (2 * kappa * V) * ((1 - t * s**2 / (1 + t * s2)) + (V - 1) * (1 - t * g**2 / (1 + t * q)))


def loss(s: Any, s2: Any, g: Any, q: Any, P: Any, V: Any, sigma_w: Any, kappa: Any) -> Any:
    """Mean squared error per position at the best W."""
    t = P * sigma_w**2 / (kappa * V)
    w1, w = t * s / (1 + t * s2), t * g / (1 + t * q)
    return ((1 - 2 * w1 * s + w1**2 * s2) + (V - 1) * (1 - 2 * w * g + w**2 * q)) / V


def linear_averages(c1: Any, cG: Any, L: Any) -> tuple[Any, Any, Any, Any]:
    """s, s2, g, q of a row with c1/L everywhere and cG more on the copy entry."""
    copy, other = c1 / L + cG, c1 / L
    row = copy + (L - 1) * other
    return row, row**2, copy, copy**2 + (L - 1) * other**2


def linear_action(c1: Any, cG: Any, P: Any, V: Any, L: Any, sigma_w: Any, sigma_g: Any, kappa: Any, lam: Any) -> Any:
    """S(c1, cG)."""
    prior = (lam * (c1 + cG) ** 2 + L**2 * (L - 1) * cG**2) / (2 * sigma_g**2)
    return phi(*linear_averages(c1, cG, L), P, V, sigma_w, kappa) + prior


def softmax_averages(gap: Any, L: Any, math: Any = mpmath) -> tuple[Any, Any, Any, Any]:
    """s, s2, g, q of a softmax row with one logit raised by the gap."""
    copy = math.exp(gap) / (math.exp(gap) + L - 1)
    other = 1 / (math.exp(gap) + L - 1)
    return 1, 1, copy, copy**2 + (L - 1) * other**2


def softmax_action(gap: Any, P: Any, V: Any, L: Any, sigma_w: Any, sigma_g: Any, kappa: Any, math: Any = mpmath) -> Any:
    """S(Δ)."""
    prior = (L - 1) * gap**2 / (2 * sigma_g**2)
    return phi(*softmax_averages(gap, L, math), P, V, sigma_w, kappa) + prior


def attention_averages(A: np.ndarray) -> tuple[float, float, float, float]:
    """s, s2, g, q of any attention matrix."""
    rows = A.sum(axis=1)
    copies = A[np.arange(len(A)), np.arange(len(A)) - 1]
    return rows.mean(), (rows**2).mean(), copies.mean(), (A**2).sum() / len(A)


def exact_moments(A: np.ndarray, V: int) -> tuple[np.ndarray, np.ndarray]:
    """E[φφᵀ] and E[φyᵀ], averaged over positions, by going through all V^L sequences."""
    L = len(A)
    collected, target = np.zeros((V, V)), np.zeros((V, V))
    for tokens in itertools.product(range(V), repeat=L):
        X = np.eye(V)[list(tokens)]
        features = A @ X
        collected += features.T @ features / L
        target += features.T @ np.roll(X, 1, axis=0) / L
    return collected / V**L, target / V**L
