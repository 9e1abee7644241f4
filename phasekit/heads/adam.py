"""Adam on the full-batch energy, for all members of an ensemble at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.adam import adam

from phasekit.errors import InputError
from phasekit.heads.energy import Energy

Progress = Callable[[int, int], None]
_REPORT_EVERY = 50


@dataclass(frozen=True)
class Adam:
    """Adam's settings, and how its learning rate falls.

    The step size of Adam doesn't shrink with the gradient, so only a falling rate lets members come to rest. Both
    decays start at ``rate`` and end at ``final_rate``.

    Parameters
    ----------
    steps : int
    rate, final_rate : float
        Learning rate of the first and of the last step, in units of the entries of W and G.
    decay : "cosine" or "exponential"
    beta1, beta2, eps : float
        As in Adam (arXiv:1412.6980). There is no weight decay on top: the priors are part of U.

    Raises
    ------
    InputError
        For a setting out of range.
    """

    steps: int = 1000
    rate: float = 0.1
    final_rate: float = 1e-5
    decay: Literal["cosine", "exponential"] = "cosine"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise InputError("steps", self.steps, "must be a whole number of at least 1")
        for name in ("rate", "final_rate", "eps"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(name, value, "must be a finite number above 0")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(name, getattr(self, name), "must be at least 0 and below 1")
        if self.decay not in ("cosine", "exponential"):
            raise InputError("decay", self.decay, "must be cosine or exponential")

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        done = step / max(1, self.steps - 1)
        if self.decay == "exponential":
            return float(self.rate * (self.final_rate / self.rate) ** done)
        return self.final_rate + (self.rate - self.final_rate) * 0.5 * (1 + math.cos(math.pi * done))

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; ``Adam(**settings)`` takes them back."""
        return asdict(self)


class AdamEnsemble:
    """The state of an ensemble that Adam trains.

    Parameters, gradients and moments each lie in one flat buffer, so that Adam's update is a single fused kernel.

    Parameters
    ----------
    energy : Energy
    W, G : Tensor, shapes (D, M, V, V) and (D, M, n, n)
        Where to start; copied.
    settings : Adam
    """

    def __init__(self, energy: Energy, W: Tensor, G: Tensor, settings: Adam) -> None:
        self.settings, self.steps_done = settings, 0
        self._flat = torch.cat([W.flatten(), G.flatten()]).to(energy.device, energy.dtype)
        self._gradient, self._mean, self._square = (torch.zeros_like(self._flat) for _ in range(3))
        self._count = torch.zeros((), dtype=torch.float32, device=energy.device)
        self.W, self.G = self._flat[: W.numel()].view(W.shape), self._flat[W.numel() :].view(G.shape)
        dW, dG = self._gradient[: W.numel()].view(W.shape), self._gradient[W.numel() :].view(G.shape)
        self._set_gradient = energy.bind(self.W, self.G, dW, dG)

    def state(self) -> dict[str, Tensor]:
        """Return copies of everything that determines how training goes on; for :meth:`restore`."""
        tensors = {"parameters": self._flat, "mean": self._mean, "square": self._square, "count": self._count}
        return {**{name: x.clone() for name, x in tensors.items()}, "steps_done": torch.tensor(self.steps_done)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue where :meth:`state` was taken, bit for bit.

        Raises
        ------
        InputError
            If it is the state of another ensemble.
        """
        if any(name not in state or state[name].shape != x.shape for name, x in self.state().items()):
            shapes = {name: tuple(x.shape) for name, x in state.items()}
            raise InputError("state", shapes, "belongs to another ensemble")
        for tensor, name in ((self._flat, "parameters"), (self._mean, "mean"), (self._square, "square")):
            tensor.copy_(state[name])
        self._count.copy_(state["count"])
        self.steps_done = int(state["steps_done"])

    @torch.no_grad()
    def run(self, steps: int, progress: Progress | None = None) -> None:
        """Take that many steps (of the ``settings.steps`` that the learning rate is planned for)."""
        for _ in range(steps):
            self._set_gradient()
            adam(
                [self._flat],
                [self._gradient],
                [self._mean],
                [self._square],
                [],
                [self._count],
                fused=True,
                amsgrad=False,
                beta1=self.settings.beta1,
                beta2=self.settings.beta2,
                lr=self.settings.rate_at(self.steps_done),
                weight_decay=0.0,
                eps=self.settings.eps,
                maximize=False,
            )
            self.steps_done += 1
            finished = self.steps_done == self.settings.steps
            if progress is not None and (finished or self.steps_done % _REPORT_EVERY == 0):
                progress(self.steps_done, self.settings.steps)
