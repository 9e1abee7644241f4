"""What a model of transformers calls in the place of its attention, and of its mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import sdpa_mask
from transformers.utils.output_capturing import _active_collector

from phasekit.attention.attention import run
from phasekit.attention.call import alike, read_call
from phasekit.attention.hf.parameters import PARAMETERS, Learn, registered
from phasekit.attention.paths import choose_path
from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.scores.masks import NEVER, hiding

#: What some models pass on that would change the logits in a way that no score knows.
REFUSED = {"softcap": "a soft cap on logits", "s_aux": "attention sinks"}


def attend(
    score: Score,
    learn: Learn,
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
) -> tuple[Tensor, Tensor | None]:
    """Attention for one module, as the attention interface of transformers calls it.

    Parameters
    ----------
    score : Score
    learn : bool or "layer"
        Whether the module holds parameters of the score. A module that was built for another score of the same name
        keeps that one.
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
    weights : Tensor, shape (batch, heads, queries, keys), or None
        Before dropout, if the model was asked for them; that takes the explicit path.

    Raises
    ------
    InputError
        If a causal module comes without a mask, without parameters, or with a change of logits that scores don't know.
    """
    if (own := registered(module)) is not None:
        score, learn = own.score, own.learn
    where = f"{type(module).__name__} (layer {getattr(module, 'layer_idx', '?')})"
    for name, what in REFUSED.items():
        if others.get(name) is not None:
            raise InputError(name, others[name], f"{where} has {what}, which scores don't have")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if attention_mask is None and causal:
        raise InputError("attention_mask", None, f"{where} is causal and would see the future; build a mask first")
    parameters = None
    if learn:
        learned = getattr(module, PARAMETERS, None)
        if learned is None:
            raise InputError(
                "model", where, "has no parameters of its score; call phasekit.attention.hf.attach(model) first"
            )
        parameters = learned()
    mask = attention_mask if position_bias is None else _biased(attention_mask, position_bias)
    offset = 0 if score.uses_logits else _first_position(mask, query, key, causal, where)
    wanted = bool(others.get("output_attentions")) or _weights_are_collected()
    query, key, value = alike(query, key, value)
    choice = choose_path(score, query, key, value, mask, dropout_p=dropout, path="explicit" if wanted else "auto")
    module.last_path = choice  # type: ignore[assignment]
    call = read_call(score, query, key, value, mask, dropout, False, scaling, True, parameters, offset)
    output, weights = run(call, choice.path)
    return output.transpose(1, 2).contiguous(), weights if wanted else None


def _weights_are_collected() -> bool:
    """Whether the model that is running was asked for attention weights; some modules aren't told."""
    if torch.compiler.is_compiling() and not _active_collector.compiling:
        return False  # a layer compiled by itself: nobody collects, and the compiler can't look
    return any("attentions" in name for name in _active_collector.get() or ())  # type: ignore[no-untyped-call]


def visible(**arguments: Any) -> Tensor | None:
    """Return a boolean mask, as the mask interface of transformers asks for it: never none where causality matters."""
    return sdpa_mask(**{**arguments, "allow_is_causal_skip": False})


def _biased(mask: Tensor | None, bias: Tensor) -> Tensor:
    if mask is None:
        return bias
    return torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else mask + bias


def _first_position(mask: Tensor | None, query: Tensor, key: Tensor, causal: bool, where: str) -> int:
    """Return the position of the first query among the keys.

    A query of a causal model sees itself and nothing behind it, unless it is padding: then it sees less. So the largest
    distance from any query to the last key it sees is that of a query to itself. (The length of the keys doesn't tell:
    a cache may have room that isn't used yet.)
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if not causal or mask is None or mask.is_meta:
        if queries != keys:
            raise InputError("score", where, "has queries and keys of two sequences; a score of positions needs one")
        return 0
    seen = mask if mask.dtype == torch.bool else mask > max(hiding(mask.dtype), NEVER)
    behind_last = (seen * torch.arange(1, keys + 1, device=seen.device)).amax(dim=-1).expand(*seen.shape[:-2], queries)
    distance = behind_last - torch.arange(1, queries + 1, device=seen.device)
    return max(int(distance.amax()), 0) if bool(seen.any()) else 0
