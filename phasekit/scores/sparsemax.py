"""Sparsemax: the Euclidean projection of a row of logits onto the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

from phasekit.errors import InputError
from phasekit.scores.base import Score

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols

_LONGEST_ROW = 8  # 2⁸ possible supports of a symbolic row are still printable


class Sparsemax(Score):
    """A_ij = max(H_ij − τ_i, 0), with τ_i such that the row sums to one (A. Martins, R. Astudillo, arXiv:1602.02068).

    An additive mask is added to the logits.
    """

    name: ClassVar[str] = "sparsemax"

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.masks import read_mask
        from phasekit.scores.precision import check_tensors
        from phasekit.scores.sparse_rows import entmax_rows

        check_tensors(self.name, logits=logits)
        self.values(parameters, logits)
        return entmax_rows(logits, read_mask(mask, logits), 2.0)

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        from phasekit.scores.sparse_rows import entmax_pull_back

        return entmax_pull_back(p, g, 2.0)

    def symbolic_rows(
        self,
        logits: Sequence[sympy.Expr],
        parameters: Symbols = None,
        support: int | None = None,
    ) -> list[sympy.Expr]:
        """Return one row; τ is the largest of (Σ_{i∈T} h_i − 1)/|T| over all sets T of keys.

        Parameters
        ----------
        support : int, optional
            Take it as given that the logits descend and the first ``support`` keys are those with weight. Without it
            the formula holds for any logits, and rows of more than 8 keys are refused.
        """
        import sympy

        if support is not None:
            check_support(self.name, support, len(logits))
            tau = (sum(logits[:support]) - 1) / sympy.Integer(support)
            return [h - tau if i < support else sympy.Integer(0) for i, h in enumerate(logits)]
        if len(logits) > _LONGEST_ROW:
            raise InputError("keys", len(logits), f"a symbolic row has at most {_LONGEST_ROW}; give its support")
        sets = [chosen for size in range(1, len(logits) + 1) for chosen in combinations(logits, size)]
        tau = sympy.Max(*((sum(chosen) - 1) / sympy.Integer(len(chosen)) for chosen in sets))
        return [sympy.Max(h - tau, 0) for h in logits]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        """Return α = 1/m + (1 − 1/m)(u − v), between 0 and 1, and (1 − α)/(m − 1)."""
        import sympy

        raised = sympy.Max(0, sympy.Min(1, 1 / m + (1 - 1 / m) * (u - v)))
        return raised, (1 - raised) / (m - 1)


def check_support(score: str, support: int, keys: int) -> None:
    """Raise InputError unless 1 ≤ support ≤ keys."""
    if not 1 <= support <= keys:
        raise InputError(f"score {score}: support", support, f"must be between 1 and the {keys} keys")
