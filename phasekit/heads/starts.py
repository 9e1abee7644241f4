"""Where training starts: on the uniform branch, on the copy branch, or anywhere the prior allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq

from phasekit.errors import InputError
from phasekit.heads.factorised import factor_scale
from phasekit.heads.induction import draw_induction_start
from phasekit.model import Induction, Model
from phasekit.streams import stream

# Perturbation of the ordered starts, in units of the prior's standard deviations: breaks symmetries, leaves the branch.
_NOISE = 0.02
_LARGEST_LOGIT = 1e4
# What the prior of G may charge for the logits of an ordered start, as a share of U(0, 0) = P/(2κ), the energy of a
# head that does nothing. Linear attention takes logits at the first price; other scores take what their pattern needs,
# at most at the second: a minimum never costs more than doing nothing.
_CHEAP, _DEAR = 0.1, 1.0

Weights = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw_start(model: Model, start: str, seed: int, member: int) -> Weights:
    """Return W (V, V) and G (n, n) where a member starts; with a ``key_dim``, W_Q and W_K (2, d, n) in place of G.

    * ``"uniform"``: uniform attention, the pooling branch.
    * ``"copy"``: attention raised one position back, the copy branch.
    * ``"copy:K"``: the same in the first K positions, uniform attention in the others.
    * ``"random"``: W and G drawn from their priors; ``"random:0.1"``: a tenth of such a draw.

    All but the random ones carry noise of 2 % of the prior, and the readout that is best for their attention if data
    were infinite: ``W = w₁Π + w(1 - Π)`` of docs/theory.md, section 2. The draw belongs to (seed, start, member) alone.
    Factors start from the noisy logits, split evenly between W_Q and W_K (see :func:`factors_of`).

    Raises
    ------
    InputError
        For an unknown start, or a seed or member that is no whole number of at least 0.
    """
    pattern = pattern_of(start)
    V, shape = model.V, model.positions.shape(model.V, model.L)
    random = stream(f"start {start}", seed, member)
    W, d = model.sigma_w * random.standard_normal((V, V)), model.key_dim
    if pattern is None and d is not None:
        factors = factor_scale(model.sigma_g, d) * random.standard_normal((2, d, shape[1]))
        return size_of(start) * W, size_of(start) * factors
    G = model.sigma_g * random.standard_normal(shape)
    if pattern is None:
        return size_of(start) * W, size_of(start) * G
    logits = pattern(model)
    W, G = _NOISE * W + best_readout(model, logits), _NOISE * G + model.positions.weights(logits, V)
    return W, G if d is None else factors_of(G, d)


def factors_of(G: NDArray[np.float64], d: int) -> NDArray[np.float64]:
    """Return W_Q and W_K, shape (2, d, n), of equal norms, whose product is G, or what d dimensions can hold of it.

    The cheapest factors of G = Σ_k σ_k u_k v_kᵀ are √σ_k u_k and √σ_k v_k. Of a G of higher rank the d largest singular
    values are kept, raised in proportion so that their sum, the nuclear norm, stays.
    """
    u, singular, v = np.linalg.svd(G)
    kept = np.zeros((2, d, len(G)))
    rank = min(d, len(G))
    root = np.sqrt(singular[:rank] * (singular.sum() / max(singular[:rank].sum(), np.finfo(float).tiny)))
    kept[0, :rank], kept[1, :rank] = root[:, None] * u.T[:rank], root[:, None] * v[:rank]
    return kept


def draw_starts(
    models: Sequence[Model], starts: Sequence[tuple[str, int]], seed: int, dtype: torch.dtype, device: torch.device
) -> dict[str, torch.Tensor]:
    """Return W and G (or both factors of G), led by (D, M), for models times members, each a pair (start, member)."""
    draws = [[_named_start(model, start, seed, member) for start, member in starts] for model in models]
    stacked = {name: np.stack([np.stack([draw[name] for draw in row]) for row in draws]) for name in draws[0][0]}
    return {name: torch.from_numpy(array).to(device, dtype) for name, array in stacked.items()}


def _named_start(model: Model, start: str, seed: int, member: int) -> dict[str, NDArray[np.float64]]:
    if isinstance(model.task, Induction):
        return draw_induction_start(model, start, seed, member)
    return dict(zip("WG", draw_start(model, start, seed, member), strict=True))


@lru_cache
def uniform_logits(model: Model) -> NDArray[np.float64]:
    """Return equal logits: 0 where rows of A sum to 1 anyway, else of a height that costs a tenth of U(0, 0)."""
    ones = np.ones((model.L, model.L))
    return 0 * ones if model.score.normalised else _affordable_height(model, ones, _CHEAP) * ones


@lru_cache
def copy_logits(model: Model) -> NDArray[np.float64]:
    """Return logits that are raised one position back, so that half of the attention lies there.

    Linear attention, whose rows don't sum to 1, takes logits that cost a tenth of U(0, 0). No start costs more than
    U(0, 0), because no minimum below U(0, 0) does: scores that grow slowly with the logit would else begin far away.
    """
    shift, positions = np.roll(np.eye(model.L), 1, axis=1).T, model.mask.counted(model.L).sum()

    def missing_weight(height: float) -> float:
        return float((_attention(model, height * shift) * shift).sum() / positions) - 0.5

    if not model.score.normalised:
        return _affordable_height(model, shift, _CHEAP) * shift
    highest = min(_LARGEST_LOGIT, _affordable_height(model, shift, _DEAR))
    if missing_weight(highest) <= 0:
        return highest * shift
    return float(brentq(missing_weight, 0.0, _LARGEST_LOGIT, xtol=1e-6)) * shift


def best_readout(model: Model, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the W that is best for this attention on infinite data, tokens being independent.

    For uniform tokens W = w₁Π + w(1 - Π) (docs/theory.md, section 2), else W = (E[φφᵀ] + λ)⁻¹ E[φyᵀ].
    """
    V, t = model.V, float(model.parameters().strength)
    A, positions = _attention(model, logits), model.mask.counted(model.L).sum()
    sums, copied = A.sum(1), np.roll(A, -1, axis=0).diagonal()
    s, s2, g, q = (float(part.sum() / positions) for part in (sums, sums**2, copied, A**2))
    if model.tokens.uniform:
        w1, w = t * s / (1 + t * s2), t * g / (1 + t * q)
        mean = np.full((V, V), 1 / V)
        return np.asarray(w1 * mean + w * (np.eye(V) - mean))
    frequencies = model.tokens.frequencies(V)
    own, pair = np.diag(frequencies), np.outer(frequencies, frequencies)
    return np.asarray(np.linalg.solve(q * own + (s2 - q) * pair + np.eye(V) / (t * V), g * own + (s - g) * pair))


