"""What is watched in a language model: the parameters of its score, and how near its heads are to one-hot."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import PreTrainedModel

from phasekit.language.batches import Batch
from phasekit.scores import learned_values

#: A row whose largest weight is above this counts as saturated.
ONE_HOT = 0.99


def learned_parameters(model: PreTrainedModel) -> dict[str, float]:
    """Return the score's parameters by name, layer and head: "n 0.3" is that of head 3 in layer 0.

    One number for all heads of a layer has no head: "n 0".
    """
    found: dict[str, float] = {}
    for layer, values in enumerate(learned_values(model).values()):
        for name, numbers in values.items():
            places = [f"{layer}"] if numbers.numel() == 1 else [f"{layer}.{head}" for head in range(numbers.numel())]
            found |= {f"{name} {place}": float(x) for place, x in zip(places, numbers.flatten(), strict=True)}
    return found


@torch.no_grad()
def attention_measures(model: PreTrainedModel, batch: Batch, *, causal: bool) -> dict[str, float]:
    """Return what attention does on a batch, by measure, layer and head.

    "mass" is the contextual mass, the weight of all keys but the winner; "entropy" that of a row in units of ln m for
    m visible keys; "saturated" the share of rows whose largest weight is above 0.99. Means over rows with at least two
    visible keys. Takes the explicit path of attention: not to be timed.
    """
    device = next(model.parameters()).device
    inputs, visible = (torch.from_numpy(array).to(device) for array in (batch.inputs, batch.visible))
    attentions = model(
        input_ids=inputs, attention_mask=visible.long(), output_attentions=True, use_cache=False
    ).attentions
    keys = visible[:, None, :].expand(-1, inputs.shape[1], -1)
    keys = keys.tril() if causal else keys
    rows = visible & (keys.sum(-1) > 1)
    return {
        f"{name} {layer}.{head}": float(x)
        for layer, weights in enumerate(attentions)
        for name, numbers in _measured(weights.transpose(0, 1)[:, rows], keys[rows].sum(-1))
        for head, x in enumerate(numbers)
    }


def _measured(rows: Tensor, keys: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield means over rows of weights (heads, rows, keys), each with so many visible keys (rows,)."""
    largest = rows.amax(-1)
    yield "mass", (1 - largest).mean(-1)
    yield "entropy", (-torch.special.xlogy(rows, rows).sum(-1) / keys.to(rows.dtype).log()).mean(-1)
    yield "saturated", (largest > ONE_HOT).to(rows.dtype).mean(-1)
