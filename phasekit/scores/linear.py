"""Linear attention: A = H / L."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor


class Linear(Score):
    """A = H / L, with L the number of keys (docs/theory.md, section 1). Rows are not normalised."""

    name: ClassVar[str] = "linear"
    normalised: ClassVar[bool] = False

    def rows(self, logits: Tensor) -> Tensor:
        return logits / logits.shape[-1]

    def pull_back(self, logits: Tensor, weights: Tensor, upstream: Tensor) -> Tensor:
        return upstream / logits.shape[-1]

    def symbolic_rows(self, logits: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return [h / len(logits) for h in logits]