STARTS: dict[str, Callable[[Model], NDArray[np.float64]] | None] = {
    "uniform": uniform_logits,
    "copy": copy_logits,
    "random": None,
}


def pattern_of(start: str) -> Callable[[Model], NDArray[np.float64]] | None:
    """Return what makes the logits of a start; None for a random one.

    Raises
    ------
    InputError
        For an unknown start.
    """
    word, colon, number = start.partition(":")
    if word == "copy" and colon and number.isdecimal():
        first = int(number)
        return lambda model: np.where(np.arange(model.L)[:, None] < first, copy_logits(model), uniform_logits(model))
    if word == "random" and colon and size_of(start) > 0:
        return None
    if start not in STARTS:
        known = f"{', '.join(STARTS)}, copy:K (in the first K positions), random:SIZE (in units of the prior)"
        raise InputError("start", start, f"must be one of {known}")
    return STARTS[start]


def size_of(start: str) -> float:
    """Return what a start multiplies draws from the priors with; 0 where that is no number above 0."""
    try:
        size = float(start.partition(":")[2] or 1)
    except ValueError:
        return 0.0
    return size if 0 < size < np.inf else 0.0


def _attention(model: Model, logits: NDArray[np.float64]) -> NDArray[np.float64]:
    mask = torch.from_numpy(model.mask.visible(model.L) & model.mask.counted(model.L)[:, None])
    return np.asarray(model.score.rows(torch.from_numpy(logits), mask if model.mask.hides else None))


def _affordable_height(model: Model, pattern: NDArray[np.float64], share: float) -> float:
    """Return the height at which the pattern's prior cost is that share of U(0, 0) = P/(2κ)."""
    cost = (model.positions.weights(pattern, model.V) ** 2).sum() / model.sigma_g**2
    return float(np.sqrt(share * (model.P or 0.0) / (model.kappa * cost)))
