"""The softmax family: scores that are the softmax of an elementwise map of the logits, A = softmax(t(H))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols


class ElementwiseSoftmax(Score):
    """A_ij = f(H_ij) / Σ_k f(H_ik) with f = exp(t), t acting on each logit alone (docs/theory.md, section 6).

    Masks act on t(H), behind the transform: an additive mask gives softmax(t(H) + mask).

    A subclass must give :meth:`transform` and :meth:`symbolic_transform`. All else follows, by automatic
    differentiation where it isn't overridden:

    * :meth:`slope` and :meth:`parameter_slopes`, the first derivatives of t, as differentiable expressions;
    * :meth:`transform_into` and :meth:`pull_back_over`, the same as kernels without autograd that reuse memory. Paths
      that work through attention in blocks are made of these two and need to know nothing else about t.

    ``values`` are the learnable parameters by name, tensors that broadcast to z as (heads, 1, 1).
    """

    def transform(self, z: Tensor, **values: Tensor) -> Tensor:
        """Return t(z): differentiable, with the right derivative at every z."""
        raise NotImplementedError

    def symbolic_transform(self, x: sympy.Expr, **values: sympy.Expr) -> sympy.Expr:
        """Return t(x); ``values`` are all numeric fields."""
        raise NotImplementedError

    def slope(self, z: Tensor, **values: Tensor) -> Tensor:
        """Return ∂t/∂z, elementwise."""
        import torch

        out, pull = torch.func.vjp(lambda point: self.transform(point, **values), z)[:2]
        slope: Tensor = pull(torch.ones_like(out))[0]
        return slope

    def parameter_slopes(self, z: Tensor, **values: Tensor) -> dict[str, Tensor]:
        """Return ∂t/∂value for every learnable parameter, elementwise."""
        import torch

        if not values:
            return {}
        spread = [value.expand(z.shape) for value in values.values()]  # one number per element: one slope per element

        def transform(*numbers: Tensor) -> Tensor:
            return self.transform(z, **dict(zip(values, numbers, strict=True)))

        out, pull = torch.func.vjp(transform, *spread)[:2]
        return dict(zip(values, pull(torch.ones_like(out)), strict=True))

    def transform_into(self, z: Tensor, out: Tensor, **values: Tensor) -> Tensor:
        """Write t(z) into ``out`` (of z's shape, dtype and device; not z itself) and return it. No autograd."""
        return out.copy_(self.transform(z, **values))

    def pull_back_over(
        self, z: Tensor, upstream: Tensor, learned: Sequence[str], **values: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return ``upstream · ∂t/∂z`` and Σ upstream · ∂t/∂value, for dU/dt = ``upstream``. No autograd.

        Parameters
        ----------
        z, upstream : Tensor, shape (groups, queries, keys)
            ``upstream`` may be overwritten and returned, z not.
        learned : names of the parameters whose gradient is wanted
        values : each of shape () or (groups, 1, 1)

        Returns
        -------
        Tensor, shape (groups, queries, keys)
        dict of name to Tensor, shape (groups, 1, 1)
            Sums over queries and keys.
        """
        slopes = self.parameter_slopes(z, **values) if learned else {}
        sums = {name: (upstream * slopes[name]).sum(dim=(-2, -1), keepdim=True) for name in learned}
        return upstream * self.slope(z, **values), sums

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.elementwise_rows import elementwise_rows
        from phasekit.scores.masks import read_mask
        from phasekit.scores.precision import check_tensors

        check_tensors(self.name, logits=logits)
        return elementwise_rows(self, logits, read_mask(mask, logits), self.values(parameters, logits))

    def weights_from(
        self, query: Tensor, key: Tensor, scale: float, mask: Tensor | None, parameters: Learned, offset: int
    ) -> Tensor:
        from phasekit.scores.elementwise_rows import elementwise_attention_weights
        from phasekit.scores.precision import with_room

        return elementwise_attention_weights(self, with_room(query) * scale, with_room(key), mask, parameters)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        gradient = p * (g - (p * g).sum(dim=-1, keepdim=True))  # the mask is in p already: excluded keys have p = 0
        return gradient * self.slope(z, **self.values(parameters, z))

    def symbolic_weight(self, x: sympy.Expr, parameters: Symbols = None) -> sympy.Expr:
        """Return f(x) = exp(t(x)), the unnormalised weight of a logit."""
        import sympy

        return sympy.exp(self.symbolic_transform(x, **self.symbolic_values(parameters)))

    def symbolic_rows(self, logits: Sequence[sympy.Expr], parameters: Symbols = None) -> list[sympy.Expr]:
        f = [self.symbolic_weight(h, parameters) for h in logits]
        return [weight / sum(f) for weight in f]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        raised, other = self.symbolic_weight(u, parameters), self.symbolic_weight(v, parameters)
        return raised / (raised + (m - 1) * other), other / (raised + (m - 1) * other)
