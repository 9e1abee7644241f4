"""Sparsemax and α-entmax, map estimator: their row of two levels is known exactly (docs/theory.md, section 6).

With k = α − 1 (sparsemax: k = 1) a gap p^k (1 − e^(−kδ))/k gives the copy entry the weight p, at log odds δ. Rows
ignore a shift, so the cost is (L−1) gap²/(2σ_g²). At the gap 1/k the copy entry has all the weight, and more changes
nothing: there the action has a kink, where the prior's whole force sets in. For k ≥ 1 the minimum can sit in the kink.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Jet, Mask, Point, Profile
from phasekit.theory.action.generated import two_level as generated
from phasekit.theory.action.two_level import TwoLevelMap, data_jet, gap_scale

#: Log odds beyond which nothing is resolved (their exponential is not far from what float64 can hold).
_LARGEST_ODDS = 600.0
#: Copy weight odds at the end of the curve of stationary points: α = 1 − 1e-4.
_LAST_ODDS = np.log(1e4)
_CURVE_NODES = 400


class EntmaxMap(TwoLevelMap):
    """S(gap) of scores that give exact zeros. The path coordinate is δ: the emitted gap(δ) needs no inverse there."""

    coordinates: ClassVar[tuple[str, ...]] = ("gap",)

    def physical(self, z: Point, p: Parameters) -> Point:
        return (z[0] * gap_scale(p),)

    def log_odds(self, z: Point, p: Parameters) -> Array:
        return _odds(z[0] * gap_scale(p), p)

    def jet(self, z: Point, p: Parameters) -> Jet:
        """Return S and its derivatives; in the kink the gradient is the shortest subgradient: 0 in a minimum."""
        delta = self.log_odds(z, p)
        data, (_, needed, bend) = data_jet(delta, p), _gap(delta, p)
        inside, kink = _inside(z[0], p), _in_kink(z[0], p)
        scale = np.where(inside, gap_scale(p) / needed, 0.0)  # dδ/dz
        curvature = scale**2 * (data.curvature - data.slope * bend / needed)
        gradient = np.where(kink, np.maximum(_slope_before_kink(p), 0.0), data.slope * scale + z[0])
        return Jet.of(data.value + z[0] ** 2 / 2, (gradient,), (curvature + 1,))

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the points at log odds ``u``, and dS/dδ there."""
        gap, rise, _ = _gap(u, p)
        return Profile((gap / gap_scale(p),), data_jet(u, p).slope + gap * (p.L - 1) / p.sigma_g**2 * rise)

    def price(self, u: Array, p: Parameters) -> tuple[Array, Array]:
        gap, rise, _ = _gap(u, p)
        return u, gap * (p.L - 1) / p.sigma_g**2 * rise

    def path(self, p: Parameters, cells: int) -> Array:
        last = _odds(np.minimum(super().path(p, 1)[:, -1], 1 / _k(p)), p)
        return np.asarray(np.sinh(np.arcsinh(last)[:, None] * np.linspace(0.0, 1.0, cells + 1)))

    def curve_nodes(self, p: Parameters) -> Array:
        # For k < 1 the minimum at P* may have odds of L^(−k/(1 − k)) against the copy entry.
        k = np.minimum(_k(p), 1.0)
        further = np.where(k < 1, np.log(p.L) * k / np.where(k < 1, 1 - k, 1.0) + 10, 0.0)
        last = np.minimum(np.log(p.L - 1) + _LAST_ODDS + further, _LARGEST_ODDS) + np.zeros(p.shape)
        return np.asarray((last[:, None] * np.linspace(0.0, 1.0, _CURVE_NODES + 1))[:, 1:])

    def end_of_rise(self, p: Parameters) -> Array:
        """Return the P at which the slope just before the kink vanishes: the minimum gets there, and stays."""
        # The slope is 0 at (1 + 1/t)² = pull.
        pull = (p.V - 1) * _k(p) * _rise_at_kink(p) * gap_scale(p) ** 2 / p.sigma_w**2
        reached = pull > 1
        return np.where(reached, p.kappa * p.V / p.sigma_w**2 / (np.sqrt(np.where(reached, pull, 4.0)) - 1), np.nan)

    def further(self, p: Parameters) -> tuple[NDArray[np.int64], Point, Array]:
        """Return the minima in the kink: where the data still pull when the copy entry has all the weight."""
        owner = np.flatnonzero(_slope_before_kink(p) < 0)
        kink = (1 / _k(p))[owner]
        return owner, (kink / gap_scale(p[owner]),), np.full(owner.size, np.inf)


def _k(p: Parameters) -> Array:
    """Return α − 1; sparsemax has no number of its own."""
    return np.asarray(p.score["alpha"] - 1) if "alpha" in p.score else np.ones(p.shape)


def _gap(delta: Array, p: Parameters) -> tuple[Array, Array, Array]:
    """Return the gap and its first two derivatives in δ."""
    return generated.entmax_gap(delta, p.L, _k(p))


def _odds(gap: Array, p: Parameters) -> Array:
    """Return the log odds at a gap; the largest ones resolved from the kink on."""
    gap = np.broadcast_to(gap, np.broadcast_shapes(np.shape(gap), p.shape))

    def excess(delta: Array) -> tuple[Array, Array]:
        reached, rise, _ = _gap(delta, p)
        return reached - gap, rise

    low = np.minimum(-1.0, gap)  # δ ≥ gap, for 1 − e^(−kδ) ≥ k·gap
    return np.where(gap == 0, 0.0, solve.newton(excess, low, np.full(gap.shape, _LARGEST_ODDS), np.maximum(gap, 0.0)))


def _inside(z: Array, p: Parameters) -> Mask:
    """Whether the copy entry has not all the weight yet."""
    return np.asarray(z * gap_scale(p) * _k(p) < 1 - 1e-15)


def _in_kink(z: Array, p: Parameters) -> Mask:
    return np.asarray(np.abs(z * gap_scale(p) * _k(p) - 1) <= 1e-15)


def _slope_before_kink(p: Parameters) -> Array:
    """Return dS/dz just before the copy entry has all the weight.

    There dS/dα = −P(V−1)/(κV) · t/(1+t)² from the data.
    """
    t = p.strength
    pull = p.P * (p.V - 1) / (p.kappa * p.V) * t / (1 + t) ** 2
    return np.asarray(1 / (_k(p) * gap_scale(p)) - pull * _rise_at_kink(p) * gap_scale(p))


def _rise_at_kink(p: Parameters) -> Array:
    """Return dα/d gap just before the kink: 1 for k > 1, 1 − 1/L for k = 1, 0 for k < 1 (the data never reach it)."""
    k = _k(p)
    return np.where(k > 1, 1.0, np.where(k == 1, 1 - 1 / p.L, 0.0))
