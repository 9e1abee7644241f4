"""Any normalised score, map estimator: one raised logit a row (docs/theory.md, section 6).

A row that gives weight α to its copy entry and the same weight to each other entry is described by one number, the log
odds δ = ln[(L−1) α/(1−α)] of the copy entry against any other one. In δ the data part of the action is that of softmax
attention, whatever the score. Scores differ in what it costs to reach δ.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.scores import Score
from phasekit.theory import solve
from phasekit.theory.action.base import Action, Array, Averages, Jet, Point, Profile
from phasekit.theory.action.generated import softmax_map
from phasekit.theory.action.generated import two_level as generated
from phasekit.theory.action.log_odds import OddsJet, log_odds_of

#: Half the range of ln t that is searched.
_LOG_RANGE = 150.0


class Data(NamedTuple):
    """Φ(δ) and its first two derivatives."""

    value: Array
    slope: Array
    curvature: Array


class TwoLevelMap(Action):
    """What all normalised scores share: the data part over log odds."""

    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")
    symmetric: ClassVar[bool] = False
    course: ClassVar[str] = "folds"
    cells: ClassVar[int] = 128

    def loss(self, z: Point, p: Parameters) -> Array:
        return softmax_map.loss(self.log_odds(z, p), p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa)

    def averages(self, z: Point, p: Parameters) -> Averages:
        return Averages(*softmax_map.averages(self.log_odds(z, p), p.L))

    @abstractmethod
    def log_odds(self, z: Point, p: Parameters) -> Array:
        """Return δ."""

    @abstractmethod
    def price(self, u: Array, p: Parameters) -> tuple[Array, Array]:
        """Return δ at path coordinates ``u`` and the force dS_prior/dδ of the prior there; the data are in neither."""

    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        """Return the t at which the data's force, which grows with t at every δ, is that of the prior."""
        delta, price = self.price(u, p)

        def excess(log_t: Array) -> tuple[Array, Array]:
            force, steepness = generated.data_force(delta, np.exp(log_t), p.V, p.L, p.sigma_w)
            with np.errstate(divide="ignore"):  # odds so large that the force underflows: no data balance the price
                return np.log(force / price), steepness

        edge = np.full(np.shape(delta), _LOG_RANGE)
        return np.asarray(np.exp(solve.newton(excess, -edge, edge, np.zeros(np.shape(delta)))))

    def path(self, p: Parameters, cells: int) -> Array:
        # The coordinate is the gap, in even steps of asinh: scores that grow as powers need gaps from 1 to thousands.
        # Beyond three times the gap whose prior alone costs all that the data can give, no minimum was ever found.
        last = 3 * p.sigma_g * np.sqrt(p.P / (p.kappa * (p.L - 1))) + 1e-3 + np.zeros(p.shape)
        return np.sinh(np.arcsinh(last)[:, None] * np.linspace(0.0, 1.0, cells + 1))


