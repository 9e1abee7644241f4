"""Scores with smooth log odds δ(u, v), map estimator: the softmax family and its mixtures (docs/theory.md, section 6).

Logits are u on the copy entry and v on the others. In terms of the gap u − v and the row mean m the prior costs
[(L−1) gap² + λ m²]/(2σ_g²), λ the pooling cost. At a stationary point both feel the same −Φ'(δ):
λ m δ_gap = (L−1) gap δ_m contains neither the data nor P. So the stationary points of all P lie on one curve m(gap).
"""

from __future__ import annotations

import numpy as np

from phasekit.model import Parameters
from phasekit.scores import Score
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Curved, Mask, Point
from phasekit.theory.action.log_odds import OddsJet, log_odds_of
from phasekit.theory.action.price import (
    Cheapest,
    Price,
    State,
    affordable_gap,
    check_slope,
    even_in_asinh,
    gap_scale,
    nodes_up_to_copying,
)
from phasekit.theory.action.two_level import TwoLevelMap

#: Log odds beyond which nothing is resolved (their exponential is not far from what float64 can hold).
_LARGEST_ODDS = 600.0
_HALVINGS = 12


class SmoothPrice(Price):
    """The path coordinate is the gap; the mean is the cheapest one.

    Raises
    ------
    InputError
        For a score without smooth log odds.
    """

    coordinates = ("gap", "mean")

    def __init__(self, score: Score) -> None:
        self._odds = log_odds_of(score)

    def physical(self, point: Point, p: Parameters) -> Point:
        return point[0] * gap_scale(p), point[1] * _mean_scale(p)

    def state(self, point: Point, p: Parameters) -> State:
        odds = self._at(self.physical(point, p), p)
        (gap, mean), (gap_gap, gap_mean, mean_mean) = _slopes(odds, p), _bends(odds, p)
        a, b = gap_scale(p), _mean_scale(p)
        return State(point, odds.value, (a * gap, b * mean), (a**2 * gap_gap, a * b * gap_mean, b**2 * mean_mean))

    def place(self, u: Array, p: Parameters) -> Cheapest:
        mean = self._relaxed_mean(u, p)
        odds = self._at((u, mean), p)
        with np.errstate(divide="ignore"):  # where δ no longer rises, as beyond a clip, nothing pays for more of it
            force = u * (p.L - 1) / (p.logit_scale**2 * _slopes(odds, p)[0])
        return Cheapest((u / gap_scale(p), mean / _mean_scale(p)), odds.value, force)

    def path(self, p: Parameters, cells: int) -> Array:
        return self.nodes(self._resolved(affordable_gap(p), p), p, cells)

    def nodes(self, last: Array, p: Parameters, cells: int) -> Array:
        """Return nodes even in asinh: log odds that grow as the logarithm of the gap need gaps of millions."""
        unit = self._unit(p)
        return unit[..., None] * even_in_asinh(last / unit, cells)

    def _unit(self, p: Parameters) -> Array:
        """Return the gap that changes the log odds by about 1, starting from equal logits."""
        equal = np.zeros(p.shape)
        slope = _slopes(self._at((equal, equal), p), p)[0]
        check_slope(slope, p)
        return np.asarray(10.0 ** -np.rint(np.log10(slope)))  # a power of ten is near enough

    def _resolved(self, gap: Array, p: Parameters) -> Array:
        """Return gaps up to ``gap``, but no larger than where the data's part of the action can still be computed."""

        def lost(gap: Array) -> Mask:
            return np.asarray(self._at((gap, self._relaxed_mean(gap, p)), p).value > _LARGEST_ODDS)

        too_far = lost(gap)
        low, high = np.minimum(self._unit(p), gap), gap
        for _ in range(_HALVINGS if too_far.any() else 0):  # of the interval's logarithm
            middle = np.sqrt(low * high)
            beyond = lost(middle)
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return np.where(too_far, low, gap)

    def _at(self, x: Point, p: Parameters) -> OddsJet:
        """Return the log odds at a gap and a mean."""
        gap, mean = x
        return self._odds.jet(mean + gap * (1 - 1 / p.L), mean - gap / p.L, p)

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
        size = np.abs(gap)  # negative gaps belong to layers that attend anywhere but to the right key
        return solve.newton(balance, np.where(pull > 0, -size, 0.0), np.where(pull < 0, size, 0.0), np.zeros(gap.shape))


class SmoothMap(TwoLevelMap, Curved):
    """S(gap, mean) of a score with smooth log odds.

    Raises
    ------
    InputError
        For a score without smooth log odds.
    """

    def __init__(self, score: Score) -> None:
        super().__init__(SmoothPrice(score))

    def curve_nodes(self, p: Parameters) -> Array:
        return nodes_up_to_copying(self.price, p)


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


def _mean_scale(p: Parameters) -> Array:
    return np.asarray(p.logit_scale / np.sqrt(p.pooling_cost))
