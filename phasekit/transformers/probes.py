"""How far the attention of a trained network is saturated, row by row, beside what the theorems allow at its gaps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasekit.saturation import get_theorem
from phasekit.scores import SSA, Score, Softmax, TemperatureSoftmax
from phasekit.tasks.in_context import Prompts
from phasekit.transformers.decoder import Attention, Decoder
from phasekit.transformers.in_context import answer

Array = NDArray[np.float64]

#: What is measured of a row with m keys, winner i* and gap Δ between the two largest logits.
MEASURES = {
    "gap": "Δ, before the score",
    "largest": "the largest weight",
    "mass": "contextual mass: the weight of all keys but the winner, 1 − p_i*",
    "lower": "the theorem's lower bound on that mass at this gap",
    "upper": "its upper bound",
    "entropy": "−Σ p ln p, in units of ln m",
    "gradient": "Σ |∂p_i*/∂z_j| over j ≠ i*: what reaches the other keys",
}


@dataclass(frozen=True)
class Probe:
    """Rows of attention of one batch of prompts.

    Attributes
    ----------
    rows : name of :data:`MEASURES` to array, shape (layers, heads, prompts, answers)
        Of the rows at the places of answers. NaN where a row has one key only, or there is no theorem.
    beyond : float
        How far a mass lies outside its bounds at most, relative to it: rounding, if the theorem is right.
    """

    rows: dict[str, Array]
    beyond: float

    def means(self) -> Array:
        """Return means over prompts and answers, shape (layers, heads, measures)."""
        return np.stack([np.nanmean(self.rows[name], axis=(2, 3)) for name in MEASURES], axis=-1)

    @property
    def mass_of_prompts(self) -> Array:
        """Contextual mass, the mean over a prompt's answers, shape (prompts, layers, heads)."""
        return np.moveaxis(np.nanmean(self.rows["mass"], axis=3), 2, 0)


@torch.no_grad()
def probe(model: Decoder, prompts: Prompts) -> Probe:
    """Measure the attention rows of a network on prompts, in float64.

    Places with one visible key are left out: there is nothing to attend to but the winner.
    """
    double = deepcopy(model).double()
    with _watched(double) as seen:
        answer(double, prompts, at_once=len(prompts.tokens))
    layers = [_measure(attention, x, prompts.places) for attention, x in seen]
    rows = {name: np.stack([layer[name] for layer in layers]) for name in MEASURES}
    low, high, mass = rows["lower"], rows["upper"], rows["mass"]
    known = np.isfinite(low) & (mass > 0)
    beyond = np.maximum(low - mass, mass - high)[known] / mass[known]
    return Probe(rows, float(beyond.max()) if beyond.size else float("nan"))


@torch.no_grad()
def attention_rows(model: Decoder, prompts: Prompts) -> Array:
    """Return the attention weights of the rows at the places of answers, (layers, heads, prompts, answers, tokens)."""
    double = deepcopy(model).double()
    with _watched(double) as seen:
        answer(double, prompts, at_once=len(prompts.tokens))
    rows = [_weights(attention, x)[0].transpose(0, 1)[:, :, prompts.places] for attention, x in seen]
    return torch.stack(rows).cpu().numpy()


@contextmanager
def _watched(model: Decoder) -> Iterator[list[tuple[Attention, Tensor]]]:
    """Keep what goes into each attention layer."""
    seen: list[tuple[Attention, Tensor]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda own, given: seen.append((own, given[0]))) for layer in model.attentions
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _measure(attention: Attention, x: Tensor, places: NDArray[np.int64]) -> dict[str, Array]:
    """Return the measures of one layer, (heads, prompts, answers) each."""
    score, parameters = attention.scored.score, attention.scored.parameter_values()
    weights, logits, past = _weights(attention, x)
    winner = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    top = logits.masked_fill(~past, -torch.inf).topk(min(2, logits.shape[-1]), dim=-1).values
    entropy = -torch.special.xlogy(weights, weights).sum(-1) / past.sum(-1).to(weights.dtype).log()
    found = {
        "gap": top[..., 0] - top[..., -1],
        "largest": weights.amax(-1),
        "mass": (weights * (1 - winner)).sum(-1),
        "entropy": entropy,
    }
    if score.uses_logits:
        reached = score.pull_back(logits, weights, winner, past, parameters)
        found["gradient"] = (reached * (1 - winner)).abs().sum(-1)
    rows = {name: values.transpose(0, 1)[..., places].cpu().numpy() for name, values in found.items()}
    rows = {name: np.where(places > 0, values, np.nan) for name, values in rows.items()}
    nothing = np.full(rows["mass"].shape, np.nan)
    bounds = _bounds(score, parameters, logits.transpose(0, 1).cpu().numpy(), places)
    return {**dict.fromkeys(MEASURES, nothing), **rows, "lower": bounds[0], "upper": bounds[1]}


def _weights(attention: Attention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights and logits (prompts, heads, tokens, tokens) of a layer, and what each token may see."""
    query, key, _ = attention.project(x)
    past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
    trained = attention.scored
    weights = trained.score.attention_weights(query, key, mask=past, parameters=trained.parameter_values())
    return weights, query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, past


def _bounds(
    score: Score, parameters: dict[str, Tensor] | None, logits: Array, places: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return Theorem 2's bounds on the contextual mass of rows (heads, prompts, answers)."""
    heads, prompts = logits.shape[:2]
    low, high = (np.full((heads, prompts, len(places)), np.nan) for _ in range(2))
    values: dict[str, Any] = {name: getattr(score, name) for name in score.learnable}
    if parameters is not None:
        values = {name: value.cpu().numpy()[:, 0, 0] for name, value in parameters.items()}
    own = {name: np.broadcast_to(value, heads) for name, value in values.items()}
    if not isinstance(score, SSA | Softmax | TemperatureSoftmax):
        return low, high
    theorem = get_theorem("ssa-imbalance" if isinstance(score, SSA) else "softmax-imbalance")
    for head in range(heads):
        numbers = {name: float(own[name][head]) for name in ("n", "b") if name in own}
        for k, place in enumerate(places):
            row = np.sort(logits[head, :, place, : place + 1], axis=-1)[:, ::-1] / float(
                own.get("T", np.ones(heads))[head]
            )
            if place == 0:
                continue
            gap = row[:, 0] - row[:, 1]
            told = gap > 0
            if told.any():
                lower, upper = theorem.bounds(others=row[told, 1:], gap=gap[told], **numbers)
                low[head, told, k], high[head, told, k] = np.exp(lower[:, 0]), np.exp(upper[:, 0])
    return low, high
