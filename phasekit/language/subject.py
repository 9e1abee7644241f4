"""The one description of a language model and its text, which sweeps, training and evaluation share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.language.batches import Blocks, Examples, Masking, Sentences
from phasekit.language.corpus import Corpus, Documents
from phasekit.language.shapes import Kind, Shape, get_shape
from phasekit.scores import Score, Softmax, get_score
from phasekit.transformers.decoder import Learned


class LanguageModel(Description):
    """A language model and the text that it is to learn.

    Parameters
    ----------
    corpus : Corpus, or a mapping
    shape : Shape, its name, or a mapping (``{preset = "decoder-1m", layers = 2}``)
    score : Score, its name, or a mapping
    learned : "head", "layer" or "no"
        Whether the score's parameters are learned, and how many of them.
    examples : "sentences" or "blocks", optional
        Whether each document is an example, or documents are cut into blocks. None: sentences for an encoder, blocks
        for a decoder.
    length : int, optional
        Tokens in a block; None: as many as the shape has positions.
    masking : Masking
        What an encoder has to guess; decoders have no use for it.

    Raises
    ------
    InputError
        One line that names the field, the value and what is allowed.
    """

    corpus: Corpus
    shape: Shape = Shape()
    score: SerializeAsAny[Score] = Softmax()
    learned: Learned = "head"
    examples: Literal["sentences", "blocks"] | None = None
    length: int | None = Field(default=None, ge=2)
    masking: Masking = Masking()

    if TYPE_CHECKING:  # shapes and scores may be their names

        def __init__(self, **fields: Any) -> None: ...

    @field_validator("shape", mode="before")
    @classmethod
    def _read_shape(cls, given: Any) -> Shape:
        return get_shape(given)

    @field_validator("score", mode="before")
    @classmethod
    def _read_score(cls, given: Any) -> Score:
        return get_score(given)

    @model_validator(mode="after")
    def _fits(self) -> LanguageModel:
        if self.length is not None and self.length > self.shape.longest:
            raise InputError("length", self.length, f"must be at most {self.shape.longest}, the positions of the model")
        if self.length is not None and self.cut == "sentences":
            raise InputError("length", self.length, "sentences have lengths of their own; take blocks")
        return self

    @property
    def kind(self) -> Kind:
        """Whether the next token is learned ("decoder"), or masked ones ("encoder")."""
        return self.shape.kind

    @property
    def cut(self) -> Literal["sentences", "blocks"]:
        """What an example is."""
        return self.examples or ("sentences" if self.kind == "encoder" else "blocks")

    def examples_of(self, documents: Documents) -> Examples:
        """Return documents as examples.

        Raises
        ------
        InputError
            If they are longer than the model's positions, or not enough.
        """
        if self.cut == "sentences":
            return Sentences(documents, self.shape.longest)
        return Blocks(documents, self.length or self.shape.longest)
