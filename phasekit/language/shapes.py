"""Shapes of language models: which model of transformers, and how large.

Nothing is built here, so that a sweep can be read and a parameter counted without importing transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from phasekit.describe import Description, preset_in
from phasekit.errors import InputError

Kind = Literal["decoder", "encoder"]
Family = Literal["nemotron", "gpt2", "babyberta"]

#: What a model of each family learns: the next token, or tokens that were masked.
KINDS: dict[str, Kind] = {"nemotron": "decoder", "gpt2": "decoder", "babyberta": "encoder"}


class Shape(Description):
    """The shape of a language model.

    Parameters
    ----------
    family : "nemotron", "gpt2" or "babyberta"
        Decoder with rotary positions on half of each head, LayerNorm, squared ReLU, no biases (Nemotron-4,
        arXiv:2402.16819); decoder with learned positions and GELU (GPT-2); encoder with learned positions, norms
        behind their blocks and GELU (RoBERTa at the size of BabyBERTa, doi:10.18653/v1/2021.conll-1.49).
    layers, heads, width : int
    key_heads : int, optional
        Heads of keys and values, each shared by several of queries; "nemotron" only. None: as many as heads.
    hidden : int
        Width of the MLP.
    longest : int
        Positions: tokens that a model may see at once.
    dropout : float
        Share of activations and attention weights that are dropped in training.
    """

    family: Family = "nemotron"
    layers: int = Field(default=4, ge=1, le=1000)
    heads: int = Field(default=4, ge=1)
    key_heads: int | None = Field(default=None, ge=1)
    width: int = Field(default=128, ge=1)
    hidden: int = Field(default=512, ge=1)
    longest: int = Field(default=128, ge=2)
    dropout: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_fit(self) -> Shape:
        if self.width % self.heads:
            raise InputError("heads", self.heads, f"must divide width = {self.width}")
        if self.key_heads is not None and self.family != "nemotron":
            raise InputError("key_heads", self.key_heads, f"{self.family} has a key for each query")
        if self.key_heads is not None and self.heads % self.key_heads:
            raise InputError("key_heads", self.key_heads, f"must divide heads = {self.heads}")
        if self.family == "nemotron" and (self.width // self.heads) % 4:
            raise InputError("width", self.width, "half of each head turns in pairs: 4 must divide width/heads")
        if self.dropout and self.family == "nemotron":
            raise InputError("dropout", self.dropout, "nemotron drops nothing but attention weights; must be 0")
        return self

    @property
    def kind(self) -> Kind:
        """Whether it learns the next token ("decoder") or masked ones ("encoder")."""
        return KINDS[self.family]


#: Shapes by name; the last of each family has the published size.
SHAPES = {
    "decoder-1m": Shape(),
    "decoder-5m": Shape(layers=6, heads=8, key_heads=4, width=256, hidden=768, longest=256),
    "decoder-114m": Shape(layers=12, heads=24, key_heads=8, width=768, hidden=3072, longest=1024),
    "gpt2-1m": Shape(family="gpt2", layers=4, heads=4, width=128, hidden=512),
    "gpt2-5m": Shape(family="gpt2", layers=4, heads=8, width=256, hidden=1024, longest=256),
    "gpt2": Shape(family="gpt2", layers=12, heads=12, width=768, hidden=3072, longest=1024, dropout=0.1),
    "babyberta-1m": Shape(family="babyberta", layers=4, heads=4, width=128, hidden=512, longest=64),
    "babyberta-5m": Shape(family="babyberta", layers=5, heads=8, width=256, hidden=1024),
    "babyberta": Shape(family="babyberta", layers=8, heads=8, width=256, hidden=1024, dropout=0.1),
}


def get_shape(given: Any) -> Shape:
    """Return the shape of a name, changed if asked: ``decoder-1m:layers=2``, ``{preset = "decoder-1m", layers = 2}``.

    Raises
    ------
    InputError
        For an unknown name or field, or a value out of range.
    """
    if isinstance(given, Mapping) and "family" in given and "preset" not in given:  # as `describe` wrote it
        return Shape(**given)
    return preset_in("shape", SHAPES, given, "decoder-1m")
