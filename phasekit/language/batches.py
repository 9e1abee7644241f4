"""Batches by number: which documents they hold, and what is to be predicted in them.

A batch depends on its number and the seed, never on the model: arms of a comparison see the same batches, and a run
that was killed goes on with those that it would have seen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.language.corpus import Documents
from phasekit.language.tokenizer import BEGIN, END, MASK, PAD, SPECIAL
from phasekit.streams import stream

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class Batch:
    """Examples, and what is to be predicted.

    Attributes
    ----------
    inputs : integer array, shape (examples, tokens)
    visible : boolean array, the same shape
        False where an example has ended.
    targets : integer array, the same shape
        The token that belongs to each place: the next one, or the one that was masked.
    counts : boolean array, the same shape
        Where a prediction counts.
    """

    inputs: Integers
    visible: Truths
    targets: Integers
    counts: Truths

    def part(self, process: int, processes: int) -> Batch:
        """Return the rows that one of several processes computes; all rows are some process's."""
        own = slice(process, None, processes)
        return Batch(self.inputs[own], self.visible[own], self.targets[own], self.counts[own])

    @property
    def digest(self) -> str:
        """What tells one batch from another."""
        arrays = (self.inputs, self.visible, self.targets, self.counts)
        return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


class Masking(Description):
    """What an encoder has to guess (J. Devlin et al., arXiv:1810.04805).

    Parameters
    ----------
    share : float
        Of the tokens of a sentence, at least one, that count.
    random, kept : float
        Shares of those that a random token stands for, or that stay, instead of <mask>. BabyBERTa keeps none.
    """

    share: float = Field(default=0.15, gt=0, lt=1)
    random: float = Field(default=0.1, ge=0, le=1)
    kept: float = Field(default=0.0, ge=0, le=1)

    def apply(self, batch: Batch, vocabulary: int, draw: np.random.Generator) -> Batch:
        """Return a batch whose targets are the tokens that were masked."""
        own = batch.visible & (batch.inputs >= len(SPECIAL))
        u = np.where(own, draw.random(own.shape), 2.0)
        counts = u < self.share
        none = own.any(axis=1) & ~counts.any(axis=1)
        counts[none, u[none].argmin(axis=1)] = True
        what = draw.random(own.shape)
        others = draw.integers(len(SPECIAL), max(vocabulary, len(SPECIAL) + 1), own.shape)
        instead = np.where(what < self.random, others, np.where(what < self.random + self.kept, batch.inputs, MASK))
        return replace(batch, inputs=np.where(counts, instead, batch.inputs), targets=batch.inputs, counts=counts)


class Examples(Protocol):
    """Examples by number."""

    def __len__(self) -> int:
        """Return how many there are."""

    def batch(self, chosen: Integers) -> Batch:
        """Return some of them, with the next token as the target."""


class Sentences:
    """Each document is an example, from <s> to </s>, padded to the longest in its batch.

    Parameters
    ----------
    documents : Documents
    longest : int
        Tokens that a model has positions for.

    Raises
    ------
    InputError
        If a document is longer, or there is none.
    """

    def __init__(self, documents: Documents, longest: int) -> None:
        if documents.longest + 2 > longest:
            allowed = f"the longest document has {documents.longest + 2} tokens; take more positions, or blocks"
            raise InputError("longest", longest, allowed)
        if not len(documents):
            raise InputError("text", 0, "has no document")
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def batch(self, chosen: Integers) -> Batch:
        return framed([self.documents[int(k)] for k in chosen])


class Blocks:
    """Documents one behind the other, each between <s> and </s>, cut into blocks of equal length; a rest is left out.

    Raises
    ------
    InputError
        If there aren't enough tokens for one block.
    """

    def __init__(self, documents: Documents, length: int) -> None:
        count, self.length = len(documents), length
        lengths = np.diff(documents.starts)
        self.tokens = np.empty(len(documents.tokens) + 2 * count, dtype=documents.tokens.dtype)
        begins = documents.starts[:-1] + 2 * np.arange(count)
        own = np.ones(len(self.tokens), dtype=bool)
        ends = begins + lengths + 1
        own[begins] = own[ends] = False
        self.tokens[own], self.tokens[begins], self.tokens[ends] = documents.tokens, BEGIN, END
        if len(self.tokens) < length:
            raise InputError("length", length, f"the text has {len(self.tokens)} tokens, too few for one block")

    def __len__(self) -> int:
        return len(self.tokens) // self.length

    def batch(self, chosen: Integers) -> Batch:
        inputs = self.tokens[chosen[:, None] * self.length + np.arange(self.length)].astype(np.int64)
        return following(inputs, np.ones(inputs.shape, dtype=bool))


def framed(sentences: list[Integers]) -> Batch:
    """Return sentences between <s> and </s>, padded to the longest; the next token is the target."""
    longest = max(len(sentence) for sentence in sentences) + 2
    inputs = np.full((len(sentences), longest), PAD, dtype=np.int64)
    for row, sentence in zip(inputs, sentences, strict=True):
        row[: len(sentence) + 2] = [BEGIN, *sentence, END]
    lengths = np.array([len(sentence) + 2 for sentence in sentences])
    return following(inputs, np.arange(longest) < lengths[:, None])


def following(inputs: Integers, visible: Truths) -> Batch:
    """Return a batch in which each token is to be followed by the next; the last of an example predicts nothing."""
    targets, counts = np.full_like(inputs, PAD), np.zeros_like(visible)
    targets[:, :-1], counts[:, :-1] = inputs[:, 1:], visible[:, 1:] & visible[:, :-1]
    return Batch(inputs, visible, targets, counts)


@dataclass(frozen=True)
class Order:
    """Which examples a batch holds.

    Attributes
    ----------
    examples : int
    batch : int
        Examples in a batch.
    seed : int
    kind : "shuffled" or "given"
        Every epoch in an order of its own, or every epoch as the text has them.
    """

    examples: int
    batch: int
    seed: int
    kind: Literal["shuffled", "given"] = "shuffled"

    def __call__(self, number: int) -> Integers:
        """Return the examples of the batch of a number, counted from 0; epochs follow each other without a gap."""
        epochs, places = np.divmod(number * self.batch + np.arange(self.batch), self.examples)
        if self.kind == "given":
            return np.asarray(places)
        shuffles = {int(epoch): _shuffle(self.examples, self.seed, int(epoch)) for epoch in np.unique(epochs)}
        return np.array([shuffles[int(epoch)][place] for epoch, place in zip(epochs, places, strict=True)])


@lru_cache(maxsize=4)
def _shuffle(examples: int, seed: int, epoch: int) -> Integers:
    return stream("order of text", seed, epoch).permutation(examples)
