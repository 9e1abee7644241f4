"""The induction task's data: sequences of distinct tokens, each with one query (docs/induction.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Induction, Model
from phasekit.streams import stream
from phasekit.tasks.copy import Dataset, check_room, number_of_sequences


@dataclass(frozen=True, eq=False)
class Questions(Dataset):
    """Sequences, and at which position each holds its query token.

    Attributes
    ----------
    query : integer array, shape (P,)
        The query of a sequence is its token there; the target is the token after it, cyclically.
    """

    query: NDArray[np.int64]

    @property
    def asked(self) -> NDArray[Any]:
        """The query tokens, shape (P,)."""
        return np.take_along_axis(self.tokens, self.query[:, None], 1)[:, 0]

    @property
    def targets(self) -> NDArray[Any]:
        """The tokens to be predicted, shape (P,)."""
        return np.take_along_axis(self.tokens, self.after[:, None], 1)[:, 0]

    @property
    def after(self) -> NDArray[np.int64]:
        """The positions of the targets, shape (P,)."""
        return np.asarray((self.query + 1) % self.tokens.shape[1])


def draw_questions(model: Model, seed: int) -> Questions:
    """Draw P sequences of L distinct tokens in random order, and a query of each.

    The draw is keyed by (seed, V, L, P), as that of the copy task.

    Raises
    ------
    InputError
        As :func:`phasekit.tasks.copy.draw_dataset`, and if some questions are for layer 1 alone.
    """
    assert isinstance(model.task, Induction)
    if model.task.weight:
        raise InputError("weight", model.task.weight, "must be 0: networks have no questions of layer 1 alone yet")
    check_room(model)
    P = number_of_sequences(model)
    random = stream("questions", seed, model.V, model.L, P)
    everything = np.tile(np.arange(model.V, dtype=np.min_scalar_type(model.V - 1)), (P, 1))
    tokens = np.ascontiguousarray(random.permuted(everything, axis=1)[:, : model.L])
    return Questions(model, tokens, int(seed), random.integers(model.L, size=P))
