"""Heads whose logits are linear functions of fewer weights: the energy over these, from any energy over logits."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.heads.energy import Averages, Energy, Gradient, PositionalEnergy


class EncodedEnergy(Energy):
    """U(W, G), with logits that the model's encoding makes of G (:meth:`phasekit.encodings.Encoding.logits`).

    The prior lies on G: ‖G‖²/(2σ_g²).

    Parameters
    ----------
    energy : PositionalEnergy
        Over W and logits, of models with an ``encoding``.
    """

    def __init__(self, energy: PositionalEnergy) -> None:
        self.of_logits, self.encoding = energy, energy.model.positions
        self.datasets, self.model, self.P = energy.datasets, energy.model, energy.P
        self.device, self.dtype, self.path = energy.device, energy.dtype, energy.path

    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        return EncodedGradient(self, W, G, dW, dG)

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        return self.of_logits.averages(W, self.logit_matrix(G))

    def position_losses(self, W: Tensor, G: Tensor) -> Tensor:
        """Return the loss of each position, as :meth:`PositionalEnergy.position_losses`."""
        return self.of_logits.position_losses(W, self.logit_matrix(G))

    def mean_attention(self, G: Tensor) -> Tensor:
        return self.of_logits.mean_attention(self.logit_matrix(G))

    def in_double(self) -> EncodedEnergy:
        double = self.of_logits.in_double()
        assert isinstance(double, PositionalEnergy)
        return self if double is self.of_logits else type(self)(double)

    def prior(self, W: Tensor, G: Tensor) -> Tensor:
        sigma_w, sigma_g = self.prior_scales.values()
        return 0.5 * (W.square().sum((-2, -1)) / sigma_w**2 + G.square().sum((-2, -1)) / sigma_g**2)

    def logit_matrix(self, G: Tensor) -> Tensor:
        return self.encoding.logits(G, self.model.L)


class EncodedGradient:
    """The gradient of :class:`EncodedEnergy` for fixed buffers: dU/dG is the encoding's transpose of dU/dlogits."""

    def __init__(self, energy: EncodedEnergy, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        D, M, L = *W.shape[:2], energy.model.L
        self._logits, self._by_logits = (torch.empty(D, M, L, L, dtype=W.dtype, device=W.device) for _ in range(2))
        self._energy, self._G, self._dG = energy, G, dG
        self._gradient = energy.of_logits.gradient_at(W, self._logits, dW, self._by_logits)

    def __call__(self) -> None:
        encoding, L = self._energy.encoding, self._energy.model.L
        self._logits.copy_(encoding.logits(self._G, L))
        self._gradient()
        torch.mul(self._G, self._energy.model.sigma_g**-2, out=self._dG).add_(encoding.collect(self._by_logits, L))

    def likelihood(self) -> Tensor:
        return self._gradient.likelihood()
