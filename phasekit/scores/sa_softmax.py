"""SA-softmax: softmax weighted by its own logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols


class SASoftmax(Score):
    """A = H ⊙ softmax(H) (arXiv:2502.18277). Rows aren't normalised, and weights may be negative.

    An additive mask acts inside the softmax: A = H ⊙ softmax(H + mask).
    """

    name: ClassVar[str] = "sa-softmax"
    normalised: ClassVar[bool] = False

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.precision import check_tensors, widen

        check_tensors(self.name, logits=logits)
        self.values(parameters, logits)
        z = widen(logits)
        return (z * self._softmax(z, mask)).to(logits.dtype)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        return self._softmax(z, mask) * (g + z * g - (p * g).sum(dim=-1, keepdim=True))

    @staticmethod
    def _softmax(z: Tensor, mask: Tensor | None) -> Tensor:
        from phasekit.scores.masks import masked_softmax, read_mask

        return masked_softmax(z, read_mask(mask, z), z.dtype)

    def symbolic_rows(self, logits: Sequence[sympy.Expr], parameters: Symbols = None) -> list[sympy.Expr]:
        import sympy

        normaliser = sum(sympy.exp(h) for h in logits)
        return [h * sympy.exp(h) / normaliser for h in logits]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        import sympy

        normaliser = sympy.exp(u) + (m - 1) * sympy.exp(v)
        return u * sympy.exp(u) / normaliser, v * sympy.exp(v) / normaliser
