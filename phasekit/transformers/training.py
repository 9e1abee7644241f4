"""One loop that trains any network: batches by number, a planned learning rate, checkpoints, and a loss that is kept.

The network's batch ``number`` must depend on nothing but that number (and a seed), so that a run that was killed goes
on with the batches that it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from phasekit.checkpoint import Pause, load_checkpoint, save_checkpoint
from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.scores.parameters import parameter_groups

if TYPE_CHECKING:
    from accelerate import Accelerator

#: Steps between two looks at the loss (which on a GPU waits for it), and between two pauses.
_LOOK_EVERY = 10

Progress = Callable[[int, int, float], None]
BatchLoss = Callable[[nn.Module, int], Tensor]
Watch = Callable[[nn.Module], Mapping[str, float]]


class Training(Description):
    """How a network is trained: AdamW with a planned learning rate.

    The plan ends at ``steps``, which is part of the description: a run that is resumed can't change it.

    Parameters
    ----------
    steps : int
    batch : int
        Examples in a batch.
    accumulate : int
        Batches whose gradients are averaged for one step.
    rate, final_rate : float
        Learning rate after warming up, and at the end.
    decay : "cosine", "linear" or "constant"
    warmup : int
        Steps in which the rate grows from 0.
    beta1, beta2, eps : float
        Adam's (arXiv:1412.6980).
    weight_decay : float
        Decoupled (arXiv:1711.05101); never applied to a score's parameters.
    clip : float, optional
        Largest norm of the gradient of all parameters; None: any.
    precision : "float32", "float64" or "bfloat16"
        Of weights and arithmetic; bfloat16: weights in float32, products by autocast.
    compile : bool
        Whether torch.compile translates the network first. (Not bit for bit the same.)
    """

    steps: int = Field(default=4000, ge=1)
    batch: int = Field(default=64, ge=1)
    accumulate: int = Field(default=1, ge=1)
    rate: float = Field(default=1e-3, gt=0)
    final_rate: float = Field(default=0.0, ge=0)
    decay: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: int = Field(default=0, ge=0)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float | None = Field(default=1.0, gt=0)
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    compile: bool = False

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / (self.warmup + 1)
        if self.decay == "constant":
            return self.rate
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        left = 1 - done if self.decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))
        return self.final_rate + (self.rate - self.final_rate) * left

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return torch.float64 if self.precision == "float64" else torch.float32


class Diverged(ArithmeticError):
    """The loss became infinite or no number."""


@dataclass
class History:
    """What happened along the way.

    Attributes
    ----------
    loss, gradient_norm : arrays, shape (steps,)
        Of every step; the norm is that before clipping.
    watched_at : integer array, shape (looks,)
        Steps done when the network was looked at.
    watched : name to array, shape (looks,)
    """

    loss: NDArray[np.float32]
    gradient_norm: NDArray[np.float32]
    watched_at: NDArray[np.int64]
    watched: dict[str, NDArray[np.float64]]


def train(
    model: nn.Module,
    batch_loss: BatchLoss,
    settings: Training,
    *,
    seed: int,
    run: Mapping[str, Any],
    watch: Watch | None = None,
    watch_every: int = 0,
    checkpoint: Path | None = None,
    pause: Pause | None = None,
    progress: Progress | None = None,
    accelerator: Accelerator | None = None,
) -> History:
    """Train a network in place.

    Parameters
    ----------
    model : nn.Module
        On its device, in ``settings.dtype``.
    batch_loss : callable
        From the network and the number of a batch to its mean loss.
    settings : Training
    seed : int
        Only to be named if training fails.
    run : mapping
        What is trained, as plain JSON values: a checkpoint of anything else is refused.
    watch : callable, optional
        From the network to numbers by name, called before training, every ``watch_every`` steps, and at the end.
    checkpoint : path, optional
        A file (.npz) to resume from if it exists: training goes on from there, bit for bit on the CPU.
    pause : callable, optional
        Called now and then with a function that saves the checkpoint: to save by the clock, or to stop by raising.
    progress : callable, optional
        Called now and then with (steps done, steps in all, loss).
    accelerator : accelerate.Accelerator, optional
        What spreads the network over processes and devices (``accelerate launch``); ``batch_loss`` is then called in
        each process, and must return that process's part of the mean, times the number of processes, because gradients
        are averaged. Losses that are kept are those of the first process.

    Raises
    ------
    Diverged
        With step and seed.
    InputError
        If the checkpoint is damaged or belongs to another run.
    """
    loop = _Loop(model, batch_loss, settings, seed, dict(run), watch, watch_every, accelerator)
    return loop.go(checkpoint, pause, progress)


class _Loop:
    def __init__(
        self,
        model: nn.Module,
        batch_loss: BatchLoss,
        settings: Training,
        seed: int,
        run: dict[str, Any],
        watch: Watch | None,
        watch_every: int,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.model, self.batch_loss, self.settings, self.seed, self.run = model, batch_loss, settings, seed, run
        self.watch, self.watch_every = watch, watch_every
        self.device = next(model.parameters()).device
        self.optimiser = torch.optim.AdamW(
            [group for group in parameter_groups(model, settings.weight_decay) if group["params"]],
            lr=settings.rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            fused=True,
        )
        self.called: Any = torch.compile(model) if settings.compile else model
        self.accelerator = accelerator
        if accelerator is not None:
            self.called, self.optimiser = accelerator.prepare(self.called, self.optimiser)
        self.done = 0
        self.loss, self.norm = (torch.zeros(settings.steps, device=self.device) for _ in range(2))
        self.looks: list[tuple[int, dict[str, float]]] = []

    def go(self, checkpoint: Path | None, pause: Pause | None, progress: Progress | None) -> History:
        if checkpoint is not None and checkpoint.exists():
            self.restore(load_checkpoint(checkpoint, self.run))

        def save() -> None:
            if checkpoint is not None:
                save_checkpoint(checkpoint, self.run, self.state())

        while self.done < self.settings.steps:
            self.look()
            self.step()
            if self.done % _LOOK_EVERY == 0 or self.done == self.settings.steps:
                self.check()
                if progress is not None:
                    progress(self.done, self.settings.steps, float(self.loss[self.done - 1]))
                if pause is not None and self.done < self.settings.steps:
                    pause(save)
        self.look(last=True)
        return self.history()

    def step(self) -> None:
        settings, step = self.settings, self.done
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate_at(step)
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        for part in range(settings.accumulate):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
                loss = self.batch_loss(self.called, step * settings.accumulate + part) / settings.accumulate
            if self.accelerator is None:
                loss.backward()  # type: ignore[no-untyped-call]
            else:
                self.accelerator.backward(loss)
            self.loss[step] += loss.detach()
        most = math.inf if settings.clip is None else settings.clip
        clip = torch.nn.utils.clip_grad_norm_ if self.accelerator is None else self.accelerator.clip_grad_norm_
        self.norm[step] = clip(self.model.parameters(), most)
        self.optimiser.step()
        self.done += 1

    def look(self, last: bool = False) -> None:
        """Watch the network where it is time to, once for each number of steps."""
        due = self.watch_every and self.done % self.watch_every == 0
        if self.watch is None or not (due or last) or (self.looks and self.looks[-1][0] == self.done):
            return
        self.model.eval()
        with torch.no_grad():
            self.looks.append((self.done, dict(self.watch(self.model))))

    def check(self) -> None:
        wrong = (~torch.isfinite(self.loss[: self.done])).nonzero()
        if len(wrong):
            step = int(wrong[0])
            raise Diverged(f"training diverged: the loss is {float(self.loss[step])} at step {step} (seed {self.seed})")

    def state(self) -> dict[str, Tensor | NDArray[Any]]:
        """Return everything that determines how training goes on."""
        state: dict[str, Tensor | NDArray[Any]] = {f"model {k}": v for k, v in self.model.state_dict().items()}
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        for parameter, moments in self.optimiser.state.items():
            state |= {f"{key} {names[id(parameter)]}": value for key, value in moments.items()}
        state |= {"done": torch.tensor(self.done), "loss": self.loss, "norm": self.norm}
        state["looked at"] = np.array([at for at, _ in self.looks], dtype=np.int64)
        for name in self.looks[0][1] if self.looks else ():
            state[f"watched {name}"] = np.array([found[name] for _, found in self.looks])
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue where :meth:`state` was taken.

        Raises
        ------
        InputError
            If it is the state of another network.
        """
        try:
            weights = {name: state[f"model {name}"] for name in self.model.state_dict()}
            self.model.load_state_dict(weights)
            for name, parameter in self.model.named_parameters():
                moments = {key: state.get(f"{key} {name}") for key in ("step", "exp_avg", "exp_avg_sq")}
                if moments["step"] is not None:
                    self.optimiser.state[parameter] = {
                        key: value.to(self.device) for key, value in moments.items() if value is not None
                    }
            self.loss.copy_(state["loss"])
            self.norm.copy_(state["norm"])
            self.done = int(state["done"])
            names = [name for name in state if name.startswith("watched ")]
            self.looks = [
                (int(at), {name.removeprefix("watched "): float(state[name][k]) for name in names})
                for k, at in enumerate(state["looked at"])
            ]
        except (KeyError, RuntimeError):
            raise InputError("checkpoint", sorted(state)[:3], "belongs to another network") from None

    def history(self) -> History:
        names = list(self.looks[0][1]) if self.looks else []
        return History(
            self.loss.cpu().numpy(),
            self.norm.cpu().numpy(),
            np.array([at for at, _ in self.looks], dtype=np.int64),
            {name: np.array([found[name] for _, found in self.looks]) for name in names},
        )
