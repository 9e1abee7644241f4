"""A text as numbers: tokenized once, split into what is trained on and what never is, kept on disk.

A document is held out by a hash of its words, so that the same sentence, said twice, is never on both sides; the rest
of the text doesn't matter. What is prepared lies in the cache folder (``PHASEKIT_CACHE``, else the user's) and is
mapped into memory: workers share it, and a corpus may be larger than memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from tokenizers import Tokenizer

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.files import output_folder
from phasekit.language.text import Text, digest, documents
from phasekit.language.tokenizer import load_tokenizer, train_tokenizer

#: The folder of prepared texts.
CACHE = "PHASEKIT_CACHE"
_FORMAT = "phasekit corpus 1"
#: Documents that are tokenized at once.
_AT_ONCE = 10_000


class Corpus(Description):
    """A text, its tokens, and what of it is held out.

    Parameters
    ----------
    text : Text, its source, or a mapping
    vocabulary : int
        Tokens of the byte-level BPE that is trained on what isn't held out.
    tokenizer : str, optional
        A file ``tokenizer.json`` to take instead.
    held_out : float
        Share of documents that no training batch contains.
    """

    text: Text
    vocabulary: int = Field(default=4096, ge=1)
    tokenizer: str | None = None
    held_out: float = Field(default=0.02, ge=0, lt=1)

    @field_validator("text", mode="before")
    @classmethod
    def _read_text(cls, given: Any) -> Any:
        return Text(source=given) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one_tokenizer(self) -> Corpus:
        if self.tokenizer is not None and "vocabulary" in self.model_fields_set and self.vocabulary != 4096:
            raise InputError("vocabulary", self.vocabulary, "is that of the tokenizer; leave one of them out")
        return self


@dataclass(frozen=True)
class Documents:
    """Documents one behind the other, without special tokens.

    Attributes
    ----------
    tokens : array, shape (tokens,)
    starts : integer array, shape (documents + 1,)
        Document k is ``tokens[starts[k]:starts[k + 1]]``.
    """

    tokens: NDArray[Any]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, k: int) -> NDArray[np.int64]:
        return np.asarray(self.tokens[self.starts[k] : self.starts[k + 1]], dtype=np.int64)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return int(np.diff(self.starts).max(initial=0))


@dataclass(frozen=True)
class Prepared:
    """A corpus that can be trained on.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer
    train, held_out : Documents
    digest : str
        What tells its text from another.
    """

    tokenizer: Tokenizer
    train: Documents
    held_out: Documents
    digest: str

    @property
    def vocabulary(self) -> int:
        """Tokens that there are."""
        return int(self.tokenizer.get_vocab_size())


def prepare(corpus: Corpus) -> Prepared:
    """Return a corpus as numbers; the first time, read and tokenize it.

    Raises
    ------
    InputError
        If the text or the tokenizer can't be read, or nothing is left to train on.
    """
    text = digest(corpus.text)
    own = {"format": _FORMAT, "corpus": corpus.describe(), "digest": text}
    if corpus.tokenizer is not None:
        own["tokenizer"] = hashlib.sha256(load_tokenizer(corpus.tokenizer).to_str().encode()).hexdigest()
    name = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:24]
    folder = cache_folder() / name
    if not folder.exists():
        _write(corpus, folder, own)
    return _read(folder, text)


def cache_folder() -> Path:
    """Return the folder that prepared texts lie in."""
    given = os.environ.get(CACHE)
    return Path(given) if given else Path.home() / ".cache" / "phasekit"


def is_held_out(document: str, share: float) -> bool:
    """Whether a document is held out: by its words alone."""
    return _drawn(document) < share * 2**64


def not_trained_on(corpus: Corpus, found: Iterable[str]) -> list[str]:
    """Return those of some documents, of this text or another, that no training batch of a corpus contains.

    Raises
    ------
    InputError
        If the corpus's text can't be read: what was trained on is known by its words.
    """
    given = list(found)
    drawn = np.array([_drawn(document) for document in given], dtype=np.uint64)
    known = np.isin(drawn, _trained_on(corpus, digest(corpus.text)))
    return [document for document, seen in zip(given, known, strict=True) if not seen]


def _drawn(document: str) -> int:
    """Return a number of 64 bits that only a document's words decide."""
    return int.from_bytes(hashlib.blake2b(document.encode(), digest_size=8, person=b"held out").digest(), "big")


@lru_cache(maxsize=2)
def _trained_on(corpus: Corpus, _: str) -> NDArray[np.uint64]:
    """Return the numbers of all documents that are trained on: eight bytes for each, however long it is.

    The digest of the text is an argument, so that a file that has changed is read again.
    """
    drawn = (_drawn(document) for document in documents(corpus.text) if not is_held_out(document, corpus.held_out))
    return np.unique(np.fromiter(drawn, dtype=np.uint64))


@lru_cache(maxsize=4)
def _read(folder: Path, text: str) -> Prepared:
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    parts = [
        Documents(np.load(folder / f"{part}.npy", mmap_mode="r"), np.load(folder / f"{part}_starts.npy"))
        for part in ("train", "held_out")
    ]
    return Prepared(tokenizer, parts[0], parts[1], text)


def _write(corpus: Corpus, folder: Path, about: dict[str, Any]) -> None:
    """Prepare a corpus beside its folder, and move it there whole; who comes second uses what is there."""
    share = corpus.held_out
    if corpus.tokenizer is None:
        kept = (document for document in documents(corpus.text) if not is_held_out(document, share))
        tokenizer = train_tokenizer(kept, corpus.vocabulary)
    else:
        tokenizer = load_tokenizer(corpus.tokenizer)
    beside = Path(mkdtemp(dir=output_folder(folder.parent), prefix=".being-prepared-"))
    try:
        counts = {"train": 0, "held_out": 0}
        files = {part: open(beside / f"{part}.bin", "wb") for part in counts}  # noqa: SIM115
        lengths: dict[str, list[int]] = {part: [] for part in counts}
        dtype = np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.uint32
        for document, tokens in _tokenized(tokenizer, documents(corpus.text)):
            part = "held_out" if is_held_out(document, share) else "train"
            np.asarray(tokens, dtype=dtype).tofile(files[part])
            lengths[part].append(len(tokens))
        for part, file in files.items():
            file.close()
            raw = beside / f"{part}.bin"
            np.save(beside / f"{part}.npy", np.fromfile(raw, dtype=dtype))
            raw.unlink()
            np.save(beside / f"{part}_starts.npy", np.cumsum([0, *lengths[part]], dtype=np.int64))
        if not lengths["train"]:
            raise InputError("text", corpus.text.source, f"has nothing left to train on ({share:.0%} are held out)")
        tokenizer.save(str(beside / "tokenizer.json"))
        (beside / "about.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
        try:
            beside.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _tokenized(tokenizer: Tokenizer, found: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    left = iter(found)
    while some := list(islice(left, _AT_ONCE)):
        encoded = tokenizer.encode_batch(some, add_special_tokens=False)
        yield from zip(some, (one.ids for one in encoded), strict=True)
