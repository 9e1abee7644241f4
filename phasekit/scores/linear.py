"""Linear attention: A = H / L."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols


class Linear(Score):
    """A = H / L, with L the number of keys the query may attend (docs/theory.md, section 1). Rows aren't normalised.

    Counting visible keys makes a padded sequence give what the same sequence gives without padding. Additive masks with
    numbers between 0 and -1000 are refused: weights here are no exponentials, and an added number would be one more
    term in the output, not a change of odds.
    """

    name: ClassVar[str] = "linear"
    normalised: ClassVar[bool] = False

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.precision import check_tensors

        check_tensors(self.name, logits=logits)
        self.values(parameters, logits)
        return self._divided(logits, logits, mask)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        return self._divided(g, z, mask)

    def _divided(self, tensor: Tensor, logits: Tensor, mask: Tensor | None) -> Tensor:
        from phasekit.scores.masks import boolean_mask

        keep = boolean_mask(mask, logits, self.name)
        if keep is None:
            return tensor / logits.shape[-1]
        visible = keep.expand(logits.shape).sum(dim=-1, keepdim=True)
        return (tensor / visible.clamp(min=1)).masked_fill(~keep, 0)

    def symbolic_rows(self, logits: Sequence[sympy.Expr], parameters: Symbols = None) -> list[sympy.Expr]:
        return [h / len(logits) for h in logits]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        return u / m, v / m