class SmoothMap(TwoLevelMap):
    """Smooth log odds δ(u, v) of logits u on the copy entry and v on the others: the softmax family, mixtures.

    In terms of the gap u − v and the row mean m the prior costs [(L−1) gap² + λ m²]/(2σ_g²), λ the pooling cost. At a
    stationary point both feel the same −Φ'(δ): λ m δ_gap = (L−1) gap δ_m contains neither the data nor P. So the
    stationary points of all P lie on one curve m(gap), on which the search for minima runs.

    Raises
    ------
    InputError
        For a score without smooth log odds.
    """

    coordinates: ClassVar[tuple[str, ...]] = ("gap", "mean")

    def __init__(self, score: Score) -> None:
        self.score = score
        self._odds = log_odds_of(score)

    def physical(self, z: Point, p: Parameters) -> Point:
        return z[0] * gap_scale(p), z[1] * _mean_scale(p)

    def log_odds(self, z: Point, p: Parameters) -> Array:
        return self._at(self.physical(z, p), p).value

    def jet(self, z: Point, p: Parameters) -> Jet:
        odds = self._at(self.physical(z, p), p)
        data = data_jet(odds.value, p)
        (gap, mean), (gap_gap, gap_mean, mean_mean) = _slopes(odds, p), _bends(odds, p)
        a, b = gap_scale(p), _mean_scale(p)
        gradient = (a * data.slope * gap + z[0], b * data.slope * mean + z[1])
        gg = a**2 * (data.curvature * gap**2 + data.slope * gap_gap) + 1
        gm = a * b * (data.curvature * gap * mean + data.slope * gap_mean)
        mm = b**2 * (data.curvature * mean**2 + data.slope * mean_mean) + 1
        return Jet.of(data.value + (z[0] ** 2 + z[1] ** 2) / 2, gradient, (gg, gm, mm))

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the points with relaxed mean, and ∂S/∂gap there, which has the sign of the profile's slope."""
        mean = self._relaxed_mean(u, p)
        z = (u / gap_scale(p), mean / _mean_scale(p))
        odds = self._at((u, mean), p)
        return Profile(z, data_jet(odds.value, p).slope * _slopes(odds, p)[0] + u * (p.L - 1) / p.sigma_g**2)

    def _at(self, x: Point, p: Parameters) -> OddsJet:
        return self._odds.jet(*_levels(x, p), p)

    def price(self, u: Array, p: Parameters) -> tuple[Array, Array]:
        odds = self._at((u, self._relaxed_mean(u, p)), p)
        return odds.value, u * (p.L - 1) / (p.sigma_g**2 * _slopes(odds, p)[0])

    def _relaxed_mean(self, gap: Array, p: Parameters) -> Array:
        """Return the m with λ m δ_gap = (L−1) gap δ_m: on the side of the pull, no further than a whole gap."""
        gap = np.broadcast_to(gap, np.broadcast_shapes(np.shape(gap), p.shape))

        def balance(mean: Array) -> tuple[Array, Array]:
            odds = self._at((gap, mean), p)
            (on_gap, on_mean), (_, gap_mean, mean_mean) = _slopes(odds, p), _bends(odds, p)
            value = p.pooling_cost * mean * on_gap - (p.L - 1) * gap * on_mean
            return value, p.pooling_cost * (on_gap + mean * gap_mean) - (p.L - 1) * gap * mean_mean

        pull = balance(np.zeros(gap.shape))[0]
        pull = np.where(
            np.abs(pull) <= 1e-15 * (p.L - 1) * np.abs(gap), 0.0, pull
        )  # rounding, of shift-invariant scores
        if not pull.any():
            return np.zeros(gap.shape)
        return solve.newton(balance, np.where(pull > 0, -gap, 0.0), np.where(pull < 0, gap, 0.0), np.zeros(gap.shape))


def data_jet(delta: Array, p: Parameters) -> Data:
    """Return Φ(δ) with its derivatives."""
    return Data(*generated.data_jet(delta, p.P, p.V, p.L, p.sigma_w, p.kappa))


def _levels(x: Point, p: Parameters) -> tuple[Array, Array]:
    """Return the logits of the copy entry and of all others, from gap and mean."""
    gap, mean = x
    return mean + gap * (1 - 1 / p.L), mean - gap / p.L


def _slopes(odds: OddsJet, p: Parameters) -> tuple[Array, Array]:
    """Return ∂δ/∂gap and ∂δ/∂mean: du/dgap = 1 − 1/L, dv/dgap = −1/L, du/dm = dv/dm = 1."""
    return odds.u * (1 - 1 / p.L) - odds.v / p.L, odds.u + odds.v


def _bends(odds: OddsJet, p: Parameters) -> tuple[Array, Array, Array]:
    """Return the second derivatives of δ: gap gap, gap mean, mean mean."""
    up, down = 1 - 1 / p.L, -1 / p.L
    return (
        odds.uu * up**2 + 2 * odds.uv * up * down + odds.vv * down**2,
        odds.uu * up + odds.uv * (up + down) + odds.vv * down,
        odds.uu + 2 * odds.uv + odds.vv,
    )


def gap_scale(p: Parameters) -> Array:
    """Return the prior standard deviation of the gap."""
    return np.asarray(p.sigma_g / np.sqrt(p.L - 1))


def _mean_scale(p: Parameters) -> Array:
    return np.asarray(p.sigma_g / np.sqrt(p.pooling_cost))
