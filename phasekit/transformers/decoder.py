"""A causal transformer with any score: token vectors in, answers at every token out.

Pre-norm blocks, x ← x + attention(norm(x)), x ← x + mlp(norm(x)), then a last norm and a linear read-out. Every part
can be left out or exchanged by its :class:`Architecture`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from phasekit.attention import ScoredAttention
from phasekit.describe import Description, preset_in
from phasekit.errors import InputError
from phasekit.scores import Score, Softmax
from phasekit.scores.parameters import ScoreParameters
from phasekit.streams import stream

Learned = Literal["head", "layer", "no"]

#: Wavelengths of rotary positions grow from 2π to 2π times this (J. Su et al., arXiv:2104.09864).
_LONGEST_WAVE = 10_000.0


class Architecture(Description):
    """The shape of a decoder.

    Parameters
    ----------
    layers, heads, width : int
    positions : "learned", "rotary" or "none"
        Learned vectors added to the tokens, queries and keys turned by their position, or nothing but causality.
    longest : int
        Tokens that there are learned positions for.
    attention, mlp : bool
        Whether blocks have the one and the other part.
    hidden : int
        Width of the MLP, in units of ``width``; its activation is GELU.
    attention_norm : bool
        Whether a LayerNorm stands in front of attention, where it hides how large the inputs are.
    squash : bool
        Whether token vectors pass asinh before the read-in, which brings 1000 down to 7.6.
    tied : bool
        Whether the read-out uses the matrix of the read-in.
    """

    layers: int = Field(default=3, ge=1, le=1000)
    heads: int = Field(default=2, ge=1)
    width: int = Field(default=64, ge=1)
    positions: Literal["learned", "rotary", "none"] = "learned"
    longest: int = Field(default=512, ge=1)
    attention: bool = True
    mlp: bool = True
    hidden: int = Field(default=4, ge=1)
    attention_norm: bool = True
    squash: bool = False
    tied: bool = False

    @model_validator(mode="after")
    def _heads_fit(self) -> Architecture:
        if self.width % self.heads:
            raise InputError("heads", self.heads, f"must divide width = {self.width}")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise InputError("positions", self.positions, "turn pairs of coordinates: width/heads must be even")
        return self


#: Architectures by name; "paper" is that of arXiv:2508.14685 (9.6 million parameters).
PRESETS = {
    "one-layer": Architecture(layers=1),
    "small": Architecture(),
    "medium": Architecture(layers=6, heads=4, width=128),
    "paper": Architecture(layers=12, heads=8, width=256),
    "attention-only": Architecture(mlp=False),
    "mlp-only": Architecture(attention=False),
}


def get_architecture(given: Any) -> Architecture:
    """Return the architecture of a name, changed if asked: ``small:layers=2``, ``{preset = "small", layers = 2}``.

    Raises
    ------
    InputError
        For an unknown name or field, or a value out of range.
    """
    return preset_in("architecture", PRESETS, given, "small")


class Decoder(nn.Module):
    """A causal transformer from (batch, tokens, inputs) to (batch, tokens, outputs).

    Parameters
    ----------
    architecture : Architecture
    inputs, outputs : int
        Numbers in a token and in an answer.
    score : Score
    learned : "head", "layer" or "no"
        Whether the score's parameters are learned: one set for each head, one for each layer, or none (they stay at
        the score's fields).
    seed : int
        Of the initial weights. Each parameter draws from a stream of its own name, so that networks which differ in
        the score only begin with the same weights.

    Raises
    ------
    InputError
        For shapes that don't fit together.
    """

    def __init__(
        self,
        architecture: Architecture,
        inputs: int,
        outputs: int,
        score: Score | None = None,
        *,
        learned: Learned = "head",
        seed: int = 0,
    ) -> None:
        super().__init__()
        if architecture.tied and inputs != outputs:
            raise InputError("tied", True, f"needs as many outputs as inputs, not {outputs} and {inputs}")
        self.architecture = architecture
        self.read_in = nn.Linear(inputs, architecture.width)
        if architecture.positions == "learned":
            self.places = nn.Embedding(architecture.longest, architecture.width)
        one_score = Softmax() if score is None else score
        self.blocks = nn.ModuleList(Block(architecture, one_score, learned) for _ in range(architecture.layers))
        self.norm = nn.LayerNorm(architecture.width)
        if not architecture.tied:
            self.read_out = nn.Linear(architecture.width, outputs)
        self.initialise(seed)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return an answer at every token, from that token and those before it.

        Raises
        ------
        InputError
            If there are more tokens than learned positions.
        """
        shape, length = self.architecture, tokens.shape[1]
        x = self.read_in(torch.asinh(tokens) if shape.squash else tokens)
        if shape.positions == "learned":
            if length > shape.longest:
                raise InputError("tokens", length, f"must be at most {shape.longest}, the number of learned positions")
            x = x + self.places.weight[:length]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        answers: Tensor = x @ self.read_in.weight if shape.tied else self.read_out(x)
        return answers

    @property
    def attentions(self) -> list[Attention]:
        """The attention layers, from below."""
        return [block.attention for block in self.blocks if isinstance(block.attention, Attention)]

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw all weights, N(0, 1/(3·fan-in)), so 0.02² at a width of 768; what ends in the residual stream is
        divided by √(2·layers). Biases are 0, norms 1, and the score's parameters at their start.
        """
        scores = {
            id(p) for module in self.modules() if isinstance(module, ScoreParameters) for p in module.parameters()
        }
        for name, parameter in self.named_parameters():
            if id(parameter) in scores or "norm" in name:
                continue
            if name.endswith("bias"):
                parameter.zero_()
                continue
            scale = 1 / sqrt(3 * parameter.shape[-1])
            if name.endswith((".out.weight", ".down.weight")):
                scale /= sqrt(2 * self.architecture.layers)
            drawn = stream(f"weights {name}", seed).standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(scale * drawn))


class Block(nn.Module):
    """Attention and MLP, each behind a norm and beside a residual connection."""

    def __init__(self, architecture: Architecture, score: Score, learned: Learned) -> None:
        super().__init__()
        self.attention = Attention(architecture, score, learned) if architecture.attention else None
        self.mlp = MLP(architecture) if architecture.mlp else None
        normed = architecture.attention and architecture.attention_norm
        self.attention_norm = nn.LayerNorm(architecture.width) if normed else nn.Identity()
        self.mlp_norm = nn.LayerNorm(architecture.width) if architecture.mlp else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return x (batch, tokens, width) with both parts' outputs added."""
        if self.attention is not None:
            x = x + self.attention(self.attention_norm(x))
        return x if self.mlp is None else x + self.mlp(self.mlp_norm(x))


