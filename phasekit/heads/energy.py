"""The energy U(W, G) of an ensemble of heads, and what every way of computing it has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.errors import InputError
from phasekit.model import Copy, Model, Task, given_model
from phasekit.scores import Softmax
from phasekit.tasks.copy import Dataset


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


class Gradient(Protocol):
    """The gradient of U for fixed buffers: the inner step of training and sampling.

    Binding once and calling many times lets an implementation keep its workspace.
    """

    def __call__(self) -> None:
        """Overwrite dW and dG by dU/dW and dU/dG (priors included) at what W and G hold now."""

    def likelihood(self) -> Tensor:
        """Return U without its prior terms, shape (D, M), at the W and G of the last call."""


class Energy(ABC):
    """U(W, G) for D data sets times M members (docs/theory.md, section 1).

        U = 1/(2κL) Σ_μ ‖Y^μ - A^μ X^μ W‖²  +  ‖W‖²/(2σ_w²)  +  ‖G‖²/(2σ_g²)

    Everywhere, ``W`` has shape (D, M, V, V) and ``G`` shape (D, M, n, n), both contiguous, with n = L for positional
    inputs and n = V + L for token+position inputs (tokens first). M is free: it may change from call to call.
    Where G is factorised (:class:`phasekit.heads.factorised.FactorisedEnergy`), ``G`` holds its two factors.

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
        """n, the columns of G."""
        return self.model.positions.shape(self.model.V, self.model.L)[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one member's W and G."""
        return {"W": (self.model.V, self.model.V), "G": self.model.positions.shape(self.model.V, self.model.L)}

    @property
    def prior_scales(self) -> dict[str, float]:
        """Prior standard deviations of an entry of W and of G."""
        return {"W": self.model.sigma_w, "G": self.model.sigma_g}

    @property
    def logit_precision(self) -> float:
        """1/σ_g², the prior's curvature in logits; 0 where they are functions of other weights, on which it lies."""
        return self.model.sigma_g**-2 if self.model.key_dim is None and self.model.encoding is None else 0.0

    @property
    def likelihood_factor(self) -> float:
        """1/(κL), the prefactor of the likelihood's gradient; with a mask the number of positions that count for L."""
        return 1.0 / (self.model.kappa * self.positions)

    @cached_property
    def positions(self) -> int:
        """How many positions the loss is averaged over."""
        return int(self.model.mask.counted(self.model.L).sum()) if self.model.mask.hides else self.model.L

    def bind(self, position: Tensors, gradient: Tensors) -> Gradient:
        """Return what computes the gradient at W and G, by name, into tensors of the same names, as often as asked."""
        return self.gradient_at(position["W"], position["G"], gradient["W"], gradient["G"])

    @abstractmethod
    def gradient_at(self, W: Tensor, G: Tensor, dW: Tensor, dG: Tensor) -> Gradient:
        """Return what computes the gradient at ``W, G`` into ``dW, dG``."""

    @property
    def multiplications(self) -> float:
        """Multiplications of one gradient of one member on every data set, roughly."""
        return sum(multiplications(d.model, self.path) for d in self.datasets)

    @abstractmethod
    def averages(self, W: Tensor, G: Tensor) -> Averages:
        """Return loss, s, s₂, g and q."""

    @abstractmethod
    def mean_attention(self, G: Tensor) -> Tensor:
        """Return the attention matrix averaged over the training sequences, shape (D, M, L, L)."""

    @abstractmethod
    def in_double(self) -> Energy:
        """Return the same energy in float64."""

    def energy_and_gradient(self, W: Tensor, G: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return U, shape (D, M), with dU/dW and dU/dG."""
        dW, dG = torch.empty_like(W), torch.empty_like(G)
        gradient = self.gradient_at(W, G, dW, dG)
        gradient()
        return gradient.likelihood() + self.prior(W, G), dW, dG

    def prior(self, W: Tensor, G: Tensor) -> Tensor:
        """Return ‖W‖²/(2σ_w²) + ‖G‖²/(2σ_g²), shape (D, M)."""
        return 0.5 * (
            W.square().sum((-2, -1)) / self.model.sigma_w**2 + G.square().sum((-2, -1)) * self.logit_precision
        )

    def logit_matrix(self, G: Tensor) -> Tensor:
        """Return the matrix G of the logits, shape (D, M, n, n)."""
        return G

    def mirrored(self, W: Tensor, G: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
        """Return (W, G) times a sign, shape (D, M), of each member: the same head, for linear attention."""
        return W * sign[..., None, None], G * sign[..., None, None]


class PositionalEnergy(Energy):
    """What the energies for positional inputs share: one attention matrix for all sequences.

    Rows of positions that don't count (see :class:`phasekit.masks.Mask`) may attend nowhere: they are 0.
    """

    @cached_property
    def mask(self) -> Tensor | None:
        """Where a position may attend, shape (L, L); None without a mask."""
        mask, L = self.model.mask, self.model.L
        if not mask.hides:
            return None
        return torch.from_numpy(mask.visible(L) & mask.counted(L)[:, None]).to(self.device)

    @cached_property
    def _bias(self) -> tuple[Tensor, int] | None:
        """What softmax adds to logits, and how many first rows are cleared: cheaper than a mask in general."""
        if self.mask is None or not isinstance(self.model.score, Softmax):
            return None
        counted = self.mask.any(-1)
        first = int((~counted).sum())
        if not counted[first:].all():
            return None
        hidden = torch.zeros(self.mask.shape, dtype=self.dtype, device=self.device)
        return hidden.masked_fill_(~self.mask & counted[:, None], -torch.inf), first

    def mean_attention(self, G: Tensor) -> Tensor:
        if self._bias is None:
            return self.model.score.rows(G, self.mask)
        hidden, first = self._bias
        A = (G + hidden).softmax(-1)
        A[..., :first, :] = 0
        return A

    def pull_back(self, G: Tensor, A: Tensor, dA: Tensor) -> Tensor:
        """Return dU/dG, without the prior, from dU/dA."""
        return self.model.score.pull_back(G, A, dA, None if self._bias else self.mask)

    def position_losses(self, W: Tensor, G: Tensor) -> Tensor:
        """Return the loss of each position, averaged over the sequences, shape (D, M, L); 0 where it doesn't count."""
        return self.position_errors(W, self.mean_attention(G)) / self.P[..., None]

    @abstractmethod
    def position_errors(self, W: Tensor, A: Tensor) -> Tensor:
        """Return Σ_μ ‖y - f‖² of each position, shape (D, M, L); 0 where it doesn't count."""

    def averages(self, W: Tensor, G: Tensor) -> Averages:
        A, positions = self.mean_attention(G), self.positions
        sums = A.sum(-1)
        return Averages(
            loss=self.position_errors(W, A).sum(-1) / (self.P * positions),
            s=sums.sum(-1) / positions,
            s2=sums.square().sum(-1) / positions,
            g=A.roll(-1, dims=-2).diagonal(dim1=-2, dim2=-1).sum(-1) / positions,
            q=A.square().sum((-2, -1)) / positions,
        )


def multiplications(model: Model, path: str) -> float:
    """Return about how many multiplications one gradient of one head takes: from second moments, or by sequences."""
    V, L, P = float(model.V), float(model.L), model.P or 1.0
    return 4 * V**2 * L**2 + 2 * L**3 if path == "moments" else P * (2 * L**2 * V + 3 * L * V**2)


def common_model(models: Sequence[Model], *tasks: type[Task]) -> Model:
    """Return the first model, after checking that the others differ from it in P only.

    Parameters
    ----------
    tasks : types of Task
        Those that the caller has networks for; copying if none is named.

    Raises
    ------
    InputError
        If there is none, they differ in more, or their score needs more than logits.
    """
    if not models:
        raise InputError("models", [], "at least one is needed")
    first = given_model(models[0], "give its models as a list")
    for model in map(given_model, models[1:]):
        if model.at(P=first.P) != first:
            raise InputError("models", str(model), "all models of one ensemble must agree in everything but P")
    if not isinstance(first.task, tasks or Copy):
        known = ", ".join(task.name for task in tasks or (Copy,))
        raise InputError("task", first.task.name, f"must be one of {known}: nothing else is known here of its networks")
    if not first.score.uses_logits:
        raise InputError("score", first.score.name, "networks need a score that is a function of logits")
    return first
