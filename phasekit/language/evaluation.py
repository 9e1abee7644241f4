"""Everything that a trained model was tested on, pair by pair and document by document, so that arms can be paired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from phasekit.errors import InputError
from phasekit.files import atomic
from phasekit.language.likelihood import BATCH, scorers
from phasekit.language.pairs import TIE, Paradigm, score_pairs
from phasekit.language.perplexity import Perplexity, perplexity

#: First words of the names under which arrays are kept: "right SCORE PARADIGM", "text NAME", "text NAME LENGTH".
_RIGHT, _TEXT = "right", "text"


@dataclass(frozen=True)
class Evaluation:
    """What a model was tested on.

    Attributes
    ----------
    pairs : score to paradigm to array, shape (pairs,)
        1 for each pair that is judged rightly, ½ for a tie, 0 for the others.
    texts : name to Perplexity
        Behind the name of a text that was cut into blocks stands their length: "held out 128".
    """

    pairs: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    texts: dict[str, Perplexity] = field(default_factory=dict)

    def ties(self, score: str) -> int:
        """Return how many pairs of all paradigms are ties."""
        return int(sum((judged == TIE).sum() for judged in self.pairs[score].values()))

    def joined(self, other: Evaluation) -> Evaluation:
        """Return both together; what both have is taken from the other."""
        pairs = {score: {**self.pairs.get(score, {}), **found} for score, found in other.pairs.items()}
        return Evaluation({**self.pairs, **pairs}, {**self.texts, **other.texts})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all of it as small arrays by name, for a store or a file; :meth:`of` takes them back."""
        found: dict[str, NDArray[Any]] = {}
        for score, paradigms in self.pairs.items():
            found |= {f"{_RIGHT} {score} {name}": right.astype(np.float16) for name, right in paradigms.items()}
        for name, text in self.texts.items():
            found[f"{_TEXT} {name}"] = np.stack([text.nats, text.tokens]).astype(np.float32)
        return found

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Evaluation:
        """Return the evaluation in these arrays; others among them are left alone."""
        found = cls()
        for key, values in arrays.items():
            what, _, name = key.partition(" ")
            if what == _RIGHT:
                score, _, paradigm = name.partition(" ")
                found.pairs.setdefault(score, {})[paradigm] = values.astype(float)
            elif what == _TEXT:
                unit = "block" if name.rpartition(" ")[2].isdigit() else "document"
                found.texts[name] = Perplexity(values[0].astype(float), values[1].astype(np.int64), unit)
        return found

    def save(self, file: Path) -> None:
        """Write it as .npz, whole or not at all."""
        arrays: Any = self.arrays()
        with atomic(file) as temporary:
            np.savez_compressed(temporary, **arrays)

    @classmethod
    def read(cls, file: Path) -> Evaluation:
        """Return what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file can't be read.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return cls.of(arrays)
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise InputError("evaluation", str(file), f"can't be read ({error})") from None


def examine(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    paradigms: Sequence[Paradigm] = (),
    texts: Mapping[str, Sequence[str]] | None = None,
    lengths: Sequence[int] = (),
    batch: int = BATCH,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge minimal pairs by each score that the model has, and measure its perplexity on texts.

    Parameters
    ----------
    model, tokenizer
    paradigms : sequence of Paradigm
    texts : mapping of name to documents, optional
    lengths : sequence of int
        Blocks of so many tokens, in which a decoder sees texts; none: each document by itself.
    batch : int
        Sentences at once.
    progress : callable, optional
        Called with what is done next.

    Raises
    ------
    InputError
        As the scores and :func:`phasekit.language.perplexity.perplexity` do.
    """
    found = Evaluation()
    tell = progress or (lambda _: None)
    for score, scorer in scorers(model, tokenizer, batch).items():
        for paradigm in paradigms:
            tell(f"{paradigm.name}, {score}")
            found.pairs.setdefault(score, {})[paradigm.name] = score_pairs(scorer, paradigm)
    for name, documents in (texts or {}).items():
        for length in lengths or (None,):
            label = name if length is None else f"{name} {length}"
            tell(label)
            found.texts[label] = perplexity(model, tokenizer, documents, length=length, batch=batch)
    return found
