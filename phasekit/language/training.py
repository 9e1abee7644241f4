"""Training a language model: its loss on the batch of a number, what is watched along the way, and one call for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from phasekit.checkpoint import Pause
from phasekit.device import resolve_device
from phasekit.errors import InputError
from phasekit.language.batches import Batch, Order
from phasekit.language.corpus import Prepared, prepare
from phasekit.language.models import build
from phasekit.language.monitor import attention_measures, learned_parameters
from phasekit.language.subject import LanguageModel
from phasekit.streams import stream
from phasekit.transformers.training import BatchLoss, History, Progress, Training, Watch, train

if TYPE_CHECKING:
    from accelerate import Accelerator

OrderKind = Literal["shuffled", "given"]
BatchAt = Callable[[int], Batch]

#: Held-out examples by which training is watched.
_WATCHED = 512


class Predictor(nn.Module):
    """A model of transformers, asked for nothing but its predictions where they count.

    Only there are logits computed: an encoder masks one token in seven, and the read-out of a small model costs as much
    as its layers.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, visible: Tensor, places: Tensor) -> Tensor:
        """Return logits, shape (places, vocabulary), of tokens (examples, tokens), at places counted through all."""
        hidden = self.model.base_model(input_ids=inputs, attention_mask=visible, use_cache=False)[0]
        logits: Tensor = self.model.lm_head(hidden.flatten(0, 1)[places])
        return logits


def loss_of(network: nn.Module, batch: Batch, device: torch.device, process: int = 0, processes: int = 1) -> Tensor:
    """Return the mean cross-entropy of a batch in nats, over the places that count.

    One of several processes computes its rows only: its part of the mean, times the number of processes, so that the
    average over processes is the mean over the batch.
    """
    whole, batch = int(batch.counts.sum()), batch.part(process, processes)
    places = np.flatnonzero(batch.counts)
    inputs, visible, where, targets = (
        torch.from_numpy(array).to(device)
        for array in (batch.inputs, batch.visible, places, batch.targets.flatten()[places])
    )
    logits: Tensor = network(inputs, visible.long(), where)
    exact = logits if logits.dtype == torch.float64 else logits.float()
    if processes == 1:
        return functional.cross_entropy(exact, targets)
    return functional.cross_entropy(exact, targets, reduction="sum") * processes / whole


def training_batch(subject: LanguageModel, text: Prepared, settings: Training, seed: int, order: OrderKind) -> BatchAt:
    """Return the function from a number to the batch that is trained on."""
    examples = subject.examples_of(text.train)
    chosen = Order(len(examples), settings.batch, seed, order)

    def batch_at(number: int) -> Batch:
        batch = examples.batch(chosen(number))
        if subject.kind == "decoder":
            return batch
        return subject.masking.apply(batch, text.vocabulary, stream("masks", seed, number))

    return batch_at


@torch.no_grad()
def mean_loss(network: nn.Module, batches: Sequence[Batch]) -> float:
    """Return the mean cross-entropy, in nats for a token, over all places that count in some batches."""
    counts = [int(batch.counts.sum()) for batch in batches]
    losses = [float(loss_of(network, batch, _device(network))) for batch in batches]
    return math.fsum(count * loss for count, loss in zip(counts, losses, strict=True)) / sum(counts)


def held_out_batches(subject: LanguageModel, text: Prepared, most: int | None = None) -> list[Batch]:
    """Return held-out examples as batches, with masks that are the same for every model.

    Raises
    ------
    InputError
        If nothing was held out.
    """
    if not len(text.held_out):
        raise InputError("held_out", subject.corpus.held_out, "no document was held out")
    examples = subject.examples_of(text.held_out)
    chosen = stream("held-out text", 0).permutation(len(examples))[:most]
    batches = [examples.batch(chosen[start : start + 64]) for start in range(0, len(chosen), 64)]
    if subject.kind == "decoder":
        return batches
    masks = (stream("masks of held-out text", k) for k in range(len(batches)))
    return [subject.masking.apply(batch, text.vocabulary, mask) for batch, mask in zip(batches, masks, strict=True)]


