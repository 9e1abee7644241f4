"""Log odds δ(u, v) of two levels of logits, with derivatives: what a normalised score is to the two-level theory.

u is the logit of the copy entry, v that of all others; δ = ln[(L−1) α/(1−α)] is the log odds of the copy weight α
against the weight of any other entry. A score of the softmax family has δ = t(u) − t(v), where t and its derivatives
come from the score's own symbolic form. A mixture blends the weights, and needs nothing but its components' log odds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.scores import Mixture, Score
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated.score_transforms import TRANSFORMS


class OddsJet(NamedTuple):
    """δ with its first and second derivatives in the copy entry's logit u and the others' v."""

    value: Array
    u: Array
    v: Array
    uu: Array
    uv: Array
    vv: Array


class LogOdds(ABC):
    """δ(u, v) of one score; vectorised over models and points."""

    @abstractmethod
    def jet(self, u: Array, v: Array, p: Parameters) -> OddsJet:
        """Return δ and its derivatives; ``p.score`` has the score's numbers."""


def log_odds_of(score: Score) -> LogOdds:
    """Return the log odds of a score.

    Raises
    ------
    InputError
        For a score that isn't made of smooth elementwise maps.
    """
    if isinstance(score, ElementwiseSoftmax):
        return ElementwiseOdds(score)
    if isinstance(score, Mixture):
        return MixtureOdds(score)
    raise InputError("score", score.name, "has no theory: it isn't made of elementwise maps and softmax")


class ElementwiseOdds(LogOdds):
    """δ = t(u) − t(v)."""

    def __init__(self, score: ElementwiseSoftmax, fixed: bool = False) -> None:
        self._numbers = score.numbers
        self._fixed = fixed
        self._upper, self._lower = _transform_jets(score)

    def jet(self, u: Array, v: Array, p: Parameters) -> OddsJet:
        (up, up1, up2), (down, down1, down2) = self._transform(u, p), self._transform(v, p)
        return OddsJet(up - down, up1, -down1, up2, np.zeros_like(up2 + down2), -down2)

    def _transform(self, x: Array, p: Parameters) -> tuple[Array, Array, Array]:
        """Return t(x), t'(x), t''(x)."""
        numbers = self._numbers if self._fixed else p.score
        values = [numbers[name] for name in self._numbers]
        size, positive = np.abs(x), np.asarray(x) >= 0
        if positive.all():
            return self._upper(size, *values)
        above, below = self._upper(size, *values), self._lower(size, *values)
        t, t1, t2 = (np.where(positive, one, other) for one, other in zip(above, below, strict=True))
        return t, t1, t2


class MixtureOdds(LogOdds):
    """α = Σ w_c α_c of components with log odds δ_c; weights and components' numbers are those of the description."""

    def __init__(self, score: Mixture) -> None:
        smooth = all(isinstance(part, ElementwiseSoftmax | Mixture) for part in score.scores)
        if not smooth:
            names = ", ".join(part.name for part in score.scores)
            raise InputError("mixture", names, "has a theory if every component is of the softmax family")
        self._shares = score.fixed_shares
        self._parts: list[LogOdds] = [
            MixtureOdds(part) if isinstance(part, Mixture) else ElementwiseOdds(part, fixed=True)
            for part in score.scores
            if isinstance(part, ElementwiseSoftmax | Mixture)
        ]

    def jet(self, u: Array, v: Array, p: Parameters) -> OddsJet:
        copy, others = np.zeros(()), np.zeros(())
        first = [np.zeros(()), np.zeros(())]
        second = [np.zeros(()), np.zeros(()), np.zeros(())]
        for share, part in zip(self._shares, self._parts, strict=True):
            part_jet = part.jet(u, v, p)
            away = (p.L - 1) * np.exp(-part_jet.value)
            weight = share / (1 + away)
            rest = weight * away  # 1 − α without a difference
            copy, others = copy + weight, others + rest
            slope = rest / (1 + away)  # w α (1 − α)
            bend = slope * (away - 1) / (1 + away)
            first = [total + slope * one for total, one in zip(first, part_jet[1:3], strict=True)]
            products = (part_jet.u**2, part_jet.u * part_jet.v, part_jet.v**2)
            second = [
                total + slope * one + bend * product
                for total, one, product in zip(second, part_jet[3:], products, strict=True)
            ]
        # δ = ln(L−1) + ln α − ln(1−α)
        steep, curve = 1 / (copy * others), (copy - others) / (copy * others) ** 2
        on_u, on_v = first
        products = (on_u**2, on_u * on_v, on_v**2)
        bent = [steep * one + curve * product for one, product in zip(second, products, strict=True)]
        return OddsJet(np.log((p.L - 1) * copy / others), steep * on_u, steep * on_v, *bent)


#: (t, t', t'') at ±|x|, from |x| and the score's numbers in their order.
_HalfJet = Callable[..., tuple[Array, Array, Array]]


def _transform_jets(score: ElementwiseSoftmax) -> tuple[_HalfJet, _HalfJet]:
    """Return NumPy functions of the transform, one for each sign of the logit: signs then are no condition.

    Those of the package's own scores are emitted; a user's are made here, which takes SymPy.
    """
    if type(score).__module__.partition(".")[0] == "phasekit" and score.name in TRANSFORMS:
        upper, lower = TRANSFORMS[score.name]
        return _spread(upper), _spread(lower)
    import sympy

    size = sympy.Symbol("size", positive=True)
    symbols = {name: sympy.Symbol(name, positive=True) for name in score.numbers}
    upper, lower = (sympy.sympify(score.symbolic_transform(sign * size, **symbols)) for sign in (1, -1))
    arguments = (size, *symbols.values())
    return _half_jet(upper, 1, arguments), _half_jet(lower, -1, arguments)


@lru_cache(maxsize=64)
def _half_jet(t: Any, sign: int, arguments: tuple[Any, ...]) -> _HalfJet:
    """Compile t and its derivatives; formulas with other numbers of the score are the same formula."""
    import sympy
    from sympy.codegen.rewriting import log1p_opt, optimize

    jet = [sympy.simplify(sign**order * sympy.diff(t, arguments[0], order)) for order in range(3)]
    written = [optimize(expression, [log1p_opt]) for expression in jet]
    return _spread(sympy.lambdify(arguments, written, modules=["scipy", "numpy"], cse=True))


def _spread(bare: Callable[..., Sequence[Array]]) -> _HalfJet:
    """Give constant results the shape of the arguments."""

    def spread(*arguments: Array) -> tuple[Array, Array, Array]:
        shape = np.broadcast_shapes(*(np.shape(argument) for argument in arguments))
        t, t1, t2 = (np.broadcast_to(np.asarray(part, dtype=float), shape) for part in bare(*arguments))
        return t, t1, t2

    return spread
