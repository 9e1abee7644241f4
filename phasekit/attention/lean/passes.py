"""Attention of the softmax family without the query × key matrix: blocks, an online normaliser, its own backward.

For a block of queries the keys are visited block by block. With m the running row maximum and l the running normaliser,

    m' = max(m, max t),    l' = l·exp(m − m') + Σ exp(t − m'),    o' = o·exp(m − m') + exp(t − m')·V,

and the output is o/l. Only it and ln l + m, one number per query, are kept. The backward pass makes every block again:

    p = exp(t − ln l − m),  dV = pᵀ dO,  dt = p ⊙ (dO Vᵀ − D),  D = Σ_d dO ⊙ O,  dz = dt·t'(z),  dQ = dz·K,  dK = dzᵀ Q

with t in the place of the logit (T. Dao et al., arXiv:2205.14135, for softmax, where t(z) = z). Blocks fit the
processor's cache, and every elementwise step works in place there, so the path needs plain tensor operations only and
runs wherever torch runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phasekit.attention.lean.block_maps import BlockMap, block_map
from phasekit.attention.lean.block_masks import BlockMasks, Shown
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.scores.masks import hiding
from phasekit.scores.precision import compute_dtype, widen

#: Elements of a block for each CPU thread: four buffers of 512 KiB in float32.
CPU_BLOCK = 2**17
#: Elements of a block elsewhere: large enough that launching its kernels costs little.
DEVICE_BLOCK = 2**23
#: Keys of a block at most. Longer rows are joined by the online normaliser.
KEY_BLOCK = 512


@dataclass(frozen=True)
class Fixed:
    """What stays the same in the forward and the backward pass of one call.

    Attributes
    ----------
    score : ElementwiseSoftmax
    names : names of the score's parameters, in the order in which their values are passed
    scale : float
        Factor on q·k.
    causal, offset
        Whether query i sees the keys up to i + offset only.
    dropout : float
    seed : int
        Of the dropped probabilities, which the backward pass draws again.
    """

    score: ElementwiseSoftmax
    names: tuple[str, ...]
    scale: float
    causal: bool = False
    offset: int = 0
    dropout: float = 0.0
    seed: int = 0


class Inputs(NamedTuple):
    """The tensors of one call, with batch and heads merged into one axis of matrices.

    Attributes
    ----------
    query : Tensor, shape (matrices, queries, dim)
    key, value : Tensor, shape (key matrices, keys, dim or value dim)
        Consecutive matrices of queries share one of keys.
    masks : BlockMasks
    values : list of Tensor, shape (matrices, 1, 1)
    """

    query: Tensor
    key: Tensor
    value: Tensor
    masks: BlockMasks
    values: list[Tensor]


class _Work:
    """How one call is cut into blocks, and what they share."""

    def __init__(self, fixed: Fixed, inputs: Inputs, learned: Sequence[str] = ()) -> None:
        self.fixed, self.masks = fixed, inputs.masks
        self.dtype, self.device = compute_dtype(inputs.query), inputs.query.device
        self.floor = math.ceil(math.log(torch.finfo(self.dtype).tiny))  # of exponents
        self.matrices, self.queries, _ = inputs.query.shape
        self.keys = inputs.key.shape[1]
        self.sharing = self.matrices // max(1, len(inputs.key))
        values = (value.detach().to(self.dtype) for value in inputs.values)
        self.map: BlockMap = block_map(fixed.score, dict(zip(fixed.names, values, strict=True)), learned, fixed.scale)
        self.generator = torch.Generator(self.device) if fixed.dropout else None

        on_cpu = self.device.type == "cpu"
        size = CPU_BLOCK * torch.get_num_threads() if on_cpu else DEVICE_BLOCK
        self.key_step = max(1, min(self.keys, KEY_BLOCK))
        self.row_step = max(1, min(self.queries, size // self.key_step))
        fitting = size // (self.row_step * self.key_step)
        self.group_step = max(1, fitting // self.sharing * self.sharing)
        self.block_size = min(self.group_step, self.matrices) * self.row_step * self.key_step

    def options(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "device": self.device}

    def groups(self) -> Iterator[slice]:
        for start in range(0, self.matrices, self.group_step):
            yield slice(start, min(start + self.group_step, self.matrices))

    def shared(self, groups: slice) -> slice:
        """Return which matrices of keys the matrices of queries use."""
        return slice(groups.start // self.sharing, (groups.stop - 1) // self.sharing + 1)

    def rows(self) -> Iterator[slice]:
        for start in range(0, self.queries, self.row_step):
            yield slice(start, min(start + self.row_step, self.queries))

    def by_keys(self, keys: range, *tensors: Tensor) -> Iterator[tuple[slice, list[Tensor]]]:
        """Cut tensors (groups, keys, …) into blocks of the keys that are seen."""
        for start in range(keys.start, keys.stop, self.key_step):
            block = slice(start, min(start + self.key_step, keys.stop))
            yield block, [tensor[:, block] for tensor in tensors]

    def scratch(self, count: int) -> Callable[[int, int, int], list[Tensor]]:
        """Return a function that gives ``count`` contiguous blocks of a shape, always in the same memory."""
        buffers = [torch.empty(self.block_size, **self.options()) for _ in range(count)]

        @cache
        def blocks(groups: int, rows: int, keys: int) -> list[Tensor]:
            return [buffer[: groups * rows * keys].view(groups, rows, keys) for buffer in buffers]

        return blocks

    def by_rows(self, *tensors: Tensor) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
        """Cut tensors (groups, queries, …) into blocks of queries."""
        for rows in self.rows():
            yield rows, tuple(tensor[:, rows] for tensor in tensors)

    def deep(self, q: Tensor, k: Tensor, groups: slice) -> bool:
        """Whether an exponent may underflow, by |q·k| ≤ |q||k|. Only a CPU has to know."""
        if self.device.type != "cpu" or not (q.numel() and k.numel()):
            return False
        largest = float(q.norm(dim=-1).amax() * k.norm(dim=-1).amax())
        return not 2 * self.map.range(largest, groups) + math.log(self.keys) < -self.floor

    def weigh(self, exponents: Tensor, deep: bool, shown: Shown, keys: slice) -> Tensor:
        """Return exp of a block's exponents in place, exactly 0 for hidden keys.

        On a CPU the exponential of a number that underflows takes fifty times as long as any other: stay above.
        """
        if deep or shown.touches(keys):
            exponents.clamp_(min=self.floor)
        exponents.exp_()
        shown.clear(exponents, keys)
        return exponents

    def spread(self, shared: Tensor, groups: slice) -> Tensor:
        """Return keys or values in the precision to compute in, once for each matrix of queries."""
        wide, heads = widen(shared), (groups.stop - groups.start) // shared.shape[0]
        return wide if heads == 1 else wide[:, None].expand(-1, heads, -1, -1).flatten(0, 1)

    def kept(self, block: Tensor, groups: slice, rows: slice, keys: slice) -> Tensor:
        """Return 1/(1 − dropout) for probabilities that stay, 0 for those dropped: the same in both passes."""
        assert self.generator is not None
        self.generator.manual_seed(
            self.fixed.seed + (groups.start * self.queries + rows.start) * self.keys + keys.start
        )
        stay = 1 - self.fixed.dropout
        return torch.empty_like(block).bernoulli_(stay, generator=self.generator).div_(stay)


def forward(fixed: Fixed, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return outputs (matrices, queries, value dim) and the logarithms of normalisers (matrices, queries, 1)."""
    work = _Work(fixed, inputs)
    output = torch.zeros((work.matrices, work.queries, inputs.value.shape[-1]), **work.options())
    logarithm = torch.zeros((work.matrices, work.queries, 1), **work.options())
    lowest = hiding(work.dtype)  # a row whose maximum is no higher sees nothing
    scratch = work.scratch(2)
    for groups in work.groups():
        gain = work.map.gain(groups)
        q = widen(inputs.query[groups]) * work.map.factor(groups)
        k, v = (work.spread(shared[work.shared(groups)], groups) for shared in (inputs.key, inputs.value))
        deep = work.deep(q, k, groups)
        for rows, (q_rows, total, log_rows) in work.by_rows(q, output[groups], logarithm[groups]):
            shown = work.masks.at(groups, rows)
            maximum = normaliser = None
            for keys, (k_keys, v_keys) in work.by_keys(shown.keys, k, v):
                z, other = scratch(q_rows.shape[0], q_rows.shape[1], k_keys.shape[1])
                torch.bmm(q_rows, k_keys.transpose(1, 2), out=z)
                tau = work.map.transform(z, other, groups)
                masked = shown.touches(keys)
                if masked:
                    shown.add_to(tau.mul_(gain), keys)
                    top = tau.amax(dim=-1, keepdim=True).clamp_(min=lowest)
                else:
                    top = tau.amax(dim=-1, keepdim=True).mul_(gain)
                if maximum is not None:
                    torch.maximum(top, maximum, out=top)
                p = work.weigh(_combine(tau, 1.0 if masked else gain, -top, out=tau), deep, shown, keys)
                mass = p.sum(dim=-1, keepdim=True)
                if fixed.dropout:
                    p *= work.kept(p, groups, rows, keys)
                if maximum is None or normaliser is None:
                    normaliser = mass
                else:
                    faded = maximum.sub_(top).exp_()
                    total *= faded
                    normaliser.mul_(faded).add_(mass)
                total.baddbmm_(p, v_keys)
                maximum = top
            if maximum is not None and normaliser is not None:
                normaliser.masked_fill_(normaliser == 0, 1)  # rows that see nothing
                total /= normaliser
                torch.add(normaliser.log_(), maximum, out=log_rows)
    return output, logarithm


