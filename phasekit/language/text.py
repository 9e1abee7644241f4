"""Texts: local files, or streams of ``datasets``, as one document after another."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from pydantic import Field, model_validator

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.extras import require

#: The folder that names of texts are looked up in, if it is set; else they are looked up where one stands.
FOLDER = "PHASEKIT_TEXT"
#: What the name of a dataset on a hub begins with.
STREAM = "hf:"


class Text(Description):
    """A text, and which part of it.

    Parameters
    ----------
    source : str
        A file, one document a line (``.txt``), or one JSON object a line (``.jsonl``), either compressed (``.gz``); or
        ``hf:NAME`` and ``hf:NAME:CONFIGURATION``, a dataset that ``datasets`` streams
        (``hf:HuggingFaceFW/fineweb-edu:sample-10BT``). Names of files are looked up in the folder ``PHASEKIT_TEXT``.
    sha256 : str, optional
        What the file's SHA-256 must begin with, so that a result says which text it comes from.
    column : str
        Of JSON objects and datasets: where the text stands.
    least_words : int
        Documents of fewer words are left out.
    most : int, optional
        Documents that are taken, after those that are left out; a stream needs it.
    first, last : float
        The part of the documents that is taken, as shares of their number: 0 and 0.5 are the first half, which in a
        text in the order of age is that of the younger children. Streams have no known end, and no parts.
    """

    source: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{8,64}$")
    column: str = "text"
    least_words: int = Field(default=1, ge=1)
    most: int | None = Field(default=None, ge=1)
    first: float = Field(default=0.0, ge=0, lt=1)
    last: float = Field(default=1.0, gt=0, le=1)

    @model_validator(mode="after")
    def _has_an_end(self) -> Text:
        if self.first >= self.last:
            raise InputError("last", self.last, f"must be above first = {self.first}")
        if self.is_stream and self.most is None:
            raise InputError("most", None, f"{self.source} may never end; say how many documents to take")
        if self.is_stream and (self.first, self.last) != (0.0, 1.0):
            raise InputError("first", self.first, "a stream has no known end, so no part of it can be taken")
        if self.is_stream and self.sha256 is not None:
            raise InputError("sha256", self.sha256, "only files have one")
        return self

    @property
    def is_stream(self) -> bool:
        """Whether it comes from a hub."""
        return self.source.startswith(STREAM)

    @property
    def path(self) -> Path:
        """Where the file is, if it is one."""
        return Path(os.environ.get(FOLDER, "")) / self.source


def documents(text: Text) -> Iterator[str]:
    """Yield the documents of a text in their order, with single spaces between words.

    Raises
    ------
    InputError
        If there is no such file, it isn't UTF-8 or not JSON, isn't the text that was meant, or no document is left.
    """
    found = (" ".join(document.split()) for document in _all(text))
    kept: Iterable[str] = islice((one for one in found if len(one.split()) >= text.least_words), text.most)
    if (text.first, text.last) != (0.0, 1.0):
        whole = list(kept)
        kept = whole[round(text.first * len(whole)) : round(text.last * len(whole))]
    nothing = True
    for document in kept:
        nothing = False
        yield document
    if nothing:
        raise InputError("text", text.source, f"has no document of at least {text.least_words} words in this part")


def spread(documents: list[str], most: int) -> list[str]:
    """Return so many documents at most, evenly spread over all."""
    count = len(documents)
    return [documents[k * count // most] for k in range(most)] if most < count else documents


def digest(text: Text) -> str:
    """Return what tells one text from another: the SHA-256 of the file, or the name of a stream.

    Raises
    ------
    InputError
        If there is no such file, or it isn't the one that was meant.
    """
    if text.is_stream:
        return text.source
    try:
        found = hashlib.sha256(text.path.read_bytes()).hexdigest()
    except OSError as error:
        hint = "" if os.environ.get(FOLDER) else f"; {FOLDER} may name the folder that texts lie in"
        raise InputError("text", str(text.path), f"can't be read ({error.strerror}){hint}") from None
    if text.sha256 is not None and not found.startswith(text.sha256):
        raise InputError("text", text.source, f"is another: its SHA-256 begins with {found[:8]}, not {text.sha256}")
    return found


def _all(text: Text) -> Iterator[str]:
    if text.is_stream:
        return _streamed(text)
    digest(text)
    suffixes = text.path.suffixes
    return _objects(text) if ".jsonl" in suffixes or ".json" in suffixes else _lines(text)


@contextmanager
def _opened(text: Text) -> Iterator[TextIO]:
    opener: Any = gzip.open if text.path.suffix == ".gz" else open
    try:
        with opener(text.path, "rt", encoding="utf-8") as file:
            yield file
    except UnicodeDecodeError as error:
        raise InputError("text", text.source, f"isn't UTF-8 (byte {error.object[error.start]:#x})") from None
    except (OSError, EOFError) as error:
        raise InputError("text", text.source, f"can't be read ({error})") from None


def _lines(text: Text) -> Iterator[str]:
    with _opened(text) as file:
        yield from file


def _objects(text: Text) -> Iterator[str]:
    with _opened(text) as file:
        for number, line in enumerate(file, start=1):
            try:
                found = json.loads(line)[text.column]
            except (json.JSONDecodeError, KeyError, TypeError, IndexError):
                allowed = f"line {number} must be a JSON object with text under {text.column!r}"
                raise InputError("text", text.source, allowed) from None
            yield str(found)


def _streamed(text: Text) -> Iterator[str]:
    require("datasets")
    import datasets

    name, _, configuration = text.source.removeprefix(STREAM).partition(":")
    try:
        stream = datasets.load_dataset(name, configuration or None, split="train", streaming=True)
        for row in stream:
            yield str(row[text.column])
    except KeyError:
        raise InputError("column", text.column, f"{text.source} has no such column") from None
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).splitlines()[0]
        raise InputError("text", text.source, f"can't be streamed ({reason})") from None