def train_language(
    subject: LanguageModel,
    settings: Training,
    *,
    seed: int = 0,
    order: OrderKind = "shuffled",
    device: str = "cpu",
    watch_every: int = 0,
    checkpoint: Path | None = None,
    pause: Pause | None = None,
    progress: Progress | None = None,
    accelerator: Accelerator | None = None,
) -> tuple[PreTrainedModel, History]:
    """Train the model of a description.

    Weights and batches depend on the seed, and neither on the score nor on what was done before: arms that differ in
    the score begin with the same weights and see the same batches.

    Parameters
    ----------
    subject : LanguageModel
    settings : Training
    seed : int
    order : "shuffled" or "given"
        Every epoch in an order of its own, or every epoch as the text has it (by age, say).
    device : "cpu", "cuda" or "auto"
    watch_every : int
        Steps between two looks at the loss on held-out text and at the score's parameters, which are kept; 0: none.
    checkpoint, pause, progress, accelerator
        As in :func:`phasekit.transformers.training.train`. With an accelerator, each process computes its rows of every
        batch, on its own device, and nothing is saved or watched.

    Returns
    -------
    PreTrainedModel, History

    Raises
    ------
    Diverged, InputError
    """
    text = prepare(subject.corpus)
    process, processes = (0, 1) if accelerator is None else (accelerator.process_index, accelerator.num_processes)
    if settings.batch < processes:
        raise InputError("batch", settings.batch, f"must be at least {processes}, the number of processes")
    if accelerator is not None and (checkpoint is not None or watch_every):
        raise InputError("accelerator", processes, "several processes neither save checkpoints nor watch")
    model = build(
        subject.shape, text.vocabulary, subject.score, learned=subject.learned, seed=seed, dtype=settings.dtype
    ).to(resolve_device(device) if accelerator is None else accelerator.device)  # type: ignore[arg-type]
    network = Predictor(model)
    what = {"subject": subject.describe(), "text": text.digest, "seed": seed, "order": order}
    history = train(
        network,
        _losses(subject, text, settings, seed, order, process, processes),
        settings,
        seed=seed,
        run={**what, "training": _plain(settings), "watch_every": watch_every},
        watch=_watch(subject, text) if watch_every else None,
        watch_every=watch_every,
        checkpoint=checkpoint,
        pause=pause,
        progress=progress,
        accelerator=accelerator,
    )
    return model, history


def _losses(
    subject: LanguageModel,
    text: Prepared,
    settings: Training,
    seed: int,
    order: OrderKind,
    process: int,
    processes: int,
) -> BatchLoss:
    batch_at = training_batch(subject, text, settings, seed, order)

    def batch_loss(network: nn.Module, number: int) -> Tensor:
        with _dropping(subject, seed, number):
            return loss_of(network, batch_at(number), _device(network), process, processes)

    return batch_loss


@contextmanager
def _dropping(subject: LanguageModel, seed: int, number: int) -> Iterator[None]:
    """Draw what is dropped in a batch from a stream of its own: torch's own generator isn't kept in a checkpoint."""
    if not subject.shape.dropout:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(int(stream("dropout", seed, number).integers(2**62)))
        yield


def _watch(subject: LanguageModel, text: Prepared) -> Watch:
    """Return what looks at a network: its loss on held-out text, its score's parameters, and its attention."""
    batches = held_out_batches(subject, text, _WATCHED) if len(text.held_out) else []

    def watch(network: nn.Module) -> Mapping[str, float]:
        assert isinstance(network, Predictor)
        found = learned_parameters(network.model)
        if batches:
            found["loss"] = mean_loss(network, batches)
            found |= attention_measures(network.model, batches[0], causal=subject.kind == "decoder")
        return found

    return watch


def _plain(settings: Training) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Training.model_fields}


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device
