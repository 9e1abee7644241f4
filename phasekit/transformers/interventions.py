"""What is changed in a trained network to find out what its failures come from.

Correlation between saturated rows and errors says little about causes; if rows are kept from saturating and the errors
stay, saturation wasn't the cause.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor, nn

from phasekit.attention import ScoredAttention
from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.scores import Score, get_score
from phasekit.transformers.decoder import Decoder


class Intervention(Description):
    """A change of the attention of a trained network.

    Parameters
    ----------
    temperature : float
        Divides the logits.
    clip : float, optional
        Logits are cut off at ±clip (after division by the temperature).
    score : Score, its name, or a mapping, optional
        Takes the place of the score that the network was trained with, its parameters at its fields.
    layer : int, optional
        Where, counted from 0; None: in all layers.
    retuned : bool
        Whether the network is trained on for a while after the change.
    """

    temperature: float = Field(default=1.0, ge=1e-6, le=1e6)
    clip: float | None = Field(default=None, gt=0)
    score: SerializeAsAny[Score] | None = None
    layer: int | None = Field(default=None, ge=0)
    retuned: bool = False

    @field_validator("score", mode="before")
    @classmethod
    def _read_score(cls, given: object) -> Score | None:
        return None if given is None else get_score(given)

    @property
    def words(self) -> str:
        """The change as a table names it: "clip 5", "score ssa in layer 1, retuned"; nothing for no change."""
        parts = [] if self.temperature == 1 else [f"temperature {self.temperature:g}"]
        parts += [] if self.clip is None else [f"clip {self.clip:g}"]
        parts += [] if self.score is None else [f"score {self.score.name}"]
        where = "" if self.layer is None else f" in layer {self.layer}"
        return " and ".join(parts) + where + (", retuned" if self.retuned else "")

    def apply(self, model: Decoder) -> Decoder:
        """Return a copy of a network with the change.

        Raises
        ------
        InputError
            If there is no such layer, or a score that is no function of the logits.
        """
        changed = deepcopy(model)
        attentions = changed.attentions
        if self.layer is not None and self.layer >= len(attentions):
            raise InputError("layer", self.layer, f"must be below {len(attentions)}, the number of attention layers")
        for attention in attentions if self.layer is None else [attentions[self.layer]]:
            attention.score = Changed(attention.scored, self)
        return changed


class Changed(nn.Module):
    """Attention by way of the logits, which are changed before the score takes them."""

    def __init__(self, trained: ScoredAttention, change: Intervention) -> None:
        super().__init__()
        self.trained, self.change = trained, change
        self.score = change.score or trained.score
        if not self.score.uses_logits:
            raise InputError("score", self.score.name, "is no function of the logits, which interventions change")

    def forward(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool = True) -> Tensor:
        logits = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 / self.change.temperature)
        if self.change.clip is not None:
            logits = logits.clamp(-self.change.clip, self.change.clip)
        past = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).tril()
        own = self.trained.parameter_values() if self.change.score is None else None
        return self.score.rows(logits, past if is_causal else None, own) @ value
