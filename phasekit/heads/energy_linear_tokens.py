"""Linear attention with token+position inputs: sum over keys before the logits are formed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from phasekit.heads.energy import Gradient
from phasekit.heads.energy_tokens import TokenEnergy
from phasekit.heads.moments import one_hot
from phasekit.tasks.copy import Dataset, Tokens

# Sequences times V handled at a time: on a CPU a chunk should stay in its cache, a GPU wants large pieces.
_CHUNK_NUMBERS = {"cpu": 2**11, "cuda": 2**18}


@dataclass(frozen=True)
class _Chunk:
    """B sequences, arranged for :class:`LinearTokenGradient`.

    Attributes
    ----------
    keys : Tensor, shape (n, B·V)
        m^μ = Σ_j x̃_j x_jᵀ: token counts on the diagonal, then the one-hot sequence.
    lookup : Tensor, shape (L·B,)
        Row (token of query i of sequence μ, μ) of a (V·B, V) table, for every (i, μ).
    queries, first_query : Tensor, shapes (L·B,) and (V·B,)
        The (i, μ) in the order of their rows, and where each row's begin.
    targets : Tensor, shape (L·B, V)
    """

    keys: Tensor
    lookup: Tensor
    queries: Tensor
    first_query: Tensor
    targets: Tensor


class LinearTokenEnergy(TokenEnergy):
    """U for linear attention with token+position inputs, about four times faster than through the logits.

    Attention is linear in the logits, so the sum over keys can be done first, once for all steps:

        (A X)_i = (1/L) Σ_j (x̃_iᵀ G x̃_j) x_jᵀ = (1/L) x̃_iᵀ G m,       m = Σ_j x̃_j x_jᵀ  ((V+L)×V, per sequence)

    ``G m`` is one product for all sequences; its rows for the token and the position of query i are added.
    """

    path = "tokens, keys summed first"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(datasets, device, dtype)
        size = max(1, _CHUNK_NUMBERS[device.type] // self.model.V)
        self.chunks = [
            [self._chunk(dataset.tokens[start : start + size]) for start in range(0, len(dataset.tokens), size)]
            for dataset in self.datasets
        ]

    def _chunk(self, tokens: Tokens) -> _Chunk:
        V, B = self.model.V, len(tokens)
        X = one_hot(tokens, V, self.device, self.dtype)
        keys = torch.cat([torch.diag_embed(X.sum(1)), X], 1).transpose(0, 1)
        lookup = (X.argmax(-1).T * B + torch.arange(B, device=self.device)).flatten()
        counts = lookup.bincount(minlength=V * B)
        return _Chunk(
            keys=keys.reshape(-1, B * V),
            lookup=lookup,
            queries=lookup.argsort(stable=True),
            first_query=counts.cumsum(0) - counts,
            targets=X.roll(1, 1).transpose(0, 1).reshape(-1, V),
        )

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return LinearTokenGradient(self, W, G, dW, dG)


class LinearTokenGradient:
    """The gradient of :class:`LinearTokenEnergy` for fixed buffers."""

    def __init__(self, energy: LinearTokenEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        self._energy, self._W, self._G, self._dW, self._dG = energy, W, G, dW, dG
        self._error = torch.empty_like(energy.P.expand(W.shape[:2]))

    def __call__(self) -> None:
        model = self._energy.model
        torch.mul(self._W, model.sigma_w**-2, out=self._dW)
        torch.mul(self._G, self._energy.logit_precision, out=self._dG)
        self._error.zero_()
        for d, chunks in enumerate(self._energy.chunks):
            for chunk in chunks:
                self._add(d, chunk)

    def _add(self, d: int, chunk: _Chunk) -> None:
        """Add what one chunk of sequences contributes."""
        V, L, c = self._energy.model.V, self._energy.model.L, self._energy.likelihood_factor
        W, G = self._W[d], self._G[d]
        M, n = len(G), V + L
        values = (G.view(M * n, n) @ chunk.keys).view(M, n, -1)  # G m, indexed [member, input, (sequence, token)]
        by_token, by_position = values[:, :V].reshape(M, -1, V), values[:, V:].reshape(M, -1, V)
        attended = by_token.index_select(1, chunk.lookup).add_(by_position).mul_(1 / L)  # (M, L·B, V)
        residual = torch.bmm(attended, W).sub_(chunk.targets)
        self._error[d] += residual.square().sum((-2, -1))

        self._dW[d].baddbmm_(attended.mT, residual, alpha=c)
        upstream = torch.bmm(residual, W.mT)
        values[:, V:] = upstream.view(M, L, -1)
        for m in range(M):
            per_token = embedding_bag(chunk.queries, upstream[m], chunk.first_query, mode="sum")
            values[m, :V] = per_token.view(V, -1)
        self._dG[d].view(M * n, n).addmm_(values.view(M * n, -1), chunk.keys.T, alpha=c / L)

    def likelihood(self) -> Tensor:
        return 0.5 * self._energy.likelihood_factor * self._error
