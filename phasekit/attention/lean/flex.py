"""FlexAttention for the forward pass, with the lean path's gradients.

FlexAttention compiles a fused kernel around an elementwise change of the logits. What it can't do (torch 2.13): compile
that change when a number captured by it, such as n or b, needs a gradient; compute any gradient on a CPU; give exact
gradients at lengths that are no multiple of 128 under a block mask. So numbers are captured detached, one for each
head, masks go into the change of the logits, and the backward pass is the lean path's, which has no such gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from phasekit.attention.lean.autograd import pull_back_from_inputs
from phasekit.attention.lean.passes import Fixed


def flex_attention(
    fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, values: Sequence[Tensor]
) -> Tensor:
    """Return the output; arguments as in :func:`~phasekit.attention.lean.autograd.lean_attention`, boolean masks."""
    output: Tensor = _Flex.apply(fixed, query, key, value, mask, *values)  # type: ignore[no-untyped-call]
    return output


class _Flex(torch.autograd.Function):
    """(fixed, query, key, value, mask, *values) → output."""

    @staticmethod
    def forward(
        fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *values: Tensor
    ) -> Tensor:
        numbers = tuple(number.flatten(1).float().contiguous() for number in values)  # (batch, heads)
        return _compiled()(fixed, query.detach(), key.detach(), value.detach(), mask, numbers)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.fixed, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return pull_back_from_inputs(ctx, upstream)


@cache
def _compiled() -> Callable[..., Tensor]:
    return torch.compile(_fused, fullgraph=True)  # in pieces it would build the query × key matrix


def _fused(
    fixed: Fixed, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, numbers: tuple[Tensor, ...]
) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention as fused

    def change(z: Tensor, batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        t = fixed.score.transform(z, **{name: v[batch, head] for name, v in zip(fixed.names, numbers, strict=True)})
        if fixed.causal:
            t = torch.where(j <= i + fixed.offset, t, -torch.inf)
        if mask is not None:
            t = torch.where(_of_mask(mask, batch, head, i, j), t, -torch.inf)
        return t

    return fused(query, key, value, score_mod=change, scale=fixed.scale, enable_gqa=True)


def _of_mask(mask: Tensor, *index: Tensor) -> Tensor:
    """Return the entry of a mask that is broadcast along axes of length 1."""
    return mask[tuple(i if size > 1 else 0 for i, size in zip(index, mask.shape, strict=True))]
