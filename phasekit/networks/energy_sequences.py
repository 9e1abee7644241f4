"""Positional inputs, from the sequences themselves: cheaper than second moments when there are few of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from phasekit.networks.energy import Averages, Energy
from phasekit.networks.moments import one_hot
from phasekit.networks.task import Dataset

# Numbers per network handled at a time.
_CHUNK_NUMBERS = 2**22


class SequenceEnergy(Energy):
    """U for positional inputs, by running every sequence through the head.

    The one-hot sequences (P·L·V numbers) are kept, position first: A X is then one product for all members and
    sequences of a chunk.
    """

    path = "sequences"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(datasets, device, dtype)
        V, L = self.model.V, self.model.L
        rows = max(1, _CHUNK_NUMBERS // (L * V))
        self._chunks: list[list[Tensor]] = [
            [
                one_hot(dataset.tokens[start : start + rows], V, device, dtype).transpose(0, 1).contiguous()
                for start in range(0, dataset.tokens.shape[0], rows)
            ]
            for dataset in self.datasets
        ]

    def in_double(self) -> SequenceEnergy:
        return self if self.dtype == torch.float64 else type(self)(self.datasets, self.device, torch.float64)

    def _passes(self, A: Tensor, W: Tensor) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """Yield data set, one-hot X (L, P, V), attended AX (M, L·P, V) and residual AXW - Y (M, L·P, V), by chunks."""
        M, V, L = W.shape[1], self.model.V, self.model.L
        for d, chunks in enumerate(self._chunks):
            for X in chunks:
                attended = (A[d].reshape(M * L, L) @ X.view(L, -1)).view(M, -1, V)
                residual = torch.bmm(attended, W[d]).sub_(X.roll(1, 0).view(-1, V))
                yield d, X, attended, residual

    def likelihood_(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor, *, with_energy: bool) -> Tensor | None:
        M, L = W.shape[1], self.model.L
        A = self.model.score.rows(G)
        dA = torch.zeros_like(A)
        dW.zero_()
        error = torch.zeros(W.shape[:2], dtype=self.dtype, device=self.device)
        for d, X, attended, residual in self._passes(A, W):
            dW[d].baddbmm_(attended.mT, residual, alpha=self.scale)
            upstream = torch.bmm(residual, W[d].mT)
            dA[d].view(M * L, L).addmm_(upstream.view(M * L, -1), X.view(L, -1).T, alpha=self.scale)
            if with_energy:
                error[d] += residual.square().sum((-2, -1))
        dG.copy_(self.model.score.pull_back(G, A, dA))
        return 0.5 * self.scale * error if with_energy else None

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        L = self.model.L
        A = self.model.score.rows(G)
        error = torch.zeros(W.shape[:2], dtype=self.dtype, device=self.device)
        for d, _, _, residual in self._passes(A, W):
            error[d] += residual.square().sum((-2, -1))
        sums = A.sum(-1)
        return Averages(
            loss=error / (self.P * L),
            s=sums.mean(-1),
            s2=sums.square().mean(-1),
            g=A.roll(-1, dims=-2).diagonal(dim1=-2, dim2=-1).mean(-1),
            q=A.square().sum((-2, -1)) / L,
        )

    def mean_attention(self, G: Tensor) -> Tensor:
        return self.model.score.rows(G)
