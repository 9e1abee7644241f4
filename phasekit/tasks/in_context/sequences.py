"""Sequences of tokens: the copy task of the theory, and looking up what followed last time (induction)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from phasekit.tasks.in_context.base import TASKS, Array, Loss, Prompts, Shift, Task

#: Logit of the right class in the optimal answers; e^−30 is left to the others.
_SURE = 30.0


class Sequences(Task):
    """Tokens of a vocabulary, i.i.d., one-hot; the answer is another token of the prompt.

    Parameters
    ----------
    V : int
        Size of the vocabulary.
    """

    loss: ClassVar[Loss] = "cross-entropy"
    laws: ClassVar[tuple[str, ...]] = ("uniform", "zipf")
    shifts: ClassVar[frozenset[str]] = frozenset({"points", "law"})

    points: int = Field(default=16, ge=2, le=100_000)
    V: int = Field(default=8, ge=2, le=4096)

    @property
    def inputs(self) -> int:
        return self.V

    @property
    def outputs(self) -> int:
        return self.V

    def tokens_in(self, points: int) -> int:
        return points

    def make(self, draws: np.random.Generator, prompts: int, points: int, shift: Shift) -> Prompts:
        weights = 1 / np.arange(1, self.V + 1) if shift.law == "zipf" else np.ones(self.V)
        u = draws.random((points, prompts)).T
        tokens = np.minimum(np.searchsorted(np.cumsum(weights / weights.sum()), u, side="right"), self.V - 1)
        targets, counts = self.answers(tokens)
        one_hot = np.eye(self.V)[tokens]
        return Prompts(one_hot, np.arange(points), targets.astype(float), counts, one_hot)

    def answers(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the class to be answered at every token (prompts, points), and where there is one."""
        raise NotImplementedError

    def trivial(self, prompts: Prompts) -> Array:
        """Return equal logits for all classes."""
        return np.zeros((*prompts.targets.shape, self.V))

    def optimal(self, prompts: Prompts) -> Array:
        """Return the right class: nothing but earlier tokens decides it."""
        right: Array = _SURE * np.eye(self.V)[prompts.targets.astype(int)]
        return right


@TASKS.register
class Copy(Sequences):
    """Answer the token before: target of position i is token i − 1 (docs/theory.md, section 1).

    In the theory the first position is to answer the last token. A network that can't look ahead can't, so that
    position doesn't count here.
    """

    name: ClassVar[str] = "copy"

    def answers(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        return np.roll(tokens, 1, axis=1), np.tile(np.arange(tokens.shape[1]) > 0, (len(tokens), 1))


@TASKS.register
class Induction(Sequences):
    """Answer the token that followed when the present token occurred last; counts where it has occurred before."""

    name: ClassVar[str] = "induction"

    points: int = Field(default=32, ge=2, le=100_000)

    def answers(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        rows = np.arange(len(tokens))
        followed = np.full((len(tokens), self.V), -1)
        found = np.full(tokens.shape, -1)
        for i in range(tokens.shape[1]):
            if i:
                followed[rows, tokens[:, i - 1]] = tokens[:, i]
            found[:, i] = followed[rows, tokens[:, i]]
        return np.maximum(found, 0), found >= 0
