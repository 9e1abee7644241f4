"""Softmax attention, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor


class Softmax(Score):
    """A_ij = exp(H_ij) / Σ_k exp(H_ik) (docs/theory.md, section 1)."""

    name: ClassVar[str] = "softmax"

    def rows(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=-1)

    def pull_back(self, logits: Tensor, weights: Tensor, upstream: Tensor) -> Tensor:
        return weights * (upstream - (weights * upstream).sum(dim=-1, keepdim=True))

    def symbolic_rows(self, logits: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        import sympy

        exponentials = [sympy.exp(h) for h in logits]
        return [e / sum(exponentials) for e in exponentials]
