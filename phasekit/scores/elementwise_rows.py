"""Explicit attention rows of the softmax family, close to the cost of softmax itself.

Written as plain tensor operations, A = softmax(t(H)) with its gradients reads and writes the whole query × key matrix
some twenty times. Here every block of rows goes through all steps while it is in the cache, and only the logits and
the weights are kept for the backward pass.

With p = softmax(t(z)) and δ = dU/dp:

    dU/dt = p (δ − Σ p δ),    dU/dz = dU/dt · t'(z),    dU/dθ = Σ dU/dt · ∂t/∂θ.

The backward pass is a function of its own, so that second derivatives, ``torch.func`` transforms and forward mode work
at every level. What compiles (``torch.compile``) is the plain formula, which the compiler fuses by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from phasekit.scores.blocks import Added, Blocks, grouped, per_matrix
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.scores.masks import Mask, blind_rows, masked_softmax, read_mask
from phasekit.scores.precision import compute_dtype, widen, without_numbers

if TYPE_CHECKING:
    from phasekit.scores.base import Learned


def elementwise_rows(score: ElementwiseSoftmax, logits: Tensor, mask: Mask, values: dict[str, Tensor]) -> Tensor:
    """Return softmax(t(logits) + bias) over visible keys; shapes and dtypes as in ``Score.rows``."""
    if without_numbers(logits):
        return plain_rows(score, logits, mask, values)
    return _Rows.apply(_Call(score, tuple(values)), logits, *mask, *values.values())  # type: ignore[no-untyped-call, no-any-return]


def elementwise_attention_weights(
    score: ElementwiseSoftmax,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    parameters: Learned,
) -> Tensor:
    """Return the same from scaled queries and keys.

    Nobody else sees the logits here, so the backward pass writes their gradient over them. On a CPU that saves more
    than the transform costs: large memory that is new to the process is slow.
    """

    def logits() -> Tensor:
        return query @ key.transpose(-1, -2)

    def again() -> Tensor:
        with torch.autocast(z.device.type, enabled=False):  # whatever surrounds the backward pass
            return logits()

    z = logits()
    values = score.values(parameters, z)
    if without_numbers(z):
        return plain_rows(score, z, read_mask(mask, z), values)
    call = _Call(score, tuple(values), again)
    return _Rows.apply(call, z, *read_mask(mask, z), *values.values())  # type: ignore[no-untyped-call, no-any-return]


def plain_rows(score: ElementwiseSoftmax, logits: Tensor, mask: Mask, values: dict[str, Tensor]) -> Tensor:
    """Return the same by plain differentiable operations: the reference."""
    return masked_softmax(score.transform(widen(logits), **values), mask, logits.dtype)


@dataclass(eq=False)
class _Call:
    """What a call of :class:`_Rows` knows besides tensors.

    Attributes
    ----------
    score : ElementwiseSoftmax
        Has the transform t.
    names : tuple of str
        The names of its parameters, in the order in which their tensors are passed.
    logits : callable, optional
        Computes the logits again. If given, the logits' memory may be written over.
    overwritten : bool
        Whether that has happened.
    """

    score: ElementwiseSoftmax
    names: tuple[str, ...]
    logits: Callable[[], Tensor] | None = None
    overwritten: bool = False

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.names, values, strict=True))


class _Rows(torch.autograd.Function):
    """(logits, keep, bias, *values) → weights."""

    @staticmethod
    def forward(call: _Call, logits: Tensor, keep: Tensor | None, bias: Tensor | None, *values: Tensor) -> Tensor:
        weights = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        blind = None if keep is None else blind_rows(keep)
        if blind is not None and not bool(blind.any()):
            blind = None
        z, p = grouped(logits, logits.shape), grouped(weights, logits.shape)
        blocks = Blocks.of(z)
        added = repeat(None) if keep is None else Added.of(keep, blind, bias, logits).cut(blocks)
        numbers = _per_block(blocks, call, logits, values)
        for z_block, p_block, added_block, named in zip(blocks.cut(z), blocks.cut(p), added, numbers, strict=False):
            z_block = widen(z_block)
            transformed = call.score.transform_into(z_block, torch.empty_like(z_block), **named)
            if added_block is not None:
                transformed += added_block
            if p.dtype == transformed.dtype:
                torch.softmax(transformed, dim=-1, out=p_block)
            else:
                p_block.copy_(transformed.softmax(dim=-1))
        if blind is not None:
            weights.masked_fill_(blind, 0)
        return weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.call, logits, _, bias, *values = inputs
        ctx.save_for_backward(logits, output, bias, *values)
        ctx.save_for_forward(logits, output, bias, *values)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, weights, bias, *values = ctx.saved_tensors
        call: _Call = ctx.call
        _, _, _, bias_wanted, *values_wanted = ctx.needs_input_grad
        learned = tuple(name for name, wanted in zip(call.names, values_wanted, strict=True) if wanted)
        if call.overwritten and call.logits is not None:
            logits = call.logits().to(weights.dtype)
        elif torch.is_grad_enabled():
            call.logits = None  # the graph of the gradient, now being recorded, will hold these logits: leave them be
        arguments = (call, learned, bias_wanted, logits, weights, upstream, bias, *values)
        if call.logits is not None and logits.is_contiguous() and not torch.is_grad_enabled():
            # ``data``: the next backward pass must find its tensors unchanged in autograd's books, and computes anew.
            gradients = iter(_lean_backward(*arguments, out=logits.data))
            call.overwritten = True
        else:
            gradients = iter(_Backward.apply(*arguments))  # type: ignore[no-untyped-call]
        dz = next(gradients)
        dbias = next(gradients) if bias_wanted else None
        return None, dz, None, dbias, *(next(gradients) if name in learned else None for name in call.names)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        logits, weights, _, *values = ctx.saved_tensors
        _, dz, _, dbias, *dvalues = tangents
        call: _Call = ctx.call
        z, p, named = widen(logits), widen(weights), call.named(values)
        dt = torch.zeros_like(z)
        if dz is not None:
            dt = dt + call.score.slope(z, **named) * dz
        if dbias is not None:
            dt = dt + dbias
        slopes = call.score.parameter_slopes(z, **named) if any(d is not None for d in dvalues) else {}
        for name, dvalue in zip(call.names, dvalues, strict=True):
            if dvalue is not None:
                dt = dt + slopes[name] * dvalue
        return (p * (dt - (p * dt).sum(dim=-1, keepdim=True))).to(weights.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: _Call, *tensors: Any) -> tuple[Tensor, int]:
        full, *others = _batch_in_front(info.batch_size, in_dims[1:], tensors, full=1)
        # Without permission to write over the logits: computing them again belongs to one sample, not to the batch.
        return _Rows.apply(_Call(call.score, call.names), *full, *others), 0  # type: ignore[no-untyped-call]


class _Backward(torch.autograd.Function):
    """(logits, weights, dU/dweights, bias, *values) → (dU/dlogits, [dU/dbias], *dU/dvalues of those learned)."""

    @staticmethod
    def forward(
        call: _Call,
        learned: tuple[str, ...],
        bias_wanted: bool,
        logits: Tensor,
        weights: Tensor,
        upstream: Tensor,
        bias: Tensor | None,
        *values: Tensor,
    ) -> tuple[Tensor, ...]:
        out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        return _lean_backward(call, learned, bias_wanted, logits, weights, upstream, bias, *values, out=out)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.constants, tensors = inputs[:3], inputs[3:]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        logits, weights, delta, bias, *values = ctx.saved_tensors
        pull = torch.func.vjp(_plain_backward(ctx.constants, bias), logits, weights, delta, *values)[1]
        dlogits, dweights, ddelta, *dvalues = pull(upstream)
        return None, None, None, dlogits, dweights, ddelta, None, *dvalues

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor, ...]:
        logits, weights, delta, bias, *values = ctx.saved_tensors
        primals = (logits, weights, delta, *values)
        given = (*tangents[3:6], *tangents[7:])
        filled = tuple(torch.zeros_like(x) if dx is None else dx for x, dx in zip(primals, given, strict=True))
        # Forward mode doesn't nest, so push forward by pulling back twice: the pull-back is linear in what it pulls.
        outputs, pull = torch.func.vjp(_plain_backward(ctx.constants, bias), *primals)[:2]
        pushed: tuple[Tensor, ...] = torch.func.vjp(pull, outputs)[1](filled)[0]
        return pushed

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
        constants, tensors, dims = inputs[:3], inputs[3:], in_dims[3:]
        call, learned, bias_wanted = constants
        full, bias, *values = _batch_in_front(info.batch_size, dims, tensors, full=3)
        # Every sample has its own gradient even of what the samples share: give those a batch axis of their own.
        spread = [None if x is None else _own_axis(x, full[0]) for x in (bias, *values)]
        gradients = _Backward.apply(*constants, *full, *spread)  # type: ignore[no-untyped-call]
        shapes = [_sample_shape(x, dim) for x, dim in zip(tensors[3:], dims[3:], strict=True)]
        wanted = [shapes[0]] if bias_wanted else []
        wanted += [shape for shape, name in zip(shapes[1:], call.names, strict=True) if name in learned]
        reshaped = [g.reshape(info.batch_size, *shape) for g, shape in zip(gradients[1:], wanted, strict=True)]
        return (gradients[0], *reshaped), (0,) * len(gradients)


def _lean_backward(
    call: _Call,
    learned: tuple[str, ...],
    bias_wanted: bool,
    logits: Tensor,
    weights: Tensor,
    upstream: Tensor,
    bias: Tensor | None,
    *values: Tensor,
    out: Tensor,
) -> tuple[Tensor, ...]:
    """Compute what :class:`_Backward` returns block by block; dU/dlogits goes to ``out``, which may be ``logits``."""
    dtype = compute_dtype(logits)
    z, p, delta, dz = (grouped(tensor, logits.shape) for tensor in (logits, weights, upstream, out))
    blocks = Blocks.of(z)
    sums = {name: logits.new_zeros(per_matrix(logits), dtype=dtype) for name in learned}
    dtransformed = torch.empty(logits.shape if bias_wanted else (0, 1, 1), dtype=dtype, device=logits.device)
    dt_blocks = blocks.cut(grouped(dtransformed, logits.shape)) if bias_wanted else repeat(None)
    cut = zip(*(blocks.cut(tensor) for tensor in (z, p, delta, dz)), strict=True)
    numbers = _per_block(blocks, call, logits, values)
    totals = _per_block(blocks, _Call(call.score, learned), logits, list(sums.values()))
    for (z_block, p_block, delta_block, out_block), dt_block, named, total in zip(
        cut, dt_blocks, numbers, totals, strict=False
    ):
        dt = torch._softmax_backward_data(widen(delta_block), widen(p_block), -1, dtype)
        if dt_block is not None:
            dt_block.copy_(dt)
        gradient, partial = call.score.pull_back_over(widen(z_block), dt, learned, **named)
        out_block.copy_(gradient)
        for name in learned:
            total[name] += partial[name]
    dbias = [dtransformed.sum_to_size(bias.shape).to(bias.dtype)] if bias is not None and bias_wanted else []
    shapes = call.named([value.shape for value in values])
    return out, *dbias, *(sums[name].sum_to_size(shapes[name]) for name in learned)


def _per_block(blocks: Blocks, call: _Call, logits: Tensor, values: Sequence[Tensor]) -> Iterator[dict[str, Tensor]]:
    """Yield for each block its part of the parameters' values (views, if there is a value for each matrix)."""
    spread = [blocks.spread(grouped(value, per_matrix(logits))) for value in values]
    return map(call.named, zip(*spread, strict=True)) if spread else repeat({})


