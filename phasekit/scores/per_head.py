"""Different scores in different heads of one layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.composite import Composite

if TYPE_CHECKING:
    from torch import Tensor

    from phasekit.scores.base import Learned
    from phasekit.scores.parameters import ScoreParameters

    #: Picks the heads of one component out of a tensor.
    _Of: TypeAlias = Callable[[Tensor], Tensor]


class PerHead(Composite):
    """Head h uses component h mod C of C component scores. Needs tensors with an axis of heads.

    Learned parameters are the components' own (``"1.n"``), each for the heads that use the component.

    Parameters
    ----------
    scores : component scores
    """

    name: ClassVar[str] = "per-head"

    def make_parameters(self, heads: int) -> ScoreParameters:
        from phasekit.scores.composite_parameters import PerHeadParameters

        return PerHeadParameters(self.scores, heads)

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.precision import check_tensors

        check_tensors(self.name, logits=logits)
        self._check_mask(mask, logits)
        return self._deal(
            parameters, logits, lambda score, own, of: score.rows(of(logits), None if mask is None else of(mask), own)
        )

    def weights_from(
        self, query: Tensor, key: Tensor, scale: float, mask: Tensor | None, parameters: Learned, offset: int
    ) -> Tensor:
        def head(score: Score, own: Learned, of: _Of) -> Tensor:
            shown = None if mask is None else of(mask)
            return score.weights_from(of(query), of(key), scale, shown, own, offset)

        self._check_mask(mask, query)
        return self._deal(parameters, query, head)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        def head(score: Score, own: Learned, of: _Of) -> Tensor:
            return score.logit_gradient(of(z), of(p), of(g), None if mask is None else of(mask), own)

        return self._deal(parameters, z, head)

    def _deal(self, parameters: Learned, full: Tensor, head: Callable[[Score, Learned, _Of], Tensor]) -> Tensor:
        """Run every component on its own heads, and put the heads back in order."""
        import torch

        if full.dim() < 3:
            raise InputError(f"score {self.name}: logits", tuple(full.shape), "must have an axis of heads")
        heads, count = full.shape[-3], len(self.scores)
        parts: list[Tensor] = []
        order: list[int] = []
        for c, own in enumerate(self.component_parameters(parameters)):
            if c >= max(heads, 1):
                break
            parts.append(head(self.scores[c], own, lambda tensor, c=c: _every(tensor, c, count)))  # type: ignore[misc]
            order += range(c, heads, count)
        dealt = torch.cat(parts, dim=-3)
        return dealt.index_select(dealt.dim() - 3, torch.tensor(order, device=dealt.device).argsort())

    def _check_mask(self, mask: Tensor | None, full: Tensor) -> None:
        from phasekit.scores.masks import require_tensor

        if mask is None:
            return
        require_tensor("mask", mask)
        if mask.dim() > 2 and mask.shape[-3] not in (1, full.shape[-3] if full.dim() > 2 else 1):
            raise InputError("mask", tuple(mask.shape), f"must have 1 or {full.shape[-3]} heads")

    def _no_single_row(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError("score", self.name, "has a row map for each head; take its components one by one")

    symbolic_rows = symbolic_two_level = _no_single_row


def _every(tensor: Tensor, first: int, step: int) -> Tensor:
    """Return the heads first, first + step, …; a tensor that all heads share as it is."""
    if tensor.dim() < 3 or tensor.shape[-3] == 1:
        return tensor
    return tensor[..., first::step, :, :]
