"""Language models of transformers with any score: from a shape to a network, to a folder, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    GPT2Config,
    NemotronConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
)

from phasekit.attention.hf import register
from phasekit.attention.hf.parameters import HOW_LEARNED, RECORD
from phasekit.errors import InputError
from phasekit.language.shapes import Kind, Shape
from phasekit.language.tokenizer import BEGIN, END, PAD
from phasekit.scores import Score, Softmax, get_score
from phasekit.streams import stream

_AUTO: dict[Kind, Any] = {"decoder": AutoModelForCausalLM, "encoder": AutoModelForMaskedLM}


@dataclass(frozen=True)
class Trained:
    """A model, its tokenizer, and what it was trained to do.

    Attributes
    ----------
    model : PreTrainedModel
    tokenizer : PreTrainedTokenizerBase
    kind : "decoder" or "encoder"
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kind: Kind


def config_of(shape: Shape, vocabulary: int) -> PreTrainedConfig:
    """Return the configuration of transformers for a shape.

    Parameters
    ----------
    shape : Shape
    vocabulary : int
        Tokens.
    """
    marks: dict[str, Any] = {"vocab_size": vocabulary, "bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD}
    if shape.family == "gpt2":
        return GPT2Config(
            **marks,
            n_positions=shape.longest,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_inner=shape.hidden,
            resid_pdrop=shape.dropout,
            embd_pdrop=shape.dropout,
            attn_pdrop=shape.dropout,
        )
    sizes: dict[str, Any] = {
        **marks,
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
    }
    if shape.family == "babyberta":
        return RobertaConfig(
            **sizes,
            max_position_embeddings=shape.longest + PAD + 1,  # positions are counted from behind the padding's id
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            hidden_dropout_prob=shape.dropout,
            attention_probs_dropout_prob=shape.dropout,
        )
    return NemotronConfig(
        **sizes,
        num_key_value_heads=shape.key_heads or shape.heads,
        max_position_embeddings=shape.longest,
        hidden_act="relu2",
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
        tie_word_embeddings=True,
        attention_bias=False,
        mlp_bias=False,
        initializer_range=0.02,
    )


def build(
    shape: Shape,
    vocabulary: int,
    score: Score | None = None,
    *,
    learned: str = "head",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> PreTrainedModel:
    """Return a model with the initial weights of a seed, in training mode.

    The weights are drawn before, and independently of, the score's parameters: models that differ in the score only
    begin alike.

    Parameters
    ----------
    shape : Shape
    vocabulary : int
        Tokens.
    score : Score, optional
        Softmax if left out.
    learned : "head", "layer" or "no"
        Whether the score's parameters are learned: one set for each head, one for each layer, or none.
    seed : int
    dtype : torch.dtype

    Raises
    ------
    InputError
        If the score can't run in such a model.
    """
    name = registered_as(Softmax() if score is None else score, learned)
    config = config_of(shape, vocabulary)
    with torch.random.fork_rng():
        torch.manual_seed(int(stream("language model", seed).integers(2**62)))
        model: PreTrainedModel = _AUTO[shape.kind].from_config(config, attn_implementation=name, dtype=dtype)
    model.train()
    return model


def registered_as(score: Score, learned: str = "head") -> str:
    """Register a score for models of transformers, and return the name that stands for it and no other."""
    told = json.dumps([score.describe(), learned], sort_keys=True)
    name = f"{score.name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
    return register(score, name, learn="layer" if learned == "layer" else learned == "head")[0]


def save(folder: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a model, its score and its tokenizer as transformers does."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load(folder: str | Path) -> Trained:
    """Read what :func:`save` wrote, in evaluation mode.

    Raises
    ------
    InputError
        If there is no model, or its tokenizer has tokens that the model doesn't know.
    """
    try:
        config = AutoConfig.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise InputError("model", str(folder), f"can't be read ({str(error).splitlines()[0]})") from None
    record = getattr(config, RECORD, None)
    kind: Kind = "encoder" if "MaskedLM" in (config.architectures or [""])[0] else "decoder"
    keyword = {} if record is None else {"attn_implementation": registered_as(*read_record(record))}
    model = _AUTO[kind].from_pretrained(folder, **keyword)
    check_tokenizer(model, tokenizer)
    return Trained(model.eval(), tokenizer, kind)


def read_record(record: dict[str, Any]) -> tuple[Score, str]:
    """Return the score that a saved configuration names, and how many of its parameters are learned."""
    fields = dict(record)
    learned = fields.pop(HOW_LEARNED, "head")
    return get_score(fields), learned


def check_tokenizer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise InputError unless the model has an embedding for every token."""
    known = int(model.config.vocab_size)
    if len(tokenizer) > known:
        raise InputError("tokenizer", len(tokenizer), f"has more tokens than the model's {known}")


def parameter_count(model: nn.Module) -> int:
    """Return how many numbers a model learns; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())