def _plain_backward(constants: tuple[_Call, tuple[str, ...], bool], bias: Tensor | None) -> Any:
    """Return the function that :class:`_Backward` computes, in plain differentiable operations."""
    call, learned, bias_wanted = constants

    def function(logits: Tensor, weights: Tensor, delta: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        z, p, delta, named = widen(logits), widen(weights), widen(delta), call.named(values)
        dt = p * (delta - (p * delta).sum(dim=-1, keepdim=True))
        dbias = [dt.sum_to_size(bias.shape).to(bias.dtype)] if bias is not None and bias_wanted else []
        slopes = call.score.parameter_slopes(z, **named) if learned else {}
        dvalues = ((dt * slopes[name]).sum_to_size(named[name].shape) for name in learned)
        return (dt * call.score.slope(z, **named)).to(logits.dtype), *dbias, *dvalues

    return function


def _batch_in_front(size: int, dims: Sequence[Any], tensors: Sequence[Any], full: int) -> list[Any]:
    """Move each batch axis to the front and pad ranks, so that all still broadcast as they did.

    The first ``full`` tensors have the logits' shape and get the batch axis even if they are shared by all samples.
    They come back as one tuple, followed by the others.
    """
    rank = len(_sample_shape(tensors[0], dims[0]))
    moved = []
    for position, (tensor, dim) in enumerate(zip(tensors, dims, strict=True)):
        if tensor is not None and dim is not None:
            front = tensor.movedim(dim, 0)
            tensor = front.reshape(size, *(1,) * (rank + 1 - front.dim()), *front.shape[1:])
        elif position < full:
            tensor = tensor.expand(size, *tensor.shape)
        moved.append(tensor)
    return [tuple(moved[:full]), *moved[full:]]


def _own_axis(tensor: Tensor, logits: Tensor) -> Tensor:
    """Give a tensor that all samples share a copy per sample; ``logits`` has the batch axis in front."""
    if tensor.dim() == logits.dim():
        return tensor
    padded = tensor.reshape((1,) * (logits.dim() - tensor.dim()) + tuple(tensor.shape))
    return padded.expand(logits.shape[0], *padded.shape[1:])


def _sample_shape(tensor: Tensor | None, dim: int | None) -> tuple[int, ...]:
    """Return the shape of one sample of a batched tensor."""
    if tensor is None:
        return ()
    shape = list(tensor.shape)
    if dim is not None:
        shape.pop(dim)
    return tuple(shape)
