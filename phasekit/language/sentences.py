"""Sentences as rows of tokens, in batches of one length: nothing is padded, so no score can depend on padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from phasekit.errors import InputError

Row = tuple[int, ...]

#: Numbers that a batch of logits may have: 256 MiB in float32.
_LOGITS = 2**26
#: What transformers' models call embeddings of learned positions.
_POSITIONS = ("position_embeddings", "embed_positions", "wpe")


def is_encoder(model: PreTrainedModel) -> bool:
    """Whether a model guesses masked tokens; others predict the next one."""
    return "MaskedLM" in type(model).__name__


def rows_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> list[Row]:
    """Return the tokens of sentences, each between <s> and </s>.

    Raises
    ------
    InputError
        For a sentence without tokens, a tokenizer that knows no <s> or </s>, or tokens that the model doesn't know.
    """
    begin, end = marked(tokenizer, "bos_token"), marked(tokenizer, "eos_token")
    known = int(model.get_input_embeddings().weight.shape[0])  # type: ignore[index]
    rows = []
    encoded = tokenizer(list(sentences), add_special_tokens=False)["input_ids"] if len(sentences) else []
    for sentence, tokens in zip(sentences, encoded, strict=True):
        if not tokens:
            raise InputError("sentence", sentence, "has no tokens")
        row = (begin, *tokens, end)
        if max(row) >= known:
            raise InputError("tokenizer", max(row), f"the model has tokens 0 to {known - 1}; it belongs to another")
        rows.append(row)
    return rows


def marked(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    """Return the id of a special token: ``bos_token``, ``eos_token`` or ``mask_token``.

    Raises
    ------
    InputError
        If the tokenizer has none.
    """
    found = getattr(tokenizer, f"{name}_id")
    if found is None:
        raise InputError("tokenizer", type(tokenizer).__name__, f"has no {name}")
    return int(found)


def longest(model: PreTrainedModel) -> int | None:
    """Return how many tokens a model has learned positions for; None if its positions go on (rotary ones)."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in _POSITIONS:
            skipped = 0 if module.padding_idx is None else module.padding_idx + 1  # RoBERTa counts from behind padding
            return module.num_embeddings - skipped
    return None


def of_equal_length(model: PreTrainedModel, rows: Sequence[Row], batch: int) -> Iterator[NDArray[np.int64]]:
    """Yield integer arrays (rows, tokens) that hold each different row once, in batches that memory has room for.

    Raises
    ------
    InputError
        If a row is longer than the positions that the model has learned.
    """
    most, need = longest(model), max(map(len, rows), default=0)
    if most is not None and need > most:
        raise InputError("length", need, f"the model has learned {most} positions")
    vocabulary = model.config.get_text_config().vocab_size
    by_length: dict[int, list[Row]] = {}
    for row in dict.fromkeys(rows):
        by_length.setdefault(len(row), []).append(row)
    for length, found in sorted(by_length.items()):
        size = max(1, min(batch, _LOGITS // (length * vocabulary)))
        for start in range(0, len(found), size):
            yield np.array(found[start : start + size], dtype=np.int64)


@contextmanager
def examined(model: PreTrainedModel) -> Iterator[None]:
    """Put a model into evaluation mode, without gradients, and back into its own at the end."""
    training = model.training
    model.eval()  # type: ignore[no-untyped-call]
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
