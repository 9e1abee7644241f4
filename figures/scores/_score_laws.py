"""P* of several scores in the three regimes of t = P*σ_w²/(κV), over more than four decades of L.

At V = 10⁹ the standard deviation σ_w is chosen for every score and L such that t is a given power of L. Exponents are
differences at fixed σ_w: the way to a point of a regime is free, the local law isn't.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Model, Parameters
from phasekit.scores import SSA, Entmax, Score, Softmax, Sparsemax
from phasekit.theory import solve
from phasekit.theory.action import action_for
from phasekit.theory.action.generated.score_laws import jump_balance
from phasekit.theory.closed_forms import ClosedForm, OddsPrice, closed_forms_of, price_of, regime_laws
from phasekit.theory.transitions import locate
from phasekit.theory.transitions.table import parameters_without_P

Array = NDArray[np.float64]

V = 10**9
#: ln t/ln L of the points of each regime.
STRENGTH = {"long_context": 1.5, "wide_vocabulary": 0.5, "scarce_data": -0.5}
#: Steps of L and V over which exponents are measured.
_STEP = 0.02


@dataclass(frozen=True)
class Case:
    """One score in one regime, and the exponents of L and V that its law has as L → ∞, in words."""

    name: str
    score: Score
    regime: str
    exponents: tuple[str, str]
    law: str = ""

    @property
    def threshold(self) -> str:
        """The threshold that the law is about: a jump, or the smooth crossover of sparsemax."""
        return "P_x" if isinstance(self.score, Sparsemax) else "P_star"

    @property
    def leading(self) -> ClosedForm:
        """The leading law."""
        return regime_laws(self.score)[self.law or self.regime]

    @property
    def closed(self) -> ClosedForm:
        """The self-consistent closed form."""
        return closed_forms_of(self.threshold, self.score)["any_regime"]


_SOFTMAX, _ENTMAX, _SPARSEMAX = Softmax(), Entmax(alpha=1.5), Sparsemax()
_SSA = {n: SSA(n=n, b=1) for n in (1, 2, 4)}
CASES = (
    Case("softmax", _SOFTMAX, "long_context", ("1 (ln² L)", "0")),
    Case("SSA n = 4", _SSA[4], "long_context", ("5/4", "0")),
    Case("SSA n = 2", _SSA[2], "long_context", ("3/2", "0")),
    Case("1.5-entmax", _ENTMAX, "long_context", ("1/2", "0")),
    Case("softmax", _SOFTMAX, "wide_vocabulary", ("1 (ln² LV)", "0 (ln² LV)")),
    Case("SSA n = 4", _SSA[4], "wide_vocabulary", ("6/5", "1/5")),
    Case("SSA n = 2", _SSA[2], "wide_vocabulary", ("4/3", "1/3")),
    Case("SSA n = 1", _SSA[1], "wide_vocabulary", ("5/3", "1/3"), "wide_vocabulary_pair"),
    Case("1.5-entmax", _ENTMAX, "wide_vocabulary", ("2/3", "1/3")),
    Case("sparsemax", _SPARSEMAX, "wide_vocabulary", ("1/2", "1/2"), "leading"),
    Case("softmax", _SOFTMAX, "scarce_data", ("1/2 (ln L)", "1/2")),
    Case("SSA n = 4", _SSA[4], "scarce_data", ("3/4", "1/2")),
    Case("SSA n = 2", _SSA[2], "scarce_data", ("1", "1/2")),
    Case("SSA n = 1", _SSA[1], "scarce_data", ("5/4", "1/2")),
    Case("1.5-entmax", _ENTMAX, "scarce_data", ("1/2", "1/2")),
    Case("sparsemax", _SPARSEMAX, "scarce_data", ("1/2", "1/2"), "leading"),
)


def follow(case: Case, L: Array) -> pd.DataFrame:
    """Return numeric threshold, closed form and law at every L, with local exponents.

    Returns
    -------
    DataFrame
        ``numeric``, ``closed``, ``law`` and the strength ``t`` of the data there; exponents of L (``exponent_L``, and
        ``closed_``, ``law_`` in front) and of V (numeric).

    Raises
    ------
    InputError
        If there is no such threshold at some L.
    """
    centre = models_in_regime(case, L)
    around = _neighbours(centre)
    numeric = locate(action_for(Model(V=V, L=64, score=case.score)), around)[case.threshold].reshape(5, -1)
    if not np.isfinite(numeric).all():
        raise InputError(case.name, L[np.isnan(numeric).any(axis=0)].tolist(), f"no {case.threshold} at these L")
    closed, law = (form(around).reshape(5, -1) for form in (case.closed, case.leading))
    return pd.DataFrame(
        {
            **{"score": case.name, "regime": case.regime, "L": L, "V": V, "sigma_w": centre.sigma_w},
            **{"numeric": numeric[0], "closed": closed[0], "law": law[0], "t": centre.replace(P=numeric[0]).strength},
            **{"exponent_L": _slope(numeric[1:3]), "exponent_V": _slope(numeric[3:5])},
            **{"closed_exponent_L": _slope(closed[1:3]), "law_exponent_L": _slope(law[1:3])},
        }
    )


def closed_along(case: Case, L: Array) -> pd.DataFrame:
    """Return the closed form over the law (``ratio``) and its local exponent (``exponent_L``)."""
    around = _neighbours(models_in_regime(case, L))
    closed, law = (form(around).reshape(5, -1) for form in (case.closed, case.leading))
    return pd.DataFrame({"L": L, "ratio": closed[0] / law[0], "exponent_L": _slope(closed[1:3])})


def _neighbours(centre: Parameters) -> Parameters:
    """Return flat models: those given, then with smaller L, larger L, smaller V, larger V."""
    steps = [(name, np.exp(sign * _STEP)) for name in ("L", "V") for sign in (-1, 1)]
    return _stack([centre, *(centre.replace(**{name: getattr(centre, name) * by}) for name, by in steps)])


def _slope(pair: Array) -> Array:
    return np.asarray(np.log(pair[1] / pair[0]) / (2 * _STEP))


def models_in_regime(case: Case, L: Array) -> Parameters:
    """Return models with V tokens at whose threshold t = L^STRENGTH, if the closed form is right.

    Raises
    ------
    InputError
        If there is no jump at that t and some L.
    """
    base = parameters_without_P(Model(V=V, L=64, score=case.score)).replace(L=L)
    t = L ** STRENGTH[case.regime]
    price = price_of(case.score)
    if price is None:  # sparsemax: t²/(1 + t/L) = σ_w² L/((V − 1) σ_g²)
        return base.replace(sigma_w=t * np.sqrt((V - 1) / (L * (1 + t / L))))
    coordinate = _coordinate_at(t, price, base.ravel())
    if np.isnan(coordinate).any():
        raise InputError(case.name, L[np.isnan(coordinate)].tolist(), "no jump in this regime at these L")
    x, D, cost = price.cheapest(coordinate, base.ravel())
    return base.replace(sigma_w=t * np.sqrt((V - 1) / (cost * D * x * (1 + x * (1 + t / (L - 1))))))


def _coordinate_at(t: Array, price: OddsPrice, p: Parameters) -> Array:
    """Return the place at which the upper minimum needs data of strength t; t falls from ∞ to 0 along its stretch."""

    def excess(coordinate: Array, p: Parameters, t: Array) -> Array:
        over, under, _ = jump_balance(*price.cheapest(coordinate, p), p.V, p.L, p.sigma_w)
        return np.where(over > 0, np.where(under > 0, (over - t * under) / (over + t * np.abs(under)), 1.0), -1.0)

    nodes = price.end(p)[:, None] * np.linspace(0, 1, 801)[1:]
    values = excess(nodes, p.expand(), t[:, None])
    falls = (values[:, :-1] > 0) & (values[:, 1:] <= 0)
    last = falls.shape[1] - 1 - falls[:, ::-1].argmax(axis=1)
    rows = np.arange(t.size)
    return solve.root(excess, nodes[rows, last], nodes[rows, last + 1], p, t)


def _stack(models: list[Parameters]) -> Parameters:
    """Return several sets of models as one flat one."""
    flat = [model.ravel() for model in models]
    return flat[0].with_numbers(np.concatenate(each) for each in zip(*(model.numbers for model in flat), strict=True))