class Attention(nn.Module):
    """Causal multi-head attention with any score."""

    def __init__(self, architecture: Architecture, score: Score, learned: Learned) -> None:
        super().__init__()
        self.heads, self.rotary = architecture.heads, architecture.positions == "rotary"
        self.qkv = nn.Linear(architecture.width, 3 * architecture.width)
        self.out = nn.Linear(architecture.width, architecture.width)
        shared = 1 if learned == "layer" else architecture.heads
        self.score: nn.Module = ScoredAttention(shared, score, learn=learned != "no")

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        mixed = self.score(query, key, value, is_causal=True)
        found: Tensor = self.out(mixed.transpose(1, 2).flatten(-2))
        return found

    @property
    def scored(self) -> ScoredAttention:
        """The score and its parameters, as they were trained."""
        assert isinstance(self.score, ScoredAttention)
        return self.score

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, (batch, heads, tokens, width/heads) each."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return (turned(query), turned(key), value) if self.rotary else (query, key, value)


class MLP(nn.Sequential):
    """Two layers with GELU between."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        inner = architecture.hidden * architecture.width
        self.add_module("up", nn.Linear(architecture.width, inner))
        self.add_module("gelu", nn.GELU())
        self.add_module("down", nn.Linear(inner, architecture.width))


def turned(x: Tensor) -> Tensor:
    """Return vectors (…, tokens, dim) whose pairs of coordinates are turned by their token's position."""
    tokens, half = x.shape[-2], x.shape[-1] // 2
    rate = _LONGEST_WAVE ** -(torch.arange(half, device=x.device, dtype=x.dtype) / half)
    angle = torch.arange(tokens, device=x.device, dtype=x.dtype)[:, None] * rate
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], dim=-1)


def parameter_count(model: nn.Module) -> int:
    """Return how many numbers a network learns."""
    return sum(parameter.numel() for parameter in model.parameters())
