"""Attention by its definition, through the query × key matrix: the reference for every other path."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.attention.call import Call, outside_autocast


def explicit_weights(call: Call) -> Tensor:
    """Return the attention weights (..., heads, queries, keys), before dropout."""
    with outside_autocast(call.query):
        return call.score.attention_weights(
            call.query,
            share(call.key, call.heads),
            scale=call.scale,
            mask=_with_causality(call) if call.causal else call.mask,
            parameters=call.parameters,
            offset=call.offset,
        )


def explicit_attention(call: Call) -> tuple[Tensor, Tensor]:
    """Return the output (..., heads, queries, value dim), and the weights before dropout."""
    weights = explicit_weights(call)
    dropped = torch.nn.functional.dropout(weights, call.dropout) if call.dropout else weights
    with outside_autocast(call.query):
        return dropped @ share(call.value, call.heads), weights


def share(tensor: Tensor, heads: int) -> Tensor:
    """Repeat key heads for the consecutive query heads that share them."""
    shared = tensor.shape[-3]
    return tensor if heads == shared else tensor.repeat_interleave(heads // shared, dim=-3)


def _with_causality(call: Call) -> Tensor:
    """Return the mask, with the keys behind each query hidden."""
    shape = (call.query.shape[-2], call.key.shape[-2])
    past = torch.ones(shape, dtype=torch.bool, device=call.query.device).tril(call.offset)
    if call.mask is None:
        return past
    return call.mask & past if call.mask.dtype == torch.bool else torch.where(past, call.mask, -torch.inf)
