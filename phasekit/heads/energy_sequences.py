"""Positional inputs, from the sequences themselves: cheaper than second moments when there are few of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from phasekit.heads.energy import Gradient, PositionalEnergy
from phasekit.heads.moments import one_hot
from phasekit.tasks.copy import Dataset

# One-hot numbers handled at a time.
_CHUNK_NUMBERS = 2**22


class SequenceEnergy(PositionalEnergy):
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
                for start in range(0, len(dataset.tokens), rows)
            ]
            for dataset in self.datasets
        ]

    def in_double(self) -> SequenceEnergy:
        return self if self.dtype == torch.float64 else type(self)(self.datasets, self.device, torch.float64)

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return SequenceGradient(self, W, G, dW, dG)

    def position_errors(self, W: Tensor, A: Tensor) -> Tensor:
        error = torch.zeros(*W.shape[:2], self.model.L, dtype=self.dtype, device=self.device)
        for d, _, _, residual in self.passes(A, W):
            error[d] += residual.square().view(W.shape[1], self.model.L, -1).sum(-1)
        return error

    def passes(self, A: Tensor, W: Tensor) -> Iterator[tuple[int, Tensor, Tensor, Tensor]]:
        """Yield data set, one-hot X (L, P·V), attended AX (M, L·P, V) and residual AXW - Y (M, L·P, V), by chunks."""
        M, V, L = W.shape[1], self.model.V, self.model.L
        for d, chunks in enumerate(self._chunks):
            for X in chunks:
                flat = X.view(L, -1)
                attended = (A[d].reshape(M * L, L) @ flat).view(M, -1, V)
                targets = X.roll(1, 0)
                if self.mask is not None:
                    targets *= self.mask.any(-1)[:, None, None]
                yield d, flat, attended, torch.bmm(attended, W[d]).sub_(targets.view(-1, V))


class SequenceGradient:
    """The gradient of :class:`SequenceEnergy` for fixed buffers."""

    def __init__(self, energy: SequenceEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        self._energy, self._W, self._G, self._dW, self._dG = energy, W, G, dW, dG
        self._dA, self._error = torch.empty_like(G), torch.empty_like(energy.P.expand(W.shape[:2]))

    def __call__(self) -> None:
        model, c = self._energy.model, self._energy.likelihood_factor
        W, G, dW, dA = self._W, self._G, self._dW, self._dA
        M, L = W.shape[1], model.L
        A = self._energy.mean_attention(G)
        torch.mul(W, model.sigma_w**-2, out=dW)
        dA.zero_()
        self._error.zero_()
        for d, X, attended, residual in self._energy.passes(A, W):
            dW[d].baddbmm_(attended.mT, residual, alpha=c)
            upstream = torch.bmm(residual, W[d].mT)
            dA[d].view(M * L, L).addmm_(upstream.view(M * L, -1), X.T, alpha=c)
            self._error[d] += residual.square().sum((-2, -1))
        torch.add(self._energy.pull_back(G, A, dA), G, alpha=self._energy.logit_precision, out=self._dG)

    def likelihood(self) -> Tensor:
        return 0.5 * self._energy.likelihood_factor * self._error
