"""Transformers on in-context tasks: the one description, its loss, and its training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor, nn
from torch.nn import functional

from phasekit.checkpoint import Pause
from phasekit.describe import Description
from phasekit.device import resolve_device
from phasekit.errors import InputError
from phasekit.scores import Score, Softmax, get_score
from phasekit.tasks.in_context import Prompts, Shift, Task, build_task
from phasekit.transformers.decoder import Architecture, Decoder, Learned, get_architecture
from phasekit.transformers.training import BatchLoss, History, Progress, Training, train

#: Prompts by which training is watched.
_WATCHED = 256


class InContext(Description):
    """A transformer and the task that it is to learn.

    Parameters
    ----------
    task : Task, its name, or a mapping
    architecture : Architecture, the name of a preset, or a mapping (``{preset = "small", positions = "none"}``)
    score : Score, its name, or a mapping
    learned : "head", "layer" or "no"
        Whether the score's parameters are learned, and how many of them.

    Raises
    ------
    InputError
        One line that names the field, the value and what is allowed.
    """

    task: SerializeAsAny[Task]
    architecture: Architecture = Architecture()
    score: SerializeAsAny[Score] = Softmax()
    learned: Learned = "head"

    if TYPE_CHECKING:  # tasks, architectures and scores may be their names

        def __init__(self, **fields: Any) -> None: ...

    @field_validator("task", mode="before")
    @classmethod
    def _read_task(cls, given: Any) -> Task:
        return build_task(given)

    @field_validator("architecture", mode="before")
    @classmethod
    def _read_architecture(cls, given: Any) -> Architecture:
        return get_architecture(given)

    @field_validator("score", mode="before")
    @classmethod
    def _read_score(cls, given: Any) -> Score:
        return get_score(given)

    def build(self, seed: int = 0) -> Decoder:
        """Return the network with the initial weights of a seed.

        Raises
        ------
        InputError
            If the parts don't fit together.
        """
        task = self.task
        return Decoder(self.architecture, task.inputs, task.outputs, self.score, learned=self.learned, seed=seed)

    def check_points(self, points: int) -> None:
        """Raise InputError unless a prompt with so many examples has a position for each token."""
        most, tokens = self.architecture.longest, self.task.tokens_in(points)
        if self.architecture.positions == "learned" and tokens > most:
            raise InputError("points", points, f"make {tokens} tokens, but there are {most} learned positions")


class Curriculum(Description):
    """How prompts grow while a network trains.

    Parameters
    ----------
    first : int, optional
        Examples in the first prompts; None: as many as the task says, from the start.
    by, every : int
        So many more after every so many steps, until there are as many as the task says.
    """

    first: int | None = Field(default=None, ge=1)
    by: int = Field(default=2, ge=1)
    every: int = Field(default=2000, ge=1)

    def points_at(self, step: int, last: int) -> int:
        """Return how many examples the prompts of a step have."""
        return last if self.first is None else min(last, self.first + self.by * (step // self.every))


def answers_of(model: nn.Module, prompts: Prompts) -> Tensor:
    """Return a network's answers, shape (prompts, answers, outputs)."""
    some = next(model.parameters())
    tokens = torch.from_numpy(prompts.tokens).to(some.device, some.dtype)
    answers: Tensor = model(tokens)[:, torch.from_numpy(prompts.places).to(some.device)]
    return answers


def mean_loss(task: Task, answers: Tensor, prompts: Prompts) -> Tensor:
    """Return the mean loss over the answers that count."""
    counts = torch.from_numpy(prompts.counts).to(answers.device)
    targets = torch.from_numpy(prompts.targets).to(answers.device)
    if task.loss == "cross-entropy":
        return functional.cross_entropy(answers[counts], targets[counts].long())
    given, targets = answers[..., 0], targets.to(answers.dtype)
    each = (given - targets) ** 2 if task.loss == "squared" else functional.softplus(-given * targets)
    return each[counts].mean()


@torch.no_grad()
def answer(model: nn.Module, prompts: Prompts, at_once: int = 128) -> NDArray[np.float64]:
    """Return a network's answers as float64, computed for so many prompts at once."""
    model.eval()
    parts = []
    for start in range(0, len(prompts.tokens), at_once):
        rows = slice(start, start + at_once)
        part = Prompts(
            prompts.tokens[rows], prompts.places, prompts.targets[rows], prompts.counts[rows], prompts.x[rows]
        )
        parts.append(answers_of(model, part).double().cpu().numpy())
    return np.concatenate(parts)


def train_in_context(
    subject: InContext,
    settings: Training,
    *,
    seed: int = 0,
    curriculum: Curriculum | None = None,
    device: str = "cpu",
    watch_every: int = 0,
    checkpoint: Path | None = None,
    pause: Pause | None = None,
    progress: Progress | None = None,
) -> tuple[Decoder, History]:
    """Train the network of a description.

    Weights and batches depend on the seed, and neither on the score nor on what was done before: arms that differ in
    the score begin with the same weights and see the same prompts.

    Parameters
    ----------
    subject : InContext
    settings : Training
    seed : int
    curriculum : Curriculum, optional
    device : "cpu", "cuda" or "auto"
    watch_every : int
        Steps between two measurements of the error on prompts like those of training, which are kept; 0: none.
    checkpoint, pause, progress
        As in :func:`phasekit.transformers.training.train`.

    Returns
    -------
    Decoder, History

    Raises
    ------
    Diverged, InputError
    """
    task, growth = subject.task, curriculum or Curriculum()
    subject.check_points(max(task.points, growth.first or 1))
    model = subject.build(seed).to(resolve_device(device), settings.dtype)
    held_out = task.draw("watch", 0, 0, _WATCHED)

    def watch(network: nn.Module) -> Mapping[str, float]:
        found = answer(network, held_out)
        counted = task.counted(held_out)
        return {
            "error": float(np.nanmean(task.prompt_errors(held_out, found))),
            "answer_error": float(task.errors(held_out, found)[counted].mean()),
            "loss": float(mean_loss(task, torch.from_numpy(found), held_out)),
        }

    what = {"subject": subject.describe(), "seed": seed, "curriculum": growth.describe()}
    run = {**what, "training": {name: getattr(settings, name) for name in Training.model_fields}}
    history = train(
        model,
        _batches(task, settings, growth, "train", seed),
        settings,
        seed=seed,
        run={**run, "watch_every": watch_every},
        watch=watch if watch_every else None,
        watch_every=watch_every,
        checkpoint=checkpoint,
        pause=pause,
        progress=progress,
    )
    return model, history


def retune(model: nn.Module, subject: InContext, settings: Training, *, seed: int, steps: int) -> History:
    """Train a network on for a while at a tenth of its first rate, on fresh prompts of full length, in place.

    Raises
    ------
    Diverged
    """
    named = {name: getattr(settings, name) for name in Training.model_fields}
    plan = Training(**{**named, "steps": steps, "rate": settings.rate / 10, "warmup": 0})
    batches = _batches(subject.task, plan, Curriculum(), "retune", seed)
    return train(model, batches, plan, seed=seed, run={})


def _batches(task: Task, settings: Training, growth: Curriculum, purpose: str, seed: int) -> BatchLoss:
    """Return the mean loss of a network on the batch of a number."""

    def batch_loss(network: nn.Module, number: int) -> Tensor:
        points = growth.points_at(number // settings.accumulate, task.points)
        prompts = task.draw(purpose, seed, number, settings.batch, Shift(points=points))
        return mean_loss(task, answers_of(network, prompts), prompts)

    return batch_loss
