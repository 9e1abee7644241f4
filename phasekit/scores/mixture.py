"""A mixture: every head blends the weights of several scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from phasekit.errors import InputError
from phasekit.scores.composite import Composite

if TYPE_CHECKING:
    import sympy
    from torch import Tensor

    from phasekit.scores.parameters import ScoreParameters


class Mixture(Composite):
    """A = Σ_c w_c A^(c), a convex combination of the weights that component scores give to the same logits.

    Masks go to every component. Learned parameters are the components' own (``"1.n"``) and ``"shares"``: the w_c of
    each head, shape (components, heads, 1, 1).

    Parameters
    ----------
    scores : component scores
    shares : tuple of float, or one string of numbers joined by commas, optional
        The w_c: not negative, summing to 1. Equal by default. Learned shares start from here, above 0.
    """

    name: ClassVar[str] = "mixture"

    shares: tuple[float, ...] | None = Field(default=None, description="numbers joined by commas")

    @field_validator("shares", mode="before")
    @classmethod
    def _read_shares(cls, given: Any) -> Any:
        return given.split(",") if isinstance(given, str) else given

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

    def rows(
        self, logits: Tensor, mask: Tensor | None = None, parameters: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        from phasekit.scores.precision import widen

        wide = widen(logits)  # so that the blend is rounded, not its parts
        return self._blend(parameters, lambda c, own: self.scores[c].rows(wide, mask, own)).to(logits.dtype)

    def attention_weights(
        self,
        query: Tensor,
        key: Tensor,
        *,
        scale: float | None = None,
        mask: Tensor | None = None,
        parameters: Mapping[str, Tensor] | None = None,
        offset: int = 0,
    ) -> Tensor:
        from phasekit.scores.precision import widen

        if self.uses_logits:
            return super().attention_weights(query, key, scale=scale, mask=mask, parameters=parameters, offset=offset)

        def component(c: int, own: Mapping[str, Tensor] | None) -> Tensor:
            return self.scores[c].attention_weights(
                widen(query), widen(key), scale=scale, mask=mask, parameters=own, offset=offset
            )

        return self._blend(parameters, component).to(query.dtype)

    def pull_back(
        self,
        logits: Tensor,
        weights: Tensor,
        upstream: Tensor,
        mask: Tensor | None = None,
        parameters: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        from phasekit.scores.precision import widen

        wide = widen(logits)

        def component(c: int, own: Mapping[str, Tensor] | None) -> Tensor:
            score = self.scores[c]
            return score.pull_back(wide, score.rows(wide, mask, own), widen(upstream), mask, own)

        return self._blend(parameters, component).to(logits.dtype)

    def _blend(
        self,
        parameters: Mapping[str, Tensor] | None,
        component: Callable[[int, Mapping[str, Tensor] | None], Tensor],
    ) -> Tensor:
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

    def symbolic_rows(
        self, logits: Sequence[sympy.Expr], parameters: Mapping[str, sympy.Expr] | None = None
    ) -> list[sympy.Expr]:
        parts = [score.symbolic_rows(logits) for score in self.scores]
        return [self._symbolic_blend(column) for column in zip(*parts, strict=True)]

    def symbolic_two_level(
        self, u: sympy.Expr, v: sympy.Expr, m: sympy.Expr, parameters: Mapping[str, sympy.Expr] | None = None
    ) -> tuple[sympy.Expr, sympy.Expr]:
        raised, other = zip(*(score.symbolic_two_level(u, v, m) for score in self.scores), strict=True)
        return self._symbolic_blend(raised), self._symbolic_blend(other)

    def _symbolic_blend(self, parts: Sequence[sympy.Expr]) -> sympy.Expr:
        import sympy

        shares = [sympy.Rational(repr(share)) for share in self.shares or ()]
        shares = shares or [sympy.Rational(1, len(self.scores))] * len(self.scores)
        return sum(share * part for share, part in zip(shares, parts, strict=True))
