"""The copy task's data: token sequences, drawn by the model's token law (docs/theory.md, section 1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.streams import stream

Tokens = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """The training sequences of one model.

    Attributes
    ----------
    model : Model
        With P the number of sequences.
    tokens : integer array, shape (P, L)
        Values 0 … V - 1. The target of position i is token i - 1, cyclically.
    seed : int
        What the sequences were drawn from.
    """

    model: Model
    tokens: Tokens
    seed: int


def draw_dataset(model: Model, seed: int) -> Dataset:
    """Draw P sequences of L tokens by the model's token law (uniform ones, if it says nothing).

    The draw is keyed by (seed, V, L, P) and the law: models that differ only in score, inputs, mask, priors or
    temperature see the same sequences, models with another P see independent ones.

    Raises
    ------
    InputError
        If P was left out or is no whole number, the seed is no whole number of at least 0, or the sequences or the
        head's matrices don't fit into memory.
    """
    check_room(model)
    P = number_of_sequences(model)
    smallest = np.min_scalar_type(model.V - 1)
    purpose = "data" if model.tokens.uniform else f"data {json.dumps(model.tokens.describe(), sort_keys=True)}"
    random = stream(purpose, seed, model.V, model.L, P)
    tokens = model.tokens.draw(random, model.V, (P, model.L), smallest)
    return Dataset(model, tokens, int(seed))


def check_room(model: Model) -> None:
    """Refuse sequences, or a W or G, that nobody could store: before any work, which might take for ever.

    Raises
    ------
    InputError
        As :func:`draw_dataset` does.
    """
    P, L = number_of_sequences(model), model.L
    for name, value, shape in (("V", model.V, (model.V,) * 2), ("L", L, (L, L)), ("P", P, (P, L))):
        try:
            np.empty(shape, np.uint8 if name == "P" else float)  # is promised, not touched
        except (MemoryError, ValueError):
            what = f"{P} sequences of {L} tokens don't fit" if name == "P" else f"{name} × {name} numbers don't fit"
            raise InputError(name, value, f"{what} into memory") from None


def number_of_sequences(model: Model) -> int:
    """Return P as an integer.

    Raises
    ------
    InputError
        If P was left out or is no whole number.
    """
    if model.P is None or not model.P.is_integer():
        raise InputError("P", model.P, "networks need a whole number of training sequences")
    return round(model.P)
