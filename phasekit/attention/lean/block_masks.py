"""Masks, seen block by block: the lean path never has a mask in floating point for the whole query × key matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from phasekit.scores.masks import hiding


class Shown(NamedTuple):
    """What a block of queries may see.

    Attributes
    ----------
    keys : range of keys that any of its queries sees
    added : Tensor or None, shape (1 or matrices, 1 or queries, some keys)
        What is added to the transformed logits: hidden keys get at most half the most negative number of the dtype.
    first : int
        The key that the first column of ``added`` belongs to; its last column belongs to the last of ``keys``.
    seen : Tensor or None, of the shape of ``added``
        1 where a key is seen, 0 where it is hidden.
    """

    keys: range
    added: Tensor | None = None
    first: int = 0
    seen: Tensor | None = None

    def touches(self, keys: slice) -> bool:
        """Whether anything is added to this block of keys."""
        return self.added is not None and keys.stop > self.first

    def add_to(self, transformed: Tensor, keys: slice) -> None:
        """Add the mask to a block of transformed logits, in place."""
        if self.added is not None and self.touches(keys):
            begin = max(keys.start, self.first)
            transformed[..., begin - keys.start :] += self.added[..., begin - self.first : keys.stop - self.first]

    def clear(self, probabilities: Tensor, keys: slice) -> None:
        """Set what isn't seen to exactly 0, in place."""
        if self.seen is not None and self.touches(keys):
            begin = max(keys.start, self.first)
            probabilities[..., begin - keys.start :] *= self.seen[..., begin - self.first : keys.stop - self.first]


class BlockMasks:
    """A mask given by the user, and causality.

    Parameters
    ----------
    mask : Tensor or None, shape (batch or 1, heads or 1, queries or 1, keys or 1)
        Boolean (True: may attend) or additive.
    shape : (batch, heads, queries, keys)
    dtype : torch.dtype
        Of the transformed logits.
    device : torch.device
    causal : bool
        Query i sees the keys up to i + offset only.
    """

    def __init__(
        self,
        mask: Tensor | None,
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        causal: bool = False,
        offset: int = 0,
    ) -> None:
        batch, heads, _, self.keys = shape
        self.dtype, self.device, self.causal, self.offset = dtype, device, causal, offset
        self.matrices, self.which = None, [0] * (batch * heads)
        if mask is not None:
            self.matrices = mask.detach().reshape(-1, *mask.shape[-2:])
            numbers = torch.arange(len(self.matrices)).reshape(mask.shape[:2])
            self.which = numbers.expand(batch, heads).reshape(-1).tolist()

    def at(self, groups: slice, rows: slice) -> Shown:
        """Return what the queries ``rows`` of the matrices ``groups`` may see."""
        last = rows.stop - 1 + self.offset
        keys = range(max(0, min(self.keys, last + 1)) if self.causal else self.keys)
        added, first = None, 0
        if self.matrices is not None and keys:
            added = self._added(groups, rows, keys)
            keys = _visible(added, keys)
            added, first = added[..., keys.start : keys.stop], keys.start
        if self.causal and keys and keys.stop - 1 > rows.start + self.offset:
            begin = first if added is not None else max(0, rows.start + self.offset + 1)
            shape = (rows.stop - rows.start, keys.stop - begin)
            future = torch.full(shape, _hidden(self.dtype), dtype=self.dtype, device=self.device)
            future.triu_(1 + rows.start + self.offset - begin)
            added, first = (future[None] if added is None else added + future), begin
        seen = None if added is None else (added > hiding(self.dtype)).to(self.dtype)
        return Shown(keys, added, first, seen)

    def zero_gradient(self) -> Tensor:
        """Return zeros for :meth:`add_gradient` to add to."""
        assert self.matrices is not None
        return torch.zeros_like(self.matrices, dtype=self.dtype)

    def add_gradient(self, gradient: Tensor, dt: Tensor, groups: slice, rows: slice, keys: slice) -> None:
        """Add dU/dt of a block, summed over the axes along which the mask is broadcast."""
        if gradient.shape[1] == 1:
            dt, rows = dt.sum(dim=1, keepdim=True), slice(None)
        if gradient.shape[2] == 1:
            dt, keys = dt.sum(dim=2, keepdim=True), slice(None)
        which = torch.tensor(self.which[groups], device=dt.device)
        gradient[:, rows, keys] = gradient[:, rows, keys].index_add(0, which, dt)

    def _added(self, groups: slice, rows: slice, keys: range) -> Tensor:
        """Return the user's mask as numbers to add, (1 or matrices, queries or 1, keys)."""
        assert self.matrices is not None
        which = self.which[groups]
        block = self.matrices[which[0] : which[0] + 1] if len(set(which)) == 1 else self.matrices[which]
        block = block if block.shape[1] == 1 else block[:, rows]
        block = block.expand(*block.shape[:2], self.keys)[..., keys.start : keys.stop]
        if block.dtype == torch.bool:
            return block.to(self.dtype).sub_(1).mul_(-_hidden(self.dtype))  # 0 or the lowest, without branches
        lowest = hiding(block.dtype, self.dtype)
        if lowest > hiding(self.dtype):  # float16, bfloat16: what hides there is an ordinary number here
            return torch.where(block <= lowest, _hidden(self.dtype), block.to(self.dtype))
        return block.to(self.dtype)


def _visible(added: Tensor, keys: range) -> range:
    """Return the keys from the first to the last that isn't hidden (on a CPU, where looking costs little)."""
    if added.device.type != "cpu":
        return keys
    seen = (added.amax(dim=(0, 1)) > hiding(added.dtype)).nonzero()
    return range(keys.start + int(seen[0]), keys.start + int(seen[-1]) + 1) if len(seen) else range(0)


def _hidden(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).min
