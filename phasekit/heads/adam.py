"""Adam on a full-batch energy, for all members of an ensemble at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor
from torch.optim.adam import adam

from phasekit.checkpoint import Tensors
from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.progress import Report

_REPORT_EVERY = 50


class Adam(Description):
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

    steps: int = Field(default=1000, ge=1)
    rate: float = Field(default=0.1, gt=0)
    final_rate: float = Field(default=1e-5, gt=0)
    decay: Literal["cosine", "exponential"] = "cosine"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        done = step / max(1, self.steps - 1)
        if self.decay == "exponential":
            return float(self.rate * (self.final_rate / self.rate) ** done)
        return self.final_rate + (self.rate - self.final_rate) * 0.5 * (1 + math.cos(math.pi * done))


class Objective(Protocol):
    """What Adam minimises: its gradient at named tensors, written into tensors of the same names."""

    device: torch.device
    dtype: torch.dtype

    def bind(self, position: Tensors, gradient: Tensors) -> Callable[[], Any]:
        """Return what computes the gradient at ``position`` into ``gradient``, as often as it is called."""


class AdamEnsemble:
    """The state of an ensemble that Adam trains.

    Parameters, gradients and moments each lie in one flat buffer, so that Adam's update is a single fused kernel.

    Parameters
    ----------
    objective : Objective
        An :class:`phasekit.heads.Energy`, say.
    position : mapping of str to Tensor
        Where to start; copied. For heads W and G, shapes (D, M, V, V) and (D, M, n, n).
    settings : Adam

    Attributes
    ----------
    position : dict of str to Tensor
        Where the members are now.
    """

    def __init__(self, objective: Objective, position: Tensors, settings: Adam) -> None:
        self.settings, self.steps_done = settings, 0
        self._flat = torch.cat([part.flatten() for part in position.values()]).to(objective.device, objective.dtype)
        self._gradient, self._mean, self._square = (torch.zeros_like(self._flat) for _ in range(3))
        self._count = torch.zeros((), dtype=torch.float32, device=objective.device)
        self.position = _views(self._flat, position)
        self._set_gradient = objective.bind(self.position, _views(self._gradient, position))

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
            raise InputError("checkpoint", shapes, "belongs to another ensemble")
        for tensor, name in ((self._flat, "parameters"), (self._mean, "mean"), (self._square, "square")):
            tensor.copy_(state[name])
        self._count.copy_(state["count"])
        self.steps_done = int(state["steps_done"])

    def run(self, steps: int, progress: Report | None = None) -> None:
        """Take that many steps (of the ``settings.steps`` that the learning rate is planned for)."""
        for _ in range(steps):
            self._set_gradient()
            self._update()
            self.steps_done += 1
            finished = self.steps_done == self.settings.steps
            if progress is not None and (finished or self.steps_done % _REPORT_EVERY == 0):
                progress(self.steps_done, self.settings.steps)

    @torch.no_grad()
    def _update(self) -> None:
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


def _views(flat: Tensor, like: Tensors) -> dict[str, Tensor]:
    """Return pieces of a flat buffer, named and shaped like other tensors."""
    pieces = torch.split(flat, [part.numel() for part in like.values()])
    return {name: piece.view(part.shape) for (name, part), piece in zip(like.items(), pieces, strict=True)}
