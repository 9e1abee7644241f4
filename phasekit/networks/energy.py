"""The energy U(W, G) of an ensemble of heads, and what every way of computing it has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.networks.task import Dataset


@dataclass(frozen=True)
class Averages:
    """Averages over positions and training sequences, each of shape (datasets, members).

    Attributes
    ----------
    loss : ‖y - f‖², summed over the vocabulary
    s, s2 : first and second moment of the row sums of A
    g : copy overlap, the entry of A that looks one position back
    q : ‖A‖_F² / L
    """

    loss: Tensor
    s: Tensor
    s2: Tensor
    g: Tensor
    q: Tensor


class Energy(ABC):
    """U(W, G) for D data sets times M members (docs/theory.md, section 1).

        U = 1/(2κL) Σ_μ ‖Y^μ - A^μ X^μ W‖²  +  ‖W‖²/(2σ_w²)  +  ‖G‖²/(2σ_g²)

    Everywhere, ``W`` has shape (D, M, V, V) and ``G`` shape (D, M, n, n), both contiguous, with n = L for positional
    inputs and n = V + L for token+position inputs (tokens first). M is free: it may change from call to call.

    Parameters
    ----------
    datasets : sequence of Dataset
        Their models may differ in P only.
    device : torch.device
    dtype : torch.float32 or torch.float64

    Raises
    ------
    InputError
        If there is no data set, models differ in more than P, or the score isn't a function of logits.
    """

    #: Name of the way the energy is computed, for records.
    path: str

    def __init__(self, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype) -> None:
        self.datasets = list(datasets)
        self.model = common_model([d.model for d in self.datasets])
        self.device, self.dtype = device, dtype
        self.P = torch.tensor([[d.tokens.shape[0]] for d in self.datasets], dtype=dtype, device=device)

    @property
    def logit_size(self) -> int:
        """n: G is n×n."""
        return self.model.L if self.model.inputs == "positional" else self.model.V + self.model.L

    @property
    def scale(self) -> float:
        """1/(κL), the prefactor of the likelihood's gradient."""
        return 1.0 / (self.model.kappa * self.model.L)

    @abstractmethod
    def likelihood_(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor, *, with_energy: bool) -> Tensor | None:
        """Overwrite ``dW`` and ``dG`` by the likelihood term's gradient; return the term, shape (D, M), if asked to."""

    @abstractmethod
    def averages(self, W: Tensor, G: Tensor) -> Averages:
        """Return loss, s, s₂, g and q."""

    @abstractmethod
    def mean_attention(self, G: Tensor) -> Tensor:
        """Return the attention matrix averaged over the training sequences, shape (D, M, L, L)."""

    @abstractmethod
    def in_double(self) -> Energy:
        """Return the same energy in float64."""

    def gradient_(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        """Overwrite ``dW`` and ``dG`` by the gradient of U. This is the training loop's inner step."""
        self.likelihood_(W, G, dW, dG, with_energy=False)
        self._add_prior_gradient(W, G, dW, dG)

    def energy_and_gradient(self, W: Tensor, G: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return U, shape (D, M), with dU/dW and dU/dG."""
        dW, dG = torch.empty_like(W), torch.empty_like(G)
        likelihood = self.likelihood_(W, G, dW, dG, with_energy=True)
        assert likelihood is not None
        self._add_prior_gradient(W, G, dW, dG)
        return likelihood + self.prior(W, G), dW, dG

    def prior(self, W: Tensor, G: Tensor) -> Tensor:
        """Return ‖W‖²/(2σ_w²) + ‖G‖²/(2σ_g²), shape (D, M)."""
        return 0.5 * (
            W.square().sum((-2, -1)) / self.model.sigma_w**2 + G.square().sum((-2, -1)) / self.model.sigma_g**2
        )

    def _add_prior_gradient(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> None:
        dW.add_(W, alpha=self.model.sigma_w**-2)
        dG.add_(G, alpha=self.model.sigma_g**-2)


def common_model(models: Sequence[Model]) -> Model:
    """Return the first model, after checking that the others differ from it in P only.

    Raises
    ------
    InputError
        If there is none, they differ in more, or their score needs more than logits.
    """
    if not models:
        raise InputError("models", [], "at least one is needed")
    first = models[0]
    for model in models[1:]:
        if model.at(P=first.P) != first:
            raise InputError("models", str(model), "all models of one ensemble must agree in everything but P")
    if not first.score.uses_logits:
        raise InputError("score", first.score.name, "networks need a score that is a function of logits")
    return first
