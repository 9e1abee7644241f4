"""Token+position inputs: every sequence has its own attention matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from phasekit.heads.energy import Averages, Energy, Gradient
from phasekit.heads.moments import one_hot
from phasekit.tasks.copy import Dataset

# Attention weights handled at a time: on a CPU they should stay in its cache, a GPU wants large pieces.
_CHUNK_WEIGHTS = {"cpu": 2**18, "cuda": 2**25}


class TokenEnergy(Energy):
    """U for token+position inputs, by running every sequence through the head.

    The logits H_ij = x̃_iᵀ G x̃_j come from a table: the row x̃_iᵀ G depends on the sequence through the token at i
    only, so its V·L possible values are formed once a step and looked up. Arrays are laid out as (sequence, query,
    member, key): all members of a chunk of sequences then share one product with the one-hot sequences X from the
    right (sums over keys) and one from the left (sums over queries).

    The one-hot sequences (P·L·V numbers) are kept.
    """

    path = "tokens"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(datasets, device, dtype)
        positions = torch.arange(self.model.L, device=device)
        self._one_hot = [one_hot(d.tokens, self.model.V, device, dtype) for d in self.datasets]
        self._table_rows = [X.argmax(-1) * self.model.L + positions for X in self._one_hot]

    def in_double(self) -> TokenEnergy:
        return self if self.dtype == torch.float64 else type(self)(self.datasets, self.device, torch.float64)

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return TokenGradient(self, W, G, dW, dG)

    def attention(self, d: int, G: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield one-hot X (B, L, V), logits and weights (B, L, M, L) of data set d, for G of shape (M, n, n)."""
        M, V, L = len(G), self.model.V, self.model.L
        by_row = G.transpose(0, 1)
        table = by_row[:V, None] + by_row[None, V:]  # (V, L, M, n): x̃ᵀG for token and position of the query
        to_tokens = table[..., :V].reshape(V * L, M * V)
        to_positions = table[..., V:].reshape(V * L, M * L)
        B = max(1, _CHUNK_WEIGHTS[self.device.type] // (M * L * L))
        for X, rows in zip(torch.split(self._one_hot[d], B), torch.split(self._table_rows[d], B), strict=True):
            content = to_tokens.index_select(0, rows.flatten()).view(len(X), L * M, V)
            position = to_positions.index_select(0, rows.flatten()).view(len(X), L * M, L)
            logits = torch.baddbmm(position, content, X.mT).view(len(X), L, M, L)
            yield X, logits, self.model.score.rows(logits)

    def outputs(self, X: Tensor, A: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        """Return attended AX and residual AXW - Y, both of shape (M, B·L, V)."""
        B, L, M, V = *A.shape[:3], self.model.V
        attended = torch.bmm(A.view(B, L * M, L), X).view(B * L, M, V).transpose(0, 1)
        return attended, torch.bmm(attended, W).sub_(X.roll(1, 1).view(B * L, V))

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        loss, s, s2, g, q = torch.zeros(5, *W.shape[:2], dtype=self.dtype, device=self.device)
        for d in range(len(self.datasets)):
            for X, _, A in self.attention(d, G[d]):
                sums = A.sum(-1)
                loss[d] += self.outputs(X, A, W[d])[1].square().sum((-2, -1))
                s[d] += sums.sum((0, 1))
                s2[d] += sums.square().sum((0, 1))
                g[d] += A.roll(-1, dims=1).diagonal(dim1=1, dim2=3).sum((0, 2))
                q[d] += A.square().sum((0, 1, 3))
        return Averages(*(total / (self.P * self.model.L) for total in (loss, s, s2, g, q)))

    def mean_attention(self, G: Tensor) -> Tensor:
        L = self.model.L
        total = torch.zeros(*G.shape[:2], L, L, dtype=self.dtype, device=self.device)
        for d in range(len(self.datasets)):
            for _, _, A in self.attention(d, G[d]):
                total[d] += A.sum(0).transpose(0, 1)
        return total / self.P[..., None, None]


class TokenGradient:
    """The gradient of :class:`TokenEnergy` for fixed buffers."""

    def __init__(self, energy: TokenEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        self._energy, self._W, self._G, self._dW, self._dG = energy, W, G, dW, dG
        self._error = torch.empty_like(energy.P.expand(W.shape[:2]))

    def __call__(self) -> None:
        energy, model, W, G = self._energy, self._energy.model, self._W, self._G
        torch.mul(W, model.sigma_w**-2, out=self._dW)
        torch.mul(G, energy.logit_precision, out=self._dG)
        self._error.zero_()
        for d in range(len(energy.datasets)):
            for X, logits, A in energy.attention(d, G[d]):
                self._add(d, X, logits, A)

    def _add(self, d: int, X: Tensor, logits: Tensor, A: Tensor) -> None:
        """Add what one chunk of sequences contributes."""
        energy, score, W, c = self._energy, self._energy.model.score, self._W[d], self._energy.likelihood_factor
        B, L, M, V = *A.shape[:3], energy.model.V
        attended, residual = energy.outputs(X, A, W)
        self._error[d] += residual.square().sum((-2, -1))
        self._dW[d].baddbmm_(attended.mT, residual, alpha=c)

        upstream = torch.bmm(residual, W.mT).mul_(c).transpose(0, 1).reshape(B, L * M, V)
        dA = torch.bmm(upstream, X.mT).view(B, L, M, L)
        dH = score.pull_back(logits, A, dA)

        # Σ_μ x̃_i dH_ij x̃_jᵀ: rows by the query's token or position, columns by the key's
        to_tokens = torch.bmm(dH.view(B, L * M, L), X)
        queries = X.view(B * L, V).T
        by_row = self._dG[d].transpose(0, 1)  # (n, M, n)
        by_row[:V, :, :V] += (queries @ to_tokens.view(B * L, M * V)).view(V, M, V)
        by_row[:V, :, V:] += (queries @ dH.view(B * L, M * L)).view(V, M, L)
        by_row[V:, :, :V] += to_tokens.view(B, L, M, V).sum(0)
        by_row[V:, :, V:] += dH.sum(0)

    def likelihood(self) -> Tensor:
        return 0.5 * self._energy.likelihood_factor * self._error
