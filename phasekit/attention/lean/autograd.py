"""The lean path as a differentiable function, and the backward pass that it shares with paths of other forwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phasekit.attention.lean.block_masks import BlockMasks
from phasekit.attention.lean.passes import Fixed, Inputs, backward, forward
from phasekit.errors import InputError
from phasekit.scores.precision import compute_dtype


def lean_attention(
    fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, values: Sequence[Tensor]
) -> Tensor:
    """Return the output, (batch, heads, queries, value dim).

    Parameters
    ----------
    query : Tensor, shape (batch, heads, queries, dim)
    key, value : Tensor, shape (batch, key heads, keys, dim or value dim)
        ``heads`` is a multiple of ``key heads``; consecutive heads share a key head.
    mask : Tensor or None, shape (batch or 1, heads or 1, queries or 1, keys or 1)
    values : Tensors, shape (batch, heads, 1, 1)
        Parameters of the score, in the fixed's order.
    """
    output: Tensor = _Lean.apply(fixed, query, key, value, mask, *values)[0]  # type: ignore[no-untyped-call]
    return output


class _Lean(torch.autograd.Function):
    """(fixed, query, key, value, mask, *values) → output, logarithms of the normalisers."""

    @staticmethod
    def forward(
        fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *values: Tensor
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(query.device.type, enabled=False):  # blocks have the precision that scores compute in
            output, logarithm = forward(fixed, _inputs(fixed, query, key, value, mask, values))
        return output.view(*query.shape[:3], -1).to(query.dtype), logarithm.view(*query.shape[:3], 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.fixed, *tensors = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return _pull_back(ctx, upstream, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        raise InputError("path", "lean", "can't be vectorised by torch.func.vmap; use path='explicit' there")


def pull_back_from_inputs(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients for a forward pass of another kind, of which ``ctx`` saved fixed and inputs only.

    The lean forward pass runs once more for the normalisers, and for an output that is consistent with them.
    """
    tensors = [None if tensor is None else tensor.detach() for tensor in ctx.saved_tensors]
    output, logarithm = _Lean.apply(ctx.fixed, *tensors)  # type: ignore[no-untyped-call]
    return _pull_back(ctx, upstream, output, logarithm, *ctx.saved_tensors)


def _pull_back(ctx: Any, upstream: Tensor, *saved: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return gradients in the order (fixed, query, key, value, mask, *values)."""
    fixed: Fixed = ctx.fixed
    mask_wanted, *values_wanted = ctx.needs_input_grad[4:]
    learned = tuple(name for name, wanted in zip(fixed.names, values_wanted, strict=True) if wanted)
    found = iter(_Backward.apply(fixed, learned, mask_wanted, upstream, *saved))  # type: ignore[no-untyped-call]
    dquery, dkey, dvalue = next(found), next(found), next(found)
    dmask = next(found) if mask_wanted else None
    return None, dquery, dkey, dvalue, dmask, *(next(found) if name in learned else None for name in fixed.names)


class _Backward(torch.autograd.Function):
    """A function of its own, so that second derivatives are refused when somebody takes them, and only then."""

    @staticmethod
    def forward(
        fixed: Fixed,
        learned: tuple[str, ...],
        mask_wanted: bool,
        upstream: Tensor,
        output: Tensor,
        logarithm: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *values: Tensor,
    ) -> tuple[Tensor, ...]:
        inputs = _inputs(fixed, query, key, value, mask, values)
        flat = (_matrices(tensor) for tensor in (output, logarithm, upstream))
        with torch.autocast(query.device.type, enabled=False):
            found = backward(fixed, inputs, learned, mask_wanted, *flat)
        pairs = list(zip(found[:3], (query, key, value), strict=True))
        if mask is not None and found.mask is not None:
            pairs.append((found.mask, mask))
        pairs += [(found.values[name], v) for name, v in zip(fixed.names, values, strict=True) if name in learned]
        return tuple(gradient.view(tensor.shape).to(tensor.dtype) for gradient, tensor in pairs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        raise InputError("path", "lean", "has no second derivatives; take them with path='explicit'")


def _inputs(
    fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, values: Sequence[Tensor]
) -> Inputs:
    shape = (*query.shape[:3], key.shape[2])
    masks = BlockMasks(mask, shape, compute_dtype(query), query.device, fixed.causal, fixed.offset)
    return Inputs(_matrices(query), _matrices(key), _matrices(value), masks, [_matrices(number) for number in values])


def _matrices(tensor: Tensor) -> Tensor:
    """Merge batch and heads."""
    return tensor.flatten(0, 1)
