"""A mixture: every head blends the weights of several scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from phasekit.errors import InputError
from phasekit.scores.composite import Composite

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.base import Learned, Symbols
    from phasekit.scores.parameters import ScoreParameters


class Mixture(Composite):
    """A = Σ_c w_c A^(c), a convex combination of the weights that component scores give to the same logits.

    Masks go to every component. Learned parameters are the components' own (``"1.n"``) and ``"shares"``: the w_c of
    each head, shape (components, heads, 1, 1).

    Parameters
    ----------
    scores : component scores
    shares : tuple of float, or one string of numbers joined by commas or +, optional
        The w_c: not negative, summing to 1. Equal by default. Learned shares start from here, above 0.
    """

    name: ClassVar[str] = "mixture"

    shares: tuple[float, ...] | None = Field(default=None, description="numbers joined by commas or +")

    @field_validator("shares", mode="before")
    @classmethod
    def _read_shares(cls, given: Any) -> Any:
        return given.replace("+", ",").split(",") if isinstance(given, str) else given

    @model_validator(mode="after")
    def _check_shares(self) -> Mixture:
        if self.shares is not None:
            if len(self.shares) != len(self.scores):
                raise InputError("shares", self.shares, f"must be {len(self.scores)} numbers, one for each score")
            if min(self.shares) < 0 or not math.isclose(sum(self.shares), 1, abs_tol=1e-9):
                raise InputError("shares", self.shares, "must not be negative and must sum to 1")
        return self

    @property
    def fixed_shares(self) -> tuple[float, ...]:
        """The w_c of the description."""
        return self.shares or (1 / len(self.scores),) * len(self.scores)

    def make_parameters(self, heads: int) -> ScoreParameters:
        from phasekit.scores.composite_parameters import MixtureParameters

        return MixtureParameters(self.scores, self.fixed_shares, heads)

    def rows(self, logits: Tensor, mask: Tensor | None = None, parameters: Learned = None) -> Tensor:
        from phasekit.scores.precision import check_tensors, widen

        check_tensors(self.name, logits=logits)
        wide = widen(logits)  # so that the blend is rounded, not its parts
        return self._blend(parameters, lambda c, own: self.scores[c].rows(wide, mask, own)).to(logits.dtype)

    def weights_from(
        self, query: Tensor, key: Tensor, scale: float, mask: Tensor | None, parameters: Learned, offset: int
    ) -> Tensor:
        from phasekit.scores.precision import widen

        if self.uses_logits:
            return super().weights_from(query, key, scale, mask, parameters, offset)
        q, k = widen(query), widen(key)
        return self._blend(parameters, lambda c, own: self.scores[c].weights_from(q, k, scale, mask, own, offset))

    def logit_gradient(self, z: Tensor, p: Tensor, g: Tensor, mask: Tensor | None, parameters: Learned) -> Tensor:
        def component(c: int, own: Learned) -> Tensor:
            score = self.scores[c]
            return score.logit_gradient(z, score.rows(z, mask, own), g, mask, own)

        return self._blend(parameters, component)

    def _blend(self, parameters: Learned, component: Callable[[int, Learned], Tensor]) -> Tensor:
        shares: Sequence[float] | Tensor = self.fixed_shares
        if parameters is not None:
            if "shares" not in parameters:
                raise InputError(f"score {self.name}: parameters", sorted(parameters), "must contain shares")
            shares = parameters["shares"]
            parameters = {name: value for name, value in parameters.items() if name != "shares"}
        parts = [component(c, own) for c, own in enumerate(self.component_parameters(parameters))]
        if len(shares) != len(parts):
            raise InputError(f"score {self.name}: shares", len(shares), f"must be one for each of {len(parts)} scores")
        total = parts[0] * shares[0]
        for c in range(1, len(parts)):
            total = total + parts[c] * shares[c]
        return total

    def symbolic_rows(self, logits: Sequence[sympy.Expr], parameters: Symbols = None) -> list[sympy.Expr]:
        parts = [score.symbolic_rows(logits) for score in self.scores]
        return [self._symbolic_blend(column) for column in zip(*parts, strict=True)]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Symbols = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        raised, other = zip(*(score.symbolic_two_level(u, v, m) for score in self.scores), strict=True)
        return self._symbolic_blend(raised), self._symbolic_blend(other)

    def _symbolic_blend(self, parts: Sequence[sympy.Expr]) -> sympy.Expr:
        import sympy

        shares = [sympy.Rational(repr(share)) for share in self.shares or ()]
        shares = shares or [sympy.Rational(1, len(self.scores))] * len(self.scores)
        return sum(share * part for share, part in zip(shares, parts, strict=True))
