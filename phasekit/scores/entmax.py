"""α-entmax: between softmax (α = 1) and sparsemax (α = 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.softmax import Softmax
from phasekit.scores.sparsemax import Sparsemax, check_support

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols


class Entmax(Score):
    """A_ij = [(α−1)H_ij − τ_i]₊^{1/(α−1)} with τ_i such that the row sums to one (arXiv:1905.05702).

    An additive mask is added to the logits. α = 1 is softmax, its limit.

    Parameters
    ----------
    alpha : float, 1 to 1e6
        A learned α stays above 1.
    """

    name: ClassVar[str] = "entmax"
    learnable: ClassVar[Mapping[str, float]] = {"alpha": 1.0}

    alpha: float = Field(default=1.5, ge=1, le=1e6, description="1: softmax, 2: sparsemax")

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.masks import read_mask
        from phasekit.scores.precision import check_tensors
        from phasekit.scores.sparse_rows import entmax_rows

        check_tensors(self.name, logits=logits)
        return entmax_rows(logits, read_mask(mask, logits), self._alpha(parameters, logits))

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        from phasekit.scores.sparse_rows import entmax_pull_back

        return entmax_pull_back(p, g, self._alpha(parameters, z))

    def _alpha(self, parameters: Learned, z: Tensor) -> Tensor | float:
        """Return α; as a number if it isn't learned, for which there are faster ways."""
        return self.alpha if parameters is None else self.values(parameters, z)["alpha"]

    def symbolic_rows(
        self,
        logits: Sequence[sympy.Expr],
        parameters: Symbols = None,
        support: int | None = None,
    ) -> list[sympy.Expr]:
        """Return one row, for α = 1, 3/2 or 2.

        Parameters
        ----------
        support : int, optional
            Take it as given that the logits descend and the first ``support`` keys are those with weight. α = 3/2
            needs it.
        """
        import sympy

        limit = self._limit(parameters)
        if isinstance(limit, Softmax):
            return limit.symbolic_rows(logits)
        if isinstance(limit, Sparsemax):
            return limit.symbolic_rows(logits, support=support)
        if support is None:
            raise InputError(f"score {self.name}: support", None, "a symbolic row needs it: how many keys have weight")
        check_support(self.name, support, len(logits))
        halves = [sympy.sympify(h) / 2 for h in logits]
        mean = sum(halves[:support]) / support
        spread = sum((h - mean) ** 2 for h in halves[:support])
        tau = mean - sympy.sqrt((1 - spread) / support)
        return [(h - tau) ** 2 if i < support else sympy.Integer(0) for i, h in enumerate(halves)]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        """Return the weights for α = 1, 3/2 or 2; for any other α see :meth:`symbolic_gap`.

        At α = 3/2 the square roots x, y of the two weights obey x − y = (u − v)/2 and x² + (m−1)y² = 1.
        """
        import sympy

        limit = self._limit(parameters)
        if limit is not None:
            return limit.symbolic_two_level(u, v, m)
        gap = sympy.Max(
            -1 / sympy.sqrt(m - 1), sympy.Min(1, (u - v) / 2)
        )  # beyond, one of the two levels has no weight
        y = (sympy.sqrt(m - (m - 1) * gap**2) - gap) / m
        return (y + gap) ** 2, y**2

    def symbolic_gap(self, weight: sympy.Expr, m: sympy.Expr, parameters: Symbols = None) -> sympy.Expr:
        """Return the gap u − v at which the raised entry has ``weight``, for any α (as long as all keys have weight).

        The inverse of :meth:`symbolic_two_level`: p = [(α−1)h − τ]^{1/(α−1)} for both levels, τ eliminated.
        """
        import sympy

        alpha = self.symbolic_values(parameters)["alpha"]
        other = (1 - weight) / (m - 1)
        if alpha == 1:
            return sympy.log(weight / other)
        return (weight ** (alpha - 1) - other ** (alpha - 1)) / (alpha - 1)

    def _limit(self, parameters: Symbols) -> Score | None:
        """Return the score that α = 1 or 2 stands for, None at α = 3/2, and refuse all other α."""
        import sympy

        alpha = self.symbolic_values(parameters)["alpha"]
        if alpha not in (1, sympy.Rational(3, 2), 2):
            raise InputError(f"score {self.name}: alpha", alpha, "weights have a closed form for 1, 3/2 and 2 only")
        return {1: Softmax(), 2: Sparsemax()}.get(alpha)
