"""SA-softmax: softmax weighted by its own logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor


class SASoftmax(Score):
    """A = H ⊙ softmax(H) (arXiv:2502.18277). Rows aren't normalised, and weights may be negative.

    An additive mask acts inside the softmax: A = H ⊙ softmax(H + mask).
    """

    name: ClassVar[str] = "sa-softmax"
    normalised: ClassVar[bool] = False

    def rows(
        self, logits: Tensor, mask: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        from phasekit.scores.precision import widen

        self.values(parameters, logits)
        return (widen(logits) * self._softmax(logits, mask)).to(logits.dtype)

    def pull_back(
        self,
        logits: Tensor,
        weights: Tensor,
        upstream: Tensor,
        mask: Tensor | None = None,
        parameters: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        from phasekit.scores.precision import widen

        z, a, g = widen(logits), widen(weights), widen(upstream)
        return (self._softmax(logits, mask) * (g + z * g - (a * g).sum(dim=-1, keepdim=True))).to(logits.dtype)

    @staticmethod
    def _softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
        from phasekit.scores.masks import masked_softmax, read_mask
        from phasekit.scores.precision import widen

        z = widen(logits)
        return masked_softmax(z, read_mask(mask, logits), z.dtype)

    def symbolic_rows(
        self, logits: Sequence[sympy.Expr], parameters: Mapping[str, sympy.Expr] | None = None
    ) -> list[sympy.Expr]:
        import sympy

        normaliser = sum(sympy.exp(h) for h in logits)
        return [h * sympy.exp(h) / normaliser for h in logits]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Mapping[str, sympy.Expr] | None = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        import sympy

        normaliser = sympy.exp(u) + (m - 1) * sympy.exp(v)
        return u * sympy.exp(u) / normaliser, v * sympy.exp(v) / normaliser
