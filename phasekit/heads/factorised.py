"""Factorised heads, G = W_Qᵀ W_K: the energy over the factors, by the chain rule from any energy over G."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.heads.energy import Averages, Energy, Gradient


class FactorisedEnergy(Energy):
    """U(W, W_Q, W_K), with G = W_Qᵀ W_K of rank at most d (docs/theory.md, section 9).

        U = likelihood(W, W_Qᵀ W_K)  +  ‖W‖²/(2σ_w²)  +  (‖W_Q‖² + ‖W_K‖²)/(2σ_g/√d)

    The factors' entries have the prior variance σ_g/√d, so that an entry of G, a sum of d products, has variance σ_g².
    Wherever an energy takes ``G``, this one takes both factors, shape (D, M, 2, d, n): W_Q, then W_K. Everything that
    needs the matrix forms it: see :meth:`logit_matrix`.

    Parameters
    ----------
    energy : Energy
        Over W and G, of models with a ``key_dim``.

    Raises
    ------
    InputError
        If the models have none.
    """

    def __init__(self, energy: Energy) -> None:
        if energy.model.key_dim is None:
            raise InputError("key_dim", None, "a factorised head needs a whole number of at least 1")
        self.of_logits, self.key_dim = energy, energy.model.key_dim
        self.datasets, self.model, self.P = energy.datasets, energy.model, energy.P
        self.device, self.dtype, self.path = energy.device, energy.dtype, energy.path

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {**self.of_logits.shapes, "G": (2, self.key_dim, self.logit_size)}

    @property
    def prior_scales(self) -> dict[str, float]:
        return {"W": self.model.sigma_w, "G": factor_scale(self.model.sigma_g, self.key_dim)}

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return FactorisedGradient(self, W, G, dW, dG)

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        return self.of_logits.averages(W, self.logit_matrix(G))

    def mean_attention(self, G: Tensor) -> Tensor:
        return self.of_logits.mean_attention(self.logit_matrix(G))

    def in_double(self) -> FactorisedEnergy:
        double = self.of_logits.in_double()
        return self if double is self.of_logits else type(self)(double)

    def prior(self, W: Tensor, G: Tensor) -> Tensor:
        """Return ‖W‖²/(2σ_w²) + (‖W_Q‖² + ‖W_K‖²)√d/(2σ_g), shape (D, M)."""
        sigma_w, tau = self.prior_scales.values()
        return 0.5 * (W.square().sum((-2, -1)) / sigma_w**2 + G.square().sum((-3, -2, -1)) / tau**2)

    def logit_matrix(self, G: Tensor) -> Tensor:
        queries, keys = G.unbind(2)
        return queries.mT @ keys

    def mirrored(self, W: Tensor, G: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys = G.unbind(2)
        return W * sign[..., None, None], torch.stack([queries * sign[..., None, None], keys], 2)


class FactorisedGradient:
    """The gradient of :class:`FactorisedEnergy` for fixed buffers: dU/dW_Q = W_K (dU/dG)ᵀ, dU/dW_K = W_Q dU/dG."""

    def __init__(self, energy: FactorisedEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        D, M, n = *W.shape[:2], energy.logit_size
        self._product, self._by_product = (torch.empty(D, M, n, n, dtype=W.dtype, device=W.device) for _ in range(2))
        self._factors, self._dG, self._precision = G, dG, energy.prior_scales["G"] ** -2
        self._queries, self._keys = G.unbind(2)
        self._gradient = energy.of_logits.gradient_at(W, self._product, dW, self._by_product)

    def __call__(self) -> None:
        torch.matmul(self._queries.mT, self._keys, out=self._product)
        self._gradient()
        torch.mul(self._factors, self._precision, out=self._dG)
        self._dG[:, :, 0] += self._keys @ self._by_product.mT
        self._dG[:, :, 1] += self._queries @ self._by_product

    def likelihood(self) -> Tensor:
        return self._gradient.likelihood()


def factor_scale(sigma_g: float, key_dim: int) -> float:
    """Return the prior standard deviation of an entry of W_Q and W_K, (σ_g/√d)^½."""
    return float((sigma_g / key_dim**0.5) ** 0.5)


def law_correction(G: Tensor, sigma_g: float) -> Tensor:
    """Return H of the law of factorised logits: Gaussian times 1 + H/(4d) + O(1/d²) (docs/theory.md, section 9).

        H = tr(GGᵀ)²/σ_g⁴ - (4n + 2) ‖G‖²/σ_g² + 2n³ + n²

    Averages over the posterior are then those with Gaussian G, plus the covariance with H there, over 4d.

    Parameters
    ----------
    G : Tensor, shape (..., n, n)
    sigma_g : float

    Returns
    -------
    Tensor, shape (...)
    """
    n, G = G.shape[-1], G / sigma_g
    return (G @ G.mT).square().sum((-2, -1)) - (4 * n + 2) * G.square().sum((-2, -1)) + 2 * n**3 + n**2
