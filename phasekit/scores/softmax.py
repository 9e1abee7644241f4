"""Softmax attention, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from phasekit.scores.elementwise import ElementwiseSoftmax

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned


class Softmax(ElementwiseSoftmax):
    """A_ij = exp(H_ij) / Σ_k exp(H_ik) (docs/theory.md, section 1)."""

    name: ClassVar[str] = "softmax"

    def transform(self, z: Tensor, **values: Tensor) -> Tensor:
        return z

    def slope(self, z: Tensor, **values: Tensor) -> Tensor:
        return z.new_ones(())

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.masks import masked_softmax, read_mask
        from phasekit.scores.precision import check_tensors

        check_tensors(self.name, logits=logits)
        if mask is None and parameters is None:  # small networks call this so often that checks would cost
            return logits.softmax(dim=-1)
        self.values(parameters, logits)
        return masked_softmax(logits, read_mask(mask, logits), logits.dtype)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        import torch

        # one fused kernel for p (g - Σ p g); the mask is in p already: excluded keys have p = 0
        gradient: Tensor = torch._softmax_backward_data(g, p, -1, p.dtype)
        return gradient

    def symbolic_transform(self, x: sympy.Expr, **values: sympy.Expr) -> sympy.Expr:
        return x