class Gradients(NamedTuple):
    """Gradients of what :class:`Inputs` holds, in the precision computed in."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    values: dict[str, Tensor]


def backward(
    fixed: Fixed,
    inputs: Inputs,
    learned: Sequence[str],
    mask_wanted: bool,
    output: Tensor,
    logarithm: Tensor,
    upstream: Tensor,
) -> Gradients:
    """Return the gradients, from what :func:`forward` returned and dU/doutput."""
    work = _Work(fixed, inputs, learned)
    dquery, dkey, dvalue = (torch.zeros(tensor.shape, **work.options()) for tensor in inputs[:3])
    dmask = inputs.masks.zero_gradient() if mask_wanted else None
    scale_gradient = torch.zeros((work.matrices, 1, 1), **work.options())
    scratch = work.scratch(4)
    for groups in work.groups():
        shared = work.shared(groups)
        gain, factor = work.map.gain(groups), work.map.factor(groups)
        q = widen(inputs.query[groups]) * factor
        q_slope = q * gain
        k, v = (work.spread(tensor[shared], groups) for tensor in (inputs.key, inputs.value))
        deep = work.deep(q, k, groups)
        do = widen(upstream[groups])
        mean = (do * output[groups]).sum(dim=-1, keepdim=True)
        dq = dquery[groups]
        several = q.shape[0] > shared.stop - shared.start
        dk, dv = (torch.zeros_like(k), torch.zeros_like(v)) if several else (dkey[shared], dvalue[shared])
        cut = work.by_rows(q, q_slope, do, mean, -logarithm[groups], dq)
        for rows, (q_rows, q_slope_rows, do_rows, mean_rows, shift, dq_rows) in cut:
            shown = work.masks.at(groups, rows)
            for keys, (k_keys, v_keys, dk_keys, dv_keys) in work.by_keys(shown.keys, k, v, dk, dv):
                z, other, spare, p = scratch(q_rows.shape[0], q_rows.shape[1], k_keys.shape[1])
                torch.bmm(q_rows, k_keys.transpose(1, 2), out=z)
                recomputed = work.map.recompute(z, other, spare, groups)
                _combine(recomputed.transformed, gain, shift, out=p)
                shown.add_to(p, keys)
                work.weigh(p, deep, shown, keys)
                dt = torch.bmm(do_rows, v_keys.transpose(1, 2), out=recomputed.free)
                if fixed.dropout:
                    kept = work.kept(p, groups, rows, keys)
                    dv_keys.baddbmm_((p * kept).transpose(1, 2), do_rows)
                    dt *= kept
                else:
                    dv_keys.baddbmm_(p.transpose(1, 2), do_rows)
                dt.sub_(mean_rows).mul_(p)
                if dmask is not None:
                    inputs.masks.add_gradient(dmask, dt, groups, rows, keys)
                dz = work.map.pull_back(recomputed, dt, groups)
                dq_rows.baddbmm_(dz, k_keys)
                dk_keys.baddbmm_(dz.transpose(1, 2), q_slope_rows)
        if several:
            for gradient, heads in ((dkey[shared], dk), (dvalue[shared], dv)):
                gradient += heads.view(gradient.shape[0], -1, *gradient.shape[1:]).sum(dim=1)
        dq *= gain
        scale_gradient[groups] = (q * dq).sum(dim=(-2, -1), keepdim=True)
        dq *= factor
    return Gradients(dquery, dkey, dvalue, dmask, work.map.gradients(scale_gradient))


def _combine(tau: Tensor, gain: Tensor | float, shift: Tensor, out: Tensor) -> Tensor:
    """Return gain·τ + shift: one pass if the gain is a number."""
    if isinstance(gain, float):
        return torch.add(shift, tau, alpha=gain, out=out)
    return torch.mul(tau, gain, out=out).add_(shift)
