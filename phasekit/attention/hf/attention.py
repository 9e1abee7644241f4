"""What a model of transformers calls in the place of its attention, and of its mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import sdpa_mask

from phasekit.attention import choose_path, scored_attention
from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.scores.masks import hiding

#: The submodule with the score's parameters in every attention module. Trainer decays no parameter below a name that
#: ends like this.
PARAMETERS = "score_norm"

#: What some models pass on that would change the logits in a way that no score knows.
REFUSED = {"softcap": "a soft cap on logits", "s_aux": "attention sinks"}


def attend(
    score: Score,
    learn: bool,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention for one module, as the attention interface of transformers calls it.

    Parameters
    ----------
    score : Score
    learn : bool
        Whether the module holds parameters of the score.
    module : nn.Module
        The attention module of the model.
    query : Tensor, shape (batch, heads, queries, dim)
    key, value : Tensor, shape (batch, key heads, keys, dim)
    attention_mask : Tensor or None, shape (batch or 1, heads or 1, queries, keys)
    position_bias : Tensor, optional, broadcasting to the mask
        Added behind the score's transform, like an additive mask.

    Returns
    -------
    output : Tensor, shape (batch, queries, heads, dim)
    None, in the place of weights

    Raises
    ------
    InputError
        If a causal module comes without a mask, without parameters, or with a change of logits that scores don't know.
    """
    where = f"{type(module).__name__} (layer {getattr(module, 'layer_idx', '?')})"
    for name, what in REFUSED.items():
        if others.get(name) is not None:
            raise InputError(name, others[name], f"{where} has {what}, which scores don't have")
    if attention_mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        raise InputError("attention_mask", None, f"{where} is causal and would see the future; build a mask first")
    parameters = None
    if learn:
        own = getattr(module, PARAMETERS, None)
        if own is None:
            raise InputError(
                "model", where, "has no parameters of its score; call phasekit.attention.hf.attach(model) first"
            )
        parameters = own()
    mask = attention_mask if position_bias is None else _biased(attention_mask, position_bias)
    offset = 0 if score.uses_logits else _first_position(mask, query, key)
    choice = choose_path(score, query, key, value, mask, dropout_p=dropout)
    module.last_path = choice  # type: ignore[assignment]
    output = scored_attention(
        query,
        key,
        value,
        mask,
        dropout,
        scale=scaling,
        enable_gqa=True,
        score=score,
        parameters=parameters,
        offset=offset,
        path=choice.path,
    )
    return output.transpose(1, 2).contiguous(), None


def visible(**arguments: Any) -> Tensor | None:
    """Return a boolean mask, as the mask interface of transformers asks for it: never none where causality matters."""
    return sdpa_mask(**{**arguments, "allow_is_causal_skip": False})


def _biased(mask: Tensor | None, bias: Tensor) -> Tensor:
    if mask is None:
        return bias
    return torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else mask + bias


def _first_position(mask: Tensor | None, query: Tensor, key: Tensor) -> int:
    """Return the position of the first query among the keys: the last query sees itself, and nothing behind it.

    The length of the keys doesn't tell: a cache may have room that isn't used yet.
    """
    if mask is None:
        return 0
    last = mask[..., -1, :].reshape(-1, key.shape[-2])
    seen = last if mask.dtype == torch.bool else last > hiding(mask.dtype)
    positions = seen.any(dim=0).nonzero()
    return int(positions[-1]) - query.shape[-2] + 1 if len(positions) else 0
