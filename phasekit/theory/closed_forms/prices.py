"""What a score is to the closed form of P*: the price of its log odds, state by state (``phasekit derive laws``).

For each log odds δ there is a cheapest state of the logits. These states are numbered by a coordinate that grows with δ
from 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.scores import SSA, Entmax, Score, Softmax, TemperatureSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import score_laws
from phasekit.theory.action.softmax import temperature

_LARGEST_ODDS = 600.0  # log odds whose exponential float64 still holds


class CheapestLogits(NamedTuple):
    """Odds x against the copy entry, elasticity D = d δ/d ln(logits), and price 2C of the logits."""

    odds: Array
    elasticity: Array
    price: Array


class OddsPrice(ABC):
    """The cheapest logits of one score; vectorised over models."""

    @abstractmethod
    def cheapest(self, coordinate: Array, p: Parameters) -> CheapestLogits:
        """Return the cheapest logits at a coordinate above 0."""

    @abstractmethod
    def end(self, p: Parameters) -> Array:
        """Return a coordinate beyond that of any jump."""


class SoftmaxPrice(OddsPrice):
    """The gap is δ itself, and D is the gap; at temperature T logits count 1/T."""

    def cheapest(self, coordinate: Array, p: Parameters) -> CheapestLogits:
        price = (p.L - 1) * (coordinate / effective_sigma_g(p)) ** 2
        return CheapestLogits((p.L - 1) * np.exp(-coordinate), coordinate, price)

    def end(self, p: Parameters) -> Array:
        return np.asarray(2 * np.log(p.L) + 5)  # beyond δ = ln[(L − 1)(δ − 1)], where t = 0


class SSAPrice(OddsPrice):
    """The coordinate is the copy entry's share of δ, n ln(1 + bu)."""

    def cheapest(self, coordinate: Array, p: Parameters) -> CheapestLogits:
        n, b, cost = p.score["n"], p.score["b"], p.pooling_cost
        u = np.expm1(coordinate / n) / b
        depth = score_laws.ssa_depth(u, p.L, cost, b)
        delta, elasticity, price = score_laws.ssa_price(u, depth, p.L, cost, p.logit_scale, n, b)
        return CheapestLogits((p.L - 1) * np.exp(-delta), elasticity, price)

    def end(self, p: Parameters) -> Array:
        return np.asarray(np.log(p.L) + np.log(2 * p.score["n"]))  # D < 2n, and t = 0 at δ = ln[(L − 1)(D − 1)]


class EntmaxPrice(OddsPrice):
    """The coordinate is δ."""

    def cheapest(self, coordinate: Array, p: Parameters) -> CheapestLogits:
        elasticity, price = score_laws.entmax_price(coordinate, p.L, p.logit_scale, p.score["alpha"] - 1)
        return CheapestLogits((p.L - 1) * np.exp(-coordinate), elasticity, price)

    def end(self, p: Parameters) -> Array:
        # The copy entry has all but x ~ L^(−1/(m − 1)) of the weight where data are scarce; m = 1/(α − 1) > 1.
        m = 1 / np.maximum(p.score["alpha"] - 1, 1e-9)
        return np.minimum(np.log(p.L) * m / np.maximum(m - 1, 1e-9) + 30, _LARGEST_ODDS)


def effective_sigma_g(p: Parameters) -> Array:
    """Return σ_g, or σ_g/T of temperature softmax."""
    return np.asarray(p.logit_scale / temperature(p))


def price_of(score: Score) -> OddsPrice | None:
    """Return the price of a score's log odds; None for scores without a closed form of P*."""
    if isinstance(score, Softmax | TemperatureSoftmax):
        return SoftmaxPrice()
    if isinstance(score, SSA):
        return SSAPrice()
    return EntmaxPrice() if isinstance(score, Entmax) else None
