"""The arguments of one attention call, checked once and brought into the shapes that the paths work with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from phasekit.checks import real_number, whole_number
from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.scores.masks import check_mask


@dataclass(frozen=True)
class Call:
    """Arguments of ``scored_attention``, with at least one axis of heads: (..., heads, length, d)."""

    score: Score
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    dropout: float
    causal: bool
    scale: float
    parameters: Mapping[str, Tensor] | None
    offset: int

    @property
    def heads(self) -> int:
        return self.query.shape[-3]

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes before the heads."""
        return _lead(self.query, self.key, self.value)

    @property
    def empty(self) -> bool:
        """Whether there is no logit, or nothing to weight by them."""
        return 0 in (*self.lead, self.heads, self.query.shape[-2], *self.value.shape[-2:])

    def batched(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None, list[Tensor]]:
        """Return query, key, value, mask and the score's values with one axis before the heads.

        Shapes are (batch, heads, length, dim); for the mask (batch or 1, heads or 1, queries or 1, keys or 1); for the
        values (batch, heads, 1, 1).
        """
        lead = self.lead
        query, key, value = (
            tensor.expand(*lead, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])
            for tensor in (self.query, self.key, self.value)
        )
        values = self.score.values(self.parameters, query)
        numbers = [number.expand(*lead, self.heads, 1, 1).reshape(-1, self.heads, 1, 1) for number in values.values()]
        return query, key, value, self._batched_mask(), numbers

    def _batched_mask(self) -> Tensor | None:
        if self.mask is None:
            return None
        mask = self.mask.reshape((1,) * (self.query.dim() - self.mask.dim()) + tuple(self.mask.shape))
        if mask.shape[:-3].numel() > 1:
            mask = mask.expand(*self.lead, *mask.shape[-3:])
        return mask.reshape(-1, *mask.shape[-3:])


def read_call(
    score: Score,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    enable_gqa: bool,
    parameters: Mapping[str, Tensor] | None,
    offset: int,
) -> Call:
    """Check the arguments.

    Raises
    ------
    InputError
        One line that names the argument, its value and what is allowed.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not tensor.is_floating_point() or tensor.dtype != query.dtype:
            raise InputError(name, str(tensor.dtype), "query, key and value must have the same floating-point dtype")
    others = {"key": key, "value": value, "attn_mask": mask, **(parameters or {})}
    for name, given in others.items():
        if given is not None and given.device != query.device and (given.dim() or given.is_meta):
            raise InputError(name, str(given.device), f"must be on the query's device, {query.device}")
    query, key, value = (tensor[None] if tensor.dim() == 2 else tensor for tensor in (query, key, value))
    heads, shared = query.shape[-3], key.shape[-3]
    if not query.shape[-1]:
        raise InputError("query", tuple(query.shape), "must have at least one number in its last axis")
    if key.shape[-1] != query.shape[-1]:
        raise InputError("key", tuple(key.shape), f"its last axis must be the query's, {query.shape[-1]}")
    if heads != shared and not (enable_gqa and shared and heads % shared == 0):
        fewer = " or a divisor of that" if enable_gqa else "; for fewer heads: enable_gqa=True"
        allowed = f"must have {heads} heads{fewer}"
        raise InputError("key", tuple(key.shape), allowed)
    if value.shape[-3:-1] != key.shape[-3:-1]:
        raise InputError("value", tuple(value.shape), f"heads and length must be the key's, {tuple(key.shape[-3:-1])}")
    dropout = probability("dropout_p", dropout)
    scale = query.shape[-1] ** -0.5 if scale is None else real_number("scale", scale)
    offset = whole_number("offset", offset)
    lead = _lead(query, key, value)
    if mask is not None:
        check_mask("attn_mask", mask, (*lead, heads, query.shape[-2], key.shape[-2]))
    return Call(score, query, key, value, mask, dropout, causal, scale, parameters, offset)


def probability(name: str, value: float) -> float:
    """Return the probability with which a weight is dropped; InputError unless it is at least 0 and below 1."""
    if not 0 <= real_number(name, value) < 1:
        raise InputError(name, value, "must be at least 0 and below 1")
    return float(value)


def alike(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors of one dtype: under autocast, models may mix what autocast lowered with what they kept."""
    if len({tensor.dtype for tensor in tensors}) == 1 or not torch.is_autocast_enabled(tensors[0].device.type):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(tensors[0].device.type)) for tensor in tensors)


def outside_autocast(tensor: Tensor) -> AbstractContextManager[None]:
    """Return a context in which products keep the dtype of queries and keys, so that no length changes the output's."""
    on = not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)
    return torch.autocast(tensor.device.type, enabled=False) if on else nullcontext()


def _lead(*tensors: Tensor) -> tuple[int, ...]:
    """Return the axes before (heads, length, dim), broadcast against each other."""
    try:
        lead: torch.Size = torch.broadcast_shapes(*(tensor.shape[:-3] for tensor in tensors))  # type: ignore[no-untyped-call]
    except RuntimeError:
        shapes = [tuple(tensor.shape) for tensor in tensors]
        raise InputError("query, key, value", shapes, "the axes before the heads must broadcast") from None
    return tuple(lead)
