"""Where linear attention starts to learn on the data it actually sees."""

from __future__ import annotations

import torch

from phasekit.errors import InputError
from phasekit.heads.moments import one_hot
from phasekit.scores import Linear
from phasekit.tasks.copy import Dataset

_CHUNK_NUMBERS = 2**22


def onset_ratio(dataset: Dataset) -> float:
    """Return how far a data set is past its own onset: W = G = 0 is the minimum of U up to 1, and a saddle above.

    For linear attention U is, to second order in (W, G),

        P/(2κ) - M[G, W]/(κL²) + ‖W‖²/(2σ_w²) + ‖G‖²/(2σ_g²),      M[G, W] = Σ_μ Σ_ij (x̃_iᵀ G x̃_j)(x_jᵀ W y_i),

    so the ratio is ``σ_w σ_g/(κL²)`` times the largest singular value of the n²×V² matrix M. On infinite data it is 1
    at P₁ of docs/theory.md, section 4. With P sequences, fluctuations add to the singular values, with positional
    inputs by a factor of about ``1 + (1 + V²/L²)/(2P)``: networks learn a little earlier than the theory says, and
    just above P₁, where order parameters grow as √(P - P₁), that shows.

    Raises
    ------
    InputError
        For another score.
    """
    model, tokens = dataset.model, dataset.tokens
    if not isinstance(model.score, Linear):
        raise InputError("score", model.score.name, "only linear attention has an onset at W = G = 0")
    V, L = model.V, model.L
    n = L if model.inputs == "positional" else V + L
    positions = torch.eye(L, dtype=torch.float64)
    M = torch.zeros(n * V, n * V, dtype=torch.float64)
    rows = max(1, _CHUNK_NUMBERS // (n * (L + V)))
    for start in range(0, len(tokens), rows):
        X = one_hot(tokens[start : start + rows], V, "cpu", torch.float64)
        seen = positions.expand(len(X), L, L)
        if model.inputs == "token+position":
            seen = torch.cat([X, seen], 2)
        queries, keys = torch.bmm(seen.mT, X.roll(1, 1)), torch.bmm(seen.mT, X)  # Σ_i x̃_i y_iᵀ and Σ_j x̃_j x_jᵀ
        M += queries.flatten(1).T @ keys.flatten(1)
    by_weights = M.view(n, V, n, V).transpose(1, 2).reshape(n * n, V * V)
    largest = float(torch.linalg.matrix_norm(by_weights, ord=2))
    return model.sigma_w * model.sigma_g * largest / (model.kappa * L**2)
