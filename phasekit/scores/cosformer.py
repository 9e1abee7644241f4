"""CosFormer: a kernel of rectified queries and keys, weighted by their distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pydantic import Field

from phasekit.errors import InputError
from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols


class CosFormer(Score):
    """A_ij ∝ ReLU(q_i)·ReLU(k_j) · cos(π(i − j)/2M), rows normalised by their sum (Z. Qin et al., arXiv:2202.08791).

    No function of the logits: it needs queries and keys. ``scale`` drops out. Additive masks with numbers between
    0 and -1000 are refused (weights are no exponentials). A row in which no visible key overlaps with the query has
    weights of exactly 0, like a row that may attend nowhere.

    Parameters
    ----------
    M : int, optional
        The distance at which the weight reaches 0. None takes the number of keys, or the last query's position if
        that is larger, so results then depend on padding and on the length of a cache; give it to avoid that.
    """

    name: ClassVar[str] = "cosformer"
    uses_logits: ClassVar[bool] = False

    M: int | None = Field(default=None, ge=1, description="distance at which the weight vanishes, an integer")

    def weights_from(
        self, query: Tensor, key: Tensor, scale: float, mask: Tensor | None, parameters: Learned, offset: int
    ) -> Tensor:
        import torch

        from phasekit.scores.masks import boolean_mask
        from phasekit.scores.precision import widen

        self.values(parameters, query)
        queries, keys = query.shape[-2], key.shape[-2]
        kernel = widen(query).relu() @ widen(key).relu().transpose(-1, -2)
        i = torch.arange(offset, offset + queries, device=query.device, dtype=kernel.dtype)[:, None]
        j = torch.arange(keys, device=query.device, dtype=kernel.dtype)
        reach = self._reach(queries, keys, offset)
        raw = kernel * torch.cos((i - j) * (torch.pi / (2 * reach))).clamp(min=0)  # rounding at distance M: −4e-8
        keep = boolean_mask(mask, raw, self.name)
        if keep is not None:
            raw = raw.masked_fill(~keep, 0)
        total = raw.sum(dim=-1, keepdim=True)
        return raw / torch.where(total == 0, 1, total)

    def symbolic_attention_weights(
        self,
        query: Sequence[sympy.Expr],
        keys: Sequence[Sequence[sympy.Expr]],
        position: int = 0,
        parameters: Symbols = None,
    ) -> list[sympy.Expr]:
        import sympy

        reach = self._reach(1, len(keys), position)
        raw = [
            sum(sympy.Max(a, 0) * sympy.Max(b, 0) for a, b in zip(query, key, strict=True))
            * sympy.cos(sympy.pi * (position - j) / (2 * reach))
            for j, key in enumerate(keys)
        ]
        return [weight / sum(raw) for weight in raw]

    def _reach(self, queries: int, keys: int, offset: int) -> int:
        """Return M. Beyond it the cosine is negative and weights would be no weights."""
        longest = max(offset + queries, keys)
        if self.M is not None and longest - 1 > self.M:
            raise InputError(f"score {self.name}: M", self.M, f"must be at least {longest - 1}, the largest distance")
        return longest if self.M is None else self.M

    def _no_function_of_logits(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError("score", self.name, "is no function of the logits; give it queries and keys")

    rows = logit_gradient = symbolic_rows = symbolic_two_level = _no_function_of_logits
