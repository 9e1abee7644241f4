"""Does a score keep the contract that theory, networks and transformers rely on? For scores of your own."""

from __future__ import annotations

import torch

from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.consistency import check_consistency, promise
from phasekit.scores.registry import SCORES

_HEADS, _QUERIES, _KEYS, _DIM = 2, 4, 5, 3
_EXACT = 1e-9


def check_score(score: Score) -> None:
    """Check one score, with its values of the parameters, at random logits in float64.

    Checked are its description, rows (their sum, boolean and additive masks, rows that see nothing), the hand-written
    gradient against automatic differentiation, learned parameters, the two-level row of the theory, and that
    larger logits don't weigh less. The tests hold the scores of this package to more
    (``tests/scores/test_contract.py``).

    Raises
    ------
    InputError
        One line that says what the first broken promise is.
    """
    if not isinstance(score, Score):
        raise InputError("score", score, "must be an object of a class derived from phasekit.scores.Score")
    for check in (_description, _rows, _masks, _pull_back, _learned, _two_level):
        check(score)


def _draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _weights(score: Score, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return weights from queries and keys, and check that they are the rows of the logits."""
    query, key = _draw(_HEADS, _QUERIES, _DIM).abs(), _draw(_HEADS, _KEYS, _DIM, seed=1).abs()  # all overlap
    weights = score.attention_weights(query, key, mask=mask)
    if score.uses_logits:
        rows = score.rows(query @ key.transpose(-1, -2) * _DIM**-0.5, mask)
        promise(_close(rows.double(), weights.double()), score, "rows of q·k/√dim are the attention weights")
    return weights


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=_EXACT, atol=_EXACT))


def _description(score: Score) -> None:
    name = getattr(type(score), "name", None)
    promise(isinstance(name, str) and bool(name), score, "its class needs a name")
    again = SCORES.build(score.describe())
    promise(again == score, score, "get_score(score.describe()) is the score")
    unknown = sorted(set(score.learnable) - set(score.numbers))
    promise(not unknown, score, f"learnable names no number of it: {', '.join(unknown)}")


def _rows(score: Score) -> None:
    weights = _weights(score)
    promise(weights.shape == (_HEADS, _QUERIES, _KEYS), score, "weights have the shape (heads, queries, keys)")
    promise(weights.dtype == torch.float64, score, "weights have the dtype of the queries")
    promise(bool(weights.isfinite().all()), score, "weights are finite")
    if score.normalised:
        promise(_close(weights.sum(-1), torch.ones(_HEADS, _QUERIES).double()), score, "rows sum to 1, or say not")


def _masks(score: Score) -> None:
    keep = _draw(_QUERIES, _KEYS, seed=2) > 0
    keep[0], keep[1] = True, False
    weights = _weights(score, keep)
    hidden = weights.masked_select(~keep)
    promise(bool((hidden == 0).all()), score, "hidden keys, and rows that see nothing, have weights of exactly 0")
    additive = torch.zeros(_QUERIES, _KEYS, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    promise(_close(_weights(score, additive), weights), score, "an additive mask of -inf is the boolean mask")
    if score.normalised:
        seen = keep.any(-1).double().expand(_HEADS, -1)
        promise(_close(weights.sum(-1), seen), score, "masked rows sum to 1")


def _pull_back(score: Score) -> None:
    if not score.uses_logits:
        return
    logits = (2 * _draw(_HEADS, _QUERIES, _KEYS)).requires_grad_()
    weights, upstream = score.rows(logits), _draw(_HEADS, _QUERIES, _KEYS, seed=3)
    (expected,) = torch.autograd.grad(weights, logits, upstream)
    found = score.pull_back(logits.detach(), weights.detach(), upstream)
    promise(_close(found, expected), score, "pull_back is the gradient of rows")


def _learned(score: Score) -> None:
    if not score.uses_logits or not score.learnable:
        return
    logits = 2 * _draw(_HEADS, _QUERIES, _KEYS)
    module = score.make_parameters(_HEADS)
    weights = score.rows(logits, None, module())
    same = torch.allclose(weights, score.rows(logits), rtol=1e-5, atol=1e-6)  # parameters are float32
    promise(bool(same), score, "learned parameters start at the fields' values")
    gradients = torch.autograd.grad((weights**2).sum(), list(module.parameters()))
    finite = all(bool(gradient.isfinite().all()) for gradient in gradients)
    promise(finite, score, "learned parameters have finite gradients")


def _two_level(score: Score) -> None:
    if score.uses_logits:
        check_consistency(score)
