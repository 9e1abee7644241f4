"""Which way attention is computed, and why: every choice can be seen, every refusal has a reason."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phasekit.checks import one_of
from phasekit.errors import InputError
from phasekit.scores import ElementwiseSoftmax, Score

PATHS = ("auto", "explicit", "lean", "flex")

#: Query × key numbers (all heads) up to which "auto" builds the matrix: it is faster there, and small.
SMALL = 2**16


class Choice(NamedTuple):
    """The path taken and why.

    Attributes
    ----------
    path : "explicit", "lean" or "flex"
    reason : str
        One sentence.
    """

    path: str
    reason: str


def choose_path(
    score: Score,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    dropout_p: float = 0.0,
    path: str = "auto",
) -> Choice:
    """Return which path :func:`phasekit.attention.scored_attention` takes for these arguments.

    Raises
    ------
    InputError
        If something is no tensor, ``path`` is unknown, or can't serve these arguments: the message says why.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if not isinstance(tensor, Tensor) and not (tensor is None and name == "attn_mask"):
            raise InputError(name, tensor, "must be a tensor")
        if tensor is not None and tensor.dim() < 2 and name != "attn_mask":
            raise InputError(name, tuple(tensor.shape), "must have at least the axes (length, dim)")
    one_of("path", path, PATHS)
    if path == "explicit":
        return Choice("explicit", "asked for")
    reasons = {"lean": _why_not_lean(score), "flex": _why_not_flex(score, query, key, value, attn_mask, dropout_p)}
    if path != "auto":
        if reasons[path] is not None:
            raise InputError("path", path, f"{reasons[path]}; use path='explicit' or 'auto'")
        if torch.compiler.is_exporting():
            allowed = "can't be exported: its blocks depend on the numbers; use path='explicit' or 'auto'"
            raise InputError("path", path, allowed)
        return Choice(path, "asked for")
    if reasons["lean"] is not None:
        return Choice("explicit", reasons["lean"])
    if query.is_meta:
        return Choice("explicit", "the meta device has shapes only")
    if torch.compiler.is_compiling():
        return Choice("explicit", "the compiler fuses its elementwise steps; it can't see through blocks")
    if query.shape[:-1].numel() * key.shape[-2] <= SMALL:
        return Choice("explicit", f"the query × key matrix has no more than {SMALL} numbers")
    return Choice("lean", "never builds the query × key matrix")


def _why_not_lean(score: Score) -> str | None:
    if not isinstance(score, ElementwiseSoftmax):
        return f"score {score.name} is no softmax of an elementwise map, so its rows can't be joined from blocks"
    return None


def _why_not_flex(
    score: Score, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> str | None:
    if (reason := _why_not_lean(score)) is not None:
        return reason
    if dropout:
        return "FlexAttention has no dropout on probabilities"
    if mask is not None and mask.is_floating_point():
        return "additive masks aren't passed on to FlexAttention"
    if query.dtype == torch.float64:
        return "FlexAttention's compiled kernels have no float64"
    if query.dim() != 4:
        return "FlexAttention takes (batch, heads, length, dim) only"
    return None
