"""Learned parameters of scores that are made of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.parameters import ScoreParameters


class CompositeParameters(ScoreParameters):
    """The components' parameters, named by the component's number: ``"1.n"``."""

    def __init__(self, components: Sequence[ScoreParameters]) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)

    def _own(self) -> list[ScoreParameters]:
        return [component for component in self.components if isinstance(component, ScoreParameters)]

    def reset_parameters(self) -> None:
        for component in self._own():
            component.reset_parameters()

    def forward(self) -> dict[str, Tensor]:
        return {f"{c}.{name}": value for c, own in enumerate(self._own()) for name, value in own().items()}


class PerHeadParameters(CompositeParameters):
    """Component c has the heads c, c + C, c + 2C, … of C components."""

    def __init__(self, scores: Sequence[Score], heads: int) -> None:
        heads = whole_number("heads", heads, least=1)
        if heads < len(scores):
            raise InputError("heads", heads, f"must be at least {len(scores)}, one for each score")
        super().__init__([s.make_parameters(len(range(c, heads, len(scores)))) for c, s in enumerate(scores)])


class MixtureParameters(CompositeParameters):
    """Besides the components' parameters the shares of each head, the softmax of raw numbers."""

    def __init__(self, scores: Sequence[Score], shares: Sequence[float], heads: int) -> None:
        heads = whole_number("heads", heads, least=1)
        if min(shares) <= 0:
            raise InputError("shares", tuple(shares), "must start above 0 to learn")
        super().__init__([score.make_parameters(heads) for score in scores])
        self.start = tuple(shares)
        self.raw_shares = nn.Parameter(torch.empty(len(shares), heads, dtype=torch.float32))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            for raw, share in zip(self.raw_shares, self.start, strict=True):
                raw.fill_(math.log(share))

    def forward(self) -> dict[str, Tensor]:
        return {**super().forward(), "shares": self.raw_shares.softmax(dim=0)[..., None, None]}
