"""Positional inputs, from the second moments of the data: the cost of a step doesn't depend on P."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.networks.energy import Averages, Energy
from phasekit.networks.moments import pair_counts
from phasekit.networks.task import Dataset

_LARGEST_FLOAT32_COUNT = 2**24


class MomentEnergy(Energy):
    """U for positional inputs, computed from the pair counts C_jk (V×V blocks) of the data.

    With A the same for all sequences, the likelihood is quadratic in A and in W, and only pairs of tokens enter:

        K_jk = ⟨C_jk, W Wᵀ⟩      T_ik = ⟨C_{k,i-1}, W⟩       Σ_μ ‖Y - AXW‖² = P L - 2⟨A, T⟩ + ⟨A, A K⟩
        H    = Σ_jk (AᵀA)_jk C_jk   N = Σ_ik A_ik C_{k,i-1}
        dU/dA = (A K - T)/(κL)      dU/dW = (H W - N)/(κL)      (prior terms aside)

    Four products of size V²L² a network. Two of them pair C with a symmetric matrix (W Wᵀ, AᵀA), so it is stored
    folded: one column for a < b holding C_jk[a,b] + C_jk[b,a], which saves almost half of their work.
    """

    path = "moments"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(datasets, device, dtype)
        V, L = self.model.V, self.model.L
        largest = max(d.tokens.shape[0] for d in self.datasets)
        if dtype == torch.float32 and largest > _LARGEST_FLOAT32_COUNT:
            raise InputError("P", largest, f"float32 counts exactly up to {_LARGEST_FLOAT32_COUNT} only; use float64")
        rows, columns = torch.triu_indices(V, V, device=device)
        folded_number = torch.zeros(V, V, dtype=torch.long, device=device)
        folded_number[rows, columns] = folded_number[columns, rows] = torch.arange(len(rows), device=device)
        self._fold = rows * V + columns
        self._unfold = folded_number.flatten()
        half = torch.full((V, V), 0.5, dtype=dtype, device=device)
        self._unfold_weight = half.fill_diagonal_(1.0).flatten()

        self._copy_pairs = torch.empty(len(self.datasets), L * L, V * V, dtype=dtype, device=device)
        self._key_pairs = torch.empty(len(self.datasets), L * L, len(rows), dtype=dtype, device=device)
        for d, dataset in enumerate(self.datasets):
            pairs = pair_counts(dataset.tokens, V, device)
            # [i, k, a, b] = C_{k,i-1}[a, b]: how often key k holds a while query i should copy b
            self._copy_pairs[d] = pairs.roll(1, dims=1).transpose(0, 1).reshape(L * L, V * V)
            both = (pairs + pairs.mT).view(L * L, V * V)[:, self._fold]
            self._key_pairs[d] = torch.where(rows == columns, both / 2, both)

    def in_double(self) -> MomentEnergy:
        if self.dtype == torch.float64:
            return self
        double: MomentEnergy = object.__new__(type(self))
        double.__dict__.update(self.__dict__)
        double.dtype = torch.float64
        for name in ("P", "_copy_pairs", "_key_pairs", "_unfold_weight"):  # whole numbers and 1/2: exact in float32
            setattr(double, name, getattr(self, name).double())
        return double

    def likelihood_(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor, *, with_energy: bool) -> Tensor | None:
        model, c = self.model, self.scale
        D, M, V, L = W.shape[0], W.shape[1], model.V, model.L
        A = model.score.rows(G)
        K, T = self._value_products(W)
        flat_A, flat_W = A.view(D * M, L, L), W.view(D * M, V, V)

        dA = torch.baddbmm(T, flat_A, K, beta=-c, alpha=c)
        dG.copy_(model.score.pull_back(G, A, dA.view(D, M, L, L)))

        query_squares = torch.bmm(flat_A.mT, flat_A).view(D, M, L * L)
        H = torch.bmm(query_squares, self._key_pairs).index_select(2, self._unfold).mul_(self._unfold_weight)
        N = torch.bmm(A.view(D, M, L * L), self._copy_pairs)
        torch.baddbmm(N.view(D * M, V, V), H.view(D * M, V, V), flat_W, beta=-c, alpha=c, out=dW.view(D * M, V, V))
        if not with_energy:
            return None
        # ⟨A, AK⟩ = ⟨A, dA⟩/c + ⟨A, T⟩
        overlap = (flat_A * (dA - c * T)).sum((-2, -1)).view(D, M)
        return 0.5 * (c * L * self.P + overlap)

    def _value_products(self, W: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and T, each of shape (D·M, L, L)."""
        D, M, V, L = W.shape[0], W.shape[1], self.model.V, self.model.L
        flat = W.view(D * M, V, V)
        squares = torch.bmm(flat, flat.mT).view(D, M, V * V).index_select(2, self._fold)
        K = torch.bmm(squares, self._key_pairs.mT)
        T = torch.bmm(W.view(D, M, V * V), self._copy_pairs.mT)
        return K.view(D * M, L, L), T.view(D * M, L, L)

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        D, M, L = W.shape[0], W.shape[1], self.model.L
        A = self.model.score.rows(G)
        K, T = (x.view(D, M, L, L) for x in self._value_products(W))
        error = self.P * L + (A * (A @ K - 2 * T)).sum((-2, -1))
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
