"""Positional inputs, from the second moments of the data: the cost of a step doesn't depend on P."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.heads.energy import Gradient, PositionalEnergy
from phasekit.heads.moments import pair_counts
from phasekit.tasks.copy import Dataset

_LARGEST_FLOAT32_COUNT = 2**24


class MomentEnergy(PositionalEnergy):
    """U for positional inputs, computed from the pair counts C_jk (V×V blocks) of the data.

    With A the same for all sequences, the likelihood is quadratic in A and in W, and only pairs of tokens enter:

        K_jk = ⟨C_jk, W Wᵀ⟩         T_ik = ⟨C_{k,i-1}, W⟩        Σ_μ ‖Y - AXW‖² = P L - 2⟨A, T⟩ + ⟨A, A K⟩
        H = Σ_jk (AᵀA)_jk C_jk      N = Σ_ik A_ik C_{k,i-1}
        dU/dA = (A K - T)/(κL)      dU/dW = (H W - N)/(κL)       (prior terms aside)

    Four products of size V²L² a network. Two of them pair C with a symmetric matrix (W Wᵀ, AᵀA), so it is kept
    folded: one column for a < b holding C_jk[a,b] + C_jk[b,a], which saves almost half of their work.

    Attributes
    ----------
    copy_pairs : Tensor, shape (D, L², V²), indexed [(i, k), (a, b)]
        C_{k,i-1}[a, b]: how often key k holds a while query i should copy b.
    key_pairs : Tensor, shape (D, L², V(V+1)/2), indexed [(j, k), a ≤ b]
        The folded C_jk.
    """

    path = "moments"

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(datasets, device, dtype)
        V, L = self.model.V, self.model.L
        largest = max(len(d.tokens) for d in self.datasets)
        if dtype == torch.float32 and largest > _LARGEST_FLOAT32_COUNT:
            raise InputError("P", largest, f"float32 counts exactly up to {_LARGEST_FLOAT32_COUNT} only; use float64")
        a, b = torch.triu_indices(V, V, device=device)
        self._fold = a * V + b
        number = torch.zeros(V, V, dtype=torch.long, device=device)
        number[a, b] = number[b, a] = torch.arange(len(a), device=device)
        self._unfold = number.flatten()
        self._share = torch.full((V, V), 0.5, dtype=dtype, device=device).fill_diagonal_(1.0).flatten()

        self.copy_pairs = torch.empty(len(self.datasets), L * L, V * V, dtype=dtype, device=device)
        self.key_pairs = torch.empty(len(self.datasets), L * L, len(a), dtype=dtype, device=device)
        for d, dataset in enumerate(self.datasets):
            pairs = pair_counts(dataset.tokens, V, device)
            self.copy_pairs[d] = pairs.roll(1, dims=1).transpose(0, 1).reshape(L * L, V * V)
            both = (pairs + pairs.mT).view(L * L, V * V)[:, self._fold]
            self.key_pairs[d] = torch.where(a == b, both / 2, both)

    def in_double(self) -> MomentEnergy:
        if self.dtype == torch.float64:
            return self
        double: MomentEnergy = object.__new__(type(self))
        double.__dict__.update(self.__dict__)
        double.dtype = torch.float64
        double.__dict__.pop("_bias", None)  # is made again in float64
        for name in ("P", "copy_pairs", "key_pairs", "_share"):  # whole numbers and halves: float32 held them exactly
            setattr(double, name, getattr(self, name).double())
        return double

    def fold(self, symmetric: Tensor) -> Tensor:
        """Return the entries a ≤ b of symmetric matrices, (D, M, V²) → (D, M, V(V+1)/2)."""
        return symmetric.index_select(2, self._fold)

    def unfold(self, folded: Tensor, out: Tensor) -> None:
        """Write the symmetric matrices Σ_jk (...)_jk C_jk into ``out``, given the sums over folded columns."""
        torch.index_select(folded, 2, self._unfold, out=out).mul_(self._share)

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return MomentGradient(self, W, G, dW, dG)

    def position_errors(self, W: Tensor, A: Tensor) -> Tensor:
        D, M, V = W.shape[0], W.shape[1], self.model.V
        T = (W.view(D, M, V * V) @ self.copy_pairs.mT).view_as(A)
        K = (self.fold((W @ W.mT).view(D, M, V * V)) @ self.key_pairs.mT).view_as(A)
        counted = 1.0 if self.mask is None else self.mask.any(-1)
        return self.P[..., None] * counted + (A * (A @ K - 2 * T)).sum(-1)


class _Matrices:
    """n×n matrices of all members, seen as D·M matrices (``each``) and as M rows of n² numbers per data set."""

    def __init__(self, storage: Tensor) -> None:
        D, M, n, _ = storage.shape
        self.all = storage
        self.each = storage.view(D * M, n, n)
        self.transposed = self.each.mT
        self.rows = storage.view(D, M, n * n)


class MomentGradient:
    """The gradient of :class:`MomentEnergy` for fixed buffers.

    At small V and L a step takes as long as its kernels take to launch. Hence the views made beforehand, and outputs
    written into place.
    """

    def __init__(self, energy: MomentEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        self._energy, self._G, self._dG = energy, G, dG
        self._W, self._dW = _Matrices(W), _Matrices(dW)
        self._WW, self._H, self._N = (_Matrices(torch.empty_like(W)) for _ in range(3))
        self._K, self._T, self._AA, self._dA = (_Matrices(torch.empty_like(G)) for _ in range(4))
        self._A = _Matrices(torch.empty_like(G))
        self._to_K, self._to_T = energy.key_pairs.mT, energy.copy_pairs.mT

    def __call__(self) -> None:
        energy, model, c = self._energy, self._energy.model, self._energy.likelihood_factor
        W, dW, WW, H, N = self._W, self._dW, self._WW, self._H, self._N
        K, T, AA, dA = self._K, self._T, self._AA, self._dA
        self._A = A = _Matrices(energy.mean_attention(self._G))

        torch.bmm(W.each, W.transposed, out=WW.each)
        torch.bmm(energy.fold(WW.rows), self._to_K, out=K.rows)
        torch.bmm(W.rows, self._to_T, out=T.rows)
        torch.baddbmm(T.each, A.each, K.each, beta=-c, alpha=c, out=dA.each)
        torch.add(energy.pull_back(self._G, A.all, dA.all), self._G, alpha=energy.logit_precision, out=self._dG)

        torch.bmm(A.transposed, A.each, out=AA.each)
        torch.bmm(A.rows, energy.copy_pairs, out=N.rows)
        energy.unfold(torch.bmm(AA.rows, energy.key_pairs), out=H.rows)
        torch.baddbmm(N.each, H.each, W.each, beta=-c, alpha=c, out=dW.each)
        dW.all.add_(W.all, alpha=model.sigma_w**-2)

    def likelihood(self) -> Tensor:
        A, T, dA = self._A.all, self._T.all, self._dA.all
        c = self._energy.likelihood_factor
        # c⟨A, AK⟩ = ⟨A, dA⟩ + c⟨A, T⟩
        return 0.5 * (self._energy.P / self._energy.model.kappa + (A * (dA - c * T)).sum((-2, -1)))
