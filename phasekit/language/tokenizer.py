"""Byte-level BPE tokenizers (R. Sennrich et al., arXiv:1508.07909): trained on a text, or taken from a file.

The work is that of ``tokenizers``; here stand the special tokens, which all models of this room share.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from phasekit.errors import InputError

#: Special tokens, in the order of their ids (RoBERTa's order).
SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
BEGIN, PAD, END, UNKNOWN, MASK = range(5)
#: Bytes and special tokens: no vocabulary is smaller.
SMALLEST = 256 + len(SPECIAL)
#: A tokenizer is trained on so many documents at most.
_MOST_DOCUMENTS = 1_000_000


def train_tokenizer(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level BPE tokenizer that was trained on documents; the same ones give the same tokenizer.

    Parameters
    ----------
    documents : iterable of str
    vocabulary : int
        Tokens at most, with bytes and special ones; a small text may give fewer.

    Raises
    ------
    InputError
        If the vocabulary has no room for all bytes.
    """
    if vocabulary < SMALLEST:
        raise InputError("vocabulary", vocabulary, f"must be at least {SMALLEST}: all bytes and the special tokens")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(islice(documents, _MOST_DOCUMENTS), trainer)
    return _framed(tokenizer)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Return the tokenizer of a file ``tokenizer.json``.

    Raises
    ------
    InputError
        If it can't be read, or has other special tokens than this room's models.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise InputError("tokenizer", str(path), f"can't be read ({str(error).splitlines()[0]})") from None
    found = [tokenizer.token_to_id(word) for word in SPECIAL.values()]
    if found != list(range(len(SPECIAL))):
        raise InputError("tokenizer", str(path), f"must have {', '.join(SPECIAL.values())} as tokens 0 to 4")
    return _framed(tokenizer)


def wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Return a tokenizer as models of transformers expect it."""
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)  # type: ignore[no-untyped-call]


def _framed(tokenizer: Tokenizer) -> Tokenizer:
    """Let a document begin with <s> and end with </s>."""
    marks = [(SPECIAL["bos_token"], BEGIN), (SPECIAL["eos_token"], END)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=marks)
    return tokenizer
