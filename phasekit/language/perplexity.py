"""Perplexity of a text: exp of the mean loss of a token, with intervals, and by how much context a token has.

Decoders see documents one by one, or packed into blocks as in training; where positions go on, blocks may be longer
than those trained on. Encoders have a pseudo-perplexity: each token is masked alone (arXiv:1910.14659).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.language.likelihood import log_p_masked, log_p_next
from phasekit.language.sentences import Row, is_encoder, longest, marked, of_equal_length, rows_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Perplexity:
    """The loss of a model on a text, by document (or block) and position.

    Attributes
    ----------
    nats : array, shape (units, bins)
        −ln p, summed over the tokens of a unit whose position lies in a bin.
    tokens : integer array, shape (units, bins)
        How many these are.
    unit : "document" or "block"
        What the intervals are over; units count as drawn independently of each other.
    """

    nats: Array
    tokens: NDArray[np.int64]
    unit: str

    @property
    def loss(self) -> float:
        """Mean loss of a token, in nats."""
        return float(self.nats.sum() / self.tokens.sum())

    @property
    def value(self) -> float:
        """The perplexity exp(loss)."""
        return float(np.exp(self.loss))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the perplexity over units."""
        return _interval(self.nats.sum(axis=1), self.tokens.sum(axis=1))

    def by_position(self) -> list[tuple[int, int, float, float, float]]:
        """Return (first position, last position, perplexity, low, high) for each bin that has tokens.

        The position of a token is how many come before it, <s> included (masked models: its place in the sentence).
        """
        rows = []
        for k, (first, end) in enumerate(pairwise(edges(self.nats.shape[1]))):
            has = self.tokens[:, k] > 0
            if has.any():
                nats, tokens = self.nats[has, k], self.tokens[has, k]
                rows.append((first, end - 1, float(np.exp(nats.sum() / tokens.sum())), *_interval(nats, tokens)))
        return rows


def perplexity(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents: Sequence[str],
    *,
    length: int | None = None,
    batch: int = 64,
) -> Perplexity:
    """Return the perplexity of a text.

    Parameters
    ----------
    model : PreTrainedModel
    tokenizer : PreTrainedTokenizerBase
    documents : sequence of str
    length : int, optional
        Tokens in a block, into which documents are packed, each between <s> and </s>; a rest is left out. None: each
        document by itself, its </s> counted for decoders; one that is longer than the model's positions (rotary ones:
        than it was configured with) is cut into pieces, which don't see each other.
    batch : int
        Documents or blocks at once.

    Raises
    ------
    InputError
        For no documents, too few tokens for one block, blocks for an encoder, blocks longer than the positions that the
        model has learned, and as :func:`phasekit.language.sentences.rows_of`.
    """
    if not len(documents):
        raise InputError("text", 0, "has no documents")
    if length is None:
        units = [_pieces(model, row) for row in rows_of(model, tokenizer, documents)]
    else:
        units = [[row] for row in _blocks(model, tokenizer, documents, length)]
    mask = marked(tokenizer, "mask_token") if is_encoder(model) else None
    found: dict[Row, Array] = {}
    for tokens in of_equal_length(model, list(chain.from_iterable(units)), batch):
        log_p = log_p_next(model, tokens) if mask is None else log_p_masked(model, tokens, mask)
        found.update(zip(map(tuple, tokens.tolist()), -log_p, strict=True))
    where = _bins(max(map(len, found.values())))
    nats, count = np.zeros((len(units), where[-1] + 1)), np.zeros((len(units), where[-1] + 1), dtype=np.int64)
    for k, loss in ((k, found[row]) for k, rows in enumerate(units) for row in rows):
        np.add.at(nats[k], where[: len(loss)], loss)
        np.add.at(count[k], where[: len(loss)], 1)
    return Perplexity(nats, count, "document" if length is None else "block")


def edges(bins: int) -> list[int]:
    """Return where bins of positions begin, and where the last one ends: 1, 2, 3, 4, 6, 8, 12, 16, 24, …"""
    steps = [2 ** (k // 2) * (2 + k % 2) // 2 for k in range(bins + 2)]
    return list(dict.fromkeys(steps))[: bins + 1]


def _bins(positions: int) -> NDArray[np.int64]:
    """Return the bin of each position from 1."""
    return np.searchsorted(edges(2 * positions.bit_length() + 2), np.arange(1, positions + 1), side="right") - 1


def _pieces(model: PreTrainedModel, row: Row) -> list[Row]:
    """Return a document as rows that the model has positions for; each token that it predicts is in one of them.

    A decoder's piece begins with the last token of the one before, an encoder's with <s> like a sentence.
    """
    most = longest(model) or int(model.config.get_text_config().max_position_embeddings)
    if len(row) <= most:
        return [row]
    if is_encoder(model):
        inner = row[1:-1]
        return [(row[0], *inner[start : start + most - 2], row[-1]) for start in range(0, len(inner), most - 2)]
    return [row[start : start + most] for start in range(0, len(row) - 1, most - 1)]


def _blocks(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, documents: Sequence[str], length: int
) -> list[Row]:
    whole_number("length", length, 2)
    if is_encoder(model):
        raise InputError("length", length, "encoders see sentences, not blocks; leave it out")
    tokens = list(chain.from_iterable(rows_of(model, tokenizer, documents)))
    if len(tokens) < length:
        raise InputError("length", length, f"the text has {len(tokens)} tokens, too few for one block")
    return [tuple(tokens[start : start + length]) for start in range(0, len(tokens) - length + 1, length)]


def _interval(nats: Array, tokens: NDArray[np.int64]) -> tuple[float, float]:
    """Return the 95 % interval of exp(Σ nats / Σ tokens): a ratio's error to first order; NaN for a single unit."""
    units, loss = len(nats), nats.sum() / tokens.sum()
    if units < 2:
        return float("nan"), float("nan")
    error = np.sqrt(units / (units - 1) * ((nats - loss * tokens) ** 2).sum()) / tokens.sum()
    reach = stats.t.ppf(0.975, units - 1) * error
    return float(np.exp(loss - reach)), float(np.exp(loss + reach))
