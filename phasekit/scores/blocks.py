"""Cut attention matrices into blocks of rows that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from phasekit.scores.precision import compute_dtype

#: Elements of a block for each CPU thread: 512 KiB in float32, so that a block and its scratch stay in the cache.
BLOCK = 2**17


@dataclass(frozen=True)
class Blocks:
    """How ``(groups, queries, keys)`` is cut into whole rows: several small matrices, or a part of a large one.

    Elsewhere than on a CPU everything is one block.
    """

    groups: int
    queries: int
    step: int
    rows: int

    @staticmethod
    def of(matrices: Tensor) -> Blocks:
        """Choose the cut for the shape, device and number of threads."""
        groups, queries, keys = matrices.shape
        on_cpu = matrices.device.type == "cpu"
        rows = max(1, BLOCK * torch.get_num_threads() // max(1, keys) if on_cpu else groups * queries)
        if rows >= queries:
            return Blocks(groups, queries, step=rows // max(1, queries), rows=max(1, queries))
        return Blocks(groups, queries, step=1, rows=rows)

    def cut(self, matrices: Tensor) -> Iterator[Tensor]:
        """Yield the blocks of ``(groups, queries, …)`` as views."""
        for some in torch.split(matrices, self.step):
            yield from torch.split(some, self.rows, dim=1)

    def spread(self, numbers: Tensor) -> Iterator[Tensor]:
        """Yield for each block its part of ``(groups, 1, 1)``."""
        for some in torch.split(numbers, self.step):
            for _ in range(0, self.queries, self.rows):
                yield some

    def slices(self) -> Iterator[tuple[slice, slice]]:
        """Yield for each block which groups and which queries it holds."""
        for g in range(0, self.groups, self.step):
            for q in range(0, self.queries, self.rows):
                yield slice(g, g + self.step), slice(q, q + self.rows)


def grouped(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Broadcast to ``shape`` and merge all axes but the last two."""
    return tensor.expand(tuple(shape)).reshape(-1, *shape[-2:])


def per_matrix(logits: Tensor) -> tuple[int, ...]:
    """Return the shape of one number per query × key matrix."""
    return (*logits.shape[:-2], 1, 1)


@dataclass(frozen=True)
class Added:
    """What is added to the transformed logits (a bias, -inf for hidden keys), block by block and never expanded.

    Adding -inf is ten times faster than filling by a boolean mask, whose branches the processor can't predict.

    Attributes
    ----------
    matrices : Tensor, shape (distinct matrices, queries or 1, keys or 1)
    group : list of int
        Which of them each matrix of logits takes.
    """

    matrices: Tensor
    group: list[int]

    @staticmethod
    def of(keep: Tensor, blind: Tensor | None, bias: Tensor | None, logits: Tensor) -> Added:
        """Join the parts of a mask; ``blind`` rows are left as they are (they are cleared behind the softmax)."""
        shown = keep if blind is None else keep | blind
        added = torch.zeros(shown.shape, dtype=compute_dtype(logits), device=logits.device)
        added.masked_fill_(~shown, -torch.inf)
        if bias is not None:
            added = added + bias
        added = added.reshape((1,) * (logits.dim() - added.dim()) + tuple(added.shape))
        matrices = added.reshape(-1, *added.shape[-2:])
        which = torch.arange(len(matrices)).reshape(added.shape[:-2]).expand(logits.shape[:-2])
        return Added(matrices, which.reshape(-1).tolist())

    def cut(self, blocks: Blocks) -> Iterator[Tensor]:
        """Yield what the logits of each block get added; broadcasts to them."""
        for groups, queries in blocks.slices():
            chosen = self.group[groups]
            alike = min(chosen) == max(chosen)
            matrices = self.matrices[chosen[0] : chosen[0] + 1] if alike else self.matrices[chosen]
            yield matrices if matrices.shape[1] == 1 else matrices[:, queries]
