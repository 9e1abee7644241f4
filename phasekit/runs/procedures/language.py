"""A language model trained on a text, and examined on held-out and other text and on minimal pairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.language.corpus import is_held_out, prepare
from phasekit.language.evaluation import Evaluation, examine
from phasekit.language.models import parameter_count
from phasekit.language.pairs import TIE, read_paradigms
from phasekit.language.subject import LanguageModel
from phasekit.language.text import FOLDER, Text, documents, spread
from phasekit.language.tokenizer import wrapped
from phasekit.language.training import train_language
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Workplace
from phasekit.runs.procedures.icl import averaged
from phasekit.transformers.training import History, Training

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: Columns of a row, a test each; those that a test doesn't have are NaN.
_COLUMNS = ("loss", "loss_low", "loss_high", "accuracy", "ties", "items")


class LanguageTraining(Procedure, Training):
    """Train, then examine; a member is a test. The data seed is that of weights and batches.

    Parameters
    ----------
    steps, batch, rate, …
        See :class:`phasekit.transformers.training.Training`.
    order : "shuffled" or "given"
        Every epoch in an order of its own, or every epoch as the text has it (by age, say).
    watch_every : int
        Steps between two looks at the held-out loss, the score's parameters and its attention; 0: none.
    pairs : str, optional
        Folder of minimal pairs, looked up in ``PHASEKIT_TEXT``: a test for each file and each way to score a sentence.
    most_pairs : int, optional
        Pairs of each file at most.
    texts : tuple of Text
        Further texts that perplexity is measured on, beside the one that was trained on. Of all of them, documents
        count that no batch of training could contain.
    most_documents : int
        Documents of a text that perplexity is measured on one by one, spread over it.
    lengths : tuple of int
        Lengths of blocks that perplexity is measured on too; longer than those of training, say. Decoders only.
    keep_weights : bool
        Whether the trained weights are kept, as arrays ``weights NAME``.
    """

    name: ClassVar[str] = "language"
    takes: ClassVar[type[Description]] = LanguageModel
    #: Training amplifies last digits, which differ between processors.
    residues: ClassVar[tuple[str, ...]] = _COLUMNS[:-1]

    order: Literal["shuffled", "given"] = "shuffled"
    watch_every: int = Field(default=100, ge=0)
    pairs: str | None = None
    most_pairs: int | None = Field(default=None, ge=1)
    texts: tuple[Text, ...] = ()
    most_documents: int = Field(default=2000, ge=1)
    lengths: tuple[int, ...] = ()
    keep_weights: bool = True

    @property
    def length(self) -> int:
        return self.steps

    def shortened(self, length: int) -> Procedure:
        changes = {"steps": length, "watch_every": 0, "pairs": None, "texts": (), "lengths": (), "most_documents": 1}
        return self.model_copy(update=changes)

    def check(self, model: LanguageModel) -> None:
        if not model.corpus.held_out:
            raise InputError("held_out", model.corpus.held_out, "must be above 0: models are examined on what is")
        if self.lengths and model.kind == "encoder":
            raise InputError("lengths", self.lengths, "encoders see sentences, not blocks; leave it out")

    def require(self, model: LanguageModel) -> None:
        text = prepare(model.corpus)
        model.examples_of(text.train)
        if not len(text.held_out):
            raise InputError("held_out", model.corpus.held_out, "so small that no document was held out")
        self._paradigms()
        for other in self.texts:
            next(documents(other))

    def operations(self, model: LanguageModel) -> float:
        shape = model.shape
        tokens = model.length or shape.longest if model.cut == "blocks" else 10
        layer = 4 * shape.width**2 + 2 * shape.hidden * shape.width + 2 * tokens * shape.width
        read_out = model.corpus.vocabulary * shape.width
        return 3.0 * self.steps * self.accumulate * self.batch * tokens * (shape.layers * layer + read_out)

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        # one file holds one network: with several, only whole networks are saved, by the store
        checkpoint = place.checkpoint if len(cases) == 1 else None

        def trained(subject: LanguageModel, seed: int) -> tuple[PreTrainedModel, History]:
            return train_language(
                subject,
                self,
                seed=seed,
                order=self.order,
                device=place.device,
                watch_every=self.watch_every,
                checkpoint=checkpoint,
                pause=place.pause,
            )

        return [self._outcome(subject, *place.resuming(partial(trained, subject, seed))) for subject, seed in cases]

    def _outcome(self, subject: LanguageModel, model: PreTrainedModel, history: History) -> Outcome:
        text = prepare(subject.corpus)
        found = self._examined(subject, model, wrapped(text.tokenizer))
        rows = rows_of(found)
        arrays: dict[str, Any] = {
            **found.arrays(),
            "loss": averaged(history.loss),
            "gradient_norm": averaged(history.gradient_norm),
            "watched_at": history.watched_at,
            **{f"watched_{name}": values.astype(np.float32) for name, values in history.watched.items()},
        }
        if self.keep_weights:
            arrays |= {f"weights {name}": value.cpu().numpy() for name, value in model.state_dict().items()}
        about = {
            "precision": self.precision,
            "parameters": parameter_count(model),
            "vocabulary": text.vocabulary,
            "text": text.digest,
            "training_tokens": len(text.train.tokens),
        }
        return Outcome({name: np.array([row[name] for row in rows]) for name in rows[0]}, arrays, about)

    def _examined(
        self, subject: LanguageModel, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> Evaluation:
        texts = {}
        for text in (subject.corpus.text, *self.texts):
            name = "held out" if text == subject.corpus.text else _name(text)
            texts[name] = [document for document in documents(text) if is_held_out(document, subject.corpus.held_out)]
        some = {name: spread(unseen, self.most_documents) for name, unseen in texts.items()}
        found = examine(model, tokenizer, paradigms=self._paradigms(), texts=some)
        return found.joined(examine(model, tokenizer, texts=texts, lengths=self.lengths)) if self.lengths else found

    def _paradigms(self) -> Any:
        if self.pairs is None:
            return ()
        return read_paradigms(Path(os.environ.get(FOLDER, "")) / self.pairs, most=self.most_pairs)


def rows_of(found: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each text, and for each file of pairs and way to score a sentence."""
    rows = []
    for name, text in found.texts.items():
        low, high = np.log(text.interval)
        told = {"loss": text.loss, "loss_low": low, "loss_high": high, "items": len(text.nats)}
        rows.append({"test": name, "way": "", **dict.fromkeys(_COLUMNS, np.nan), **told})
    for way, paradigms in found.pairs.items():
        for name, right in paradigms.items():
            told = {"accuracy": right.mean(), "ties": int((right == TIE).sum()), "items": len(right)}
            rows.append({"test": name, "way": way, **dict.fromkeys(_COLUMNS, np.nan), **told})
    return rows


def _name(text: Text) -> str:
    part = "" if (text.first, text.last) == (0.0, 1.0) else f" {text.first:g}-{text.last:g}"
    return f"{text.source}{part}"
