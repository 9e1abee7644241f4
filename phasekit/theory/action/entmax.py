"""Sparsemax and α-entmax, map estimator: their row of two levels is known exactly (docs/theory.md, section 6).

With k = α − 1 (sparsemax: k = 1) a gap p^k (1 − e^(−kδ))/k gives the copy entry the weight p, at log odds δ. Rows
ignore a shift, so the cost is (L−1) gap²/(2σ_g²). At the gap 1/k the copy entry has all the weight, and more changes
nothing: there the action has a kink, where the prior's whole force sets in. For k ≥ 1 the minimum can sit in the kink;
for k < 1 it can come closer to it than float64 tells gaps apart, which is why points are given by δ, not by the gap.
"""

from __future__ import annotations

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Curved, Isolated, Jet, Kinked, Mask, Point, StationaryPoints
from phasekit.theory.action.generated import two_level as generated
from phasekit.theory.action.price import Cheapest, Price, State, affordable_gap, even_in_asinh, gap_scale
from phasekit.theory.action.two_level import TwoLevelMap

#: Log odds at which the copy entry counts as having all the weight (squares of their exponential still fit float64).
_ALL = 320.0
#: Log odds beyond which a gap that ends in a kink (k ≥ 1) isn't told from it.
_RESOLVED = 36.0
#: Copy weight odds at the end of the curve of stationary points: α = 1 − 1e-4.
_LAST_ODDS = np.log(1e4)
_CURVE_NODES = 400
#: Equal weights 1/L enter as L^(−k), which must be no smaller than the rounding of 1.
_LARGEST_EXPONENT = 37.0
#: Gaps this close to 1/k, relative, are those of log odds that the gap doesn't resolve.
_CLOSE = 1e-9
#: α − 1 of softmax is 0, and so are formulas of this k to the last digit.
_SMALLEST_K = 1e-300


class EntmaxPrice(Price):
    """The path coordinate and the point's label are δ: the emitted gap(δ) needs no inverse there."""

    coordinates = ("gap",)

    def physical(self, point: Point, p: Parameters) -> Point:
        return (_gap(point[0], p)[0],)

    def state(self, point: Point, p: Parameters) -> State:
        gap, rise, bend = _gap(point[0], p)
        scale = gap_scale(p) / rise  # dδ/dz
        return State((gap / gap_scale(p),), point[0], (scale,), (-(scale**2) * bend / rise,))

    def place(self, u: Array, p: Parameters) -> Cheapest:
        u = np.minimum(u, _ALL)
        gap, rise, _ = _gap(u, p)
        return Cheapest((u,), u, gap / gap_scale(p) ** 2 * rise)

    def moved(self, point: Point, step: Array, slopes: Array, p: Parameters) -> Point:
        delta = np.clip(point[0] + slopes[..., 0] * step[..., 0], 0.0, _ALL)  # a point is labelled by δ
        return (np.where((_k(p) >= 1) & (delta > _RESOLVED), _ALL, delta),)

    def in_kink(self, point: Point, p: Parameters) -> Mask:
        return _in_kink(point[0], p)

    def path(self, p: Parameters, cells: int) -> Array:
        gap = affordable_gap(p)
        close = gap * _k(p) > 1 - _CLOSE
        last = np.where(close, _ALL, _odds(np.where(close, 0.0, gap), p))
        return even_in_asinh(last, cells)


class EntmaxMap(TwoLevelMap, Curved, Isolated, Kinked):
    """S(gap) of scores that give exact zeros."""

    def __init__(self) -> None:
        super().__init__(EntmaxPrice())

    def jet(self, z: Point, p: Parameters) -> Jet:
        """Return S and its derivatives; in the kink the gradient is the shortest subgradient: 0 in a minimum."""
        jet = super().jet(z, p)
        kink = _in_kink(z[0], p)
        gradient = np.where(kink[..., None], np.maximum(jet.gradient, 0.0), jet.gradient)
        return Jet(jet.value, gradient, np.where(kink[..., None, None], 1.0, jet.hessian))

    def curve_nodes(self, p: Parameters) -> Array:
        exponent = np.nanmax(_k(p) * np.log(p.L), initial=0.0)
        if exponent > _LARGEST_EXPONENT:
            allowed = f"transitions are resolved up to (alpha - 1) ln L = {_LARGEST_EXPONENT:g}, here {exponent:.3g}"
            raise InputError("alpha", float(np.nanmax(_k(p)) + 1), allowed)
        # For k < 1 the minimum at P* may have odds of L^(−k/(1 − k)) against the copy entry.
        k = np.minimum(_k(p), 1.0)
        further = np.where(k < 1, np.log(p.L) * k / np.where(k < 1, 1 - k, 1.0) + 10, 0.0)
        last = np.minimum(np.log(p.L - 1) + _LAST_ODDS + further, _ALL) + np.zeros(p.shape)
        return np.asarray((last[:, None] * np.linspace(0.0, 1.0, _CURVE_NODES + 1))[:, 1:])

    def end_of_rise(self, p: Parameters) -> Array:
        # The slope just before the kink is 0 at (1 + 1/t)² = pull. There dα/d gap is 1 for k > 1, 1 − 1/L for k = 1,
        # and 0 for k < 1: the data never reach it.
        k = _k(p)
        rise = np.where(k > 1, 1.0, np.where(k == 1, 1 - 1 / p.L, 0.0))
        pull = (p.V - 1) * k * rise * gap_scale(p) ** 2 / p.sigma_w**2
        reached = pull > 1
        t = 1 / (np.sqrt(np.where(reached, pull, 4.0)) - 1)
        return np.where(reached, p.with_strength(t).P, np.nan)

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return the minima in the kink: where the data still pull when the copy entry has all the weight."""
        pulled = self.profile(np.full(p.shape, _ALL), p).slope < 0
        owner = np.flatnonzero(pulled)
        return StationaryPoints(owner, (np.full(owner.size, _ALL),), np.full(owner.size, _ALL))


def _k(p: Parameters) -> Array:
    """Return α − 1; sparsemax has no number of its own."""
    return np.maximum(p.score["alpha"] - 1, _SMALLEST_K) if "alpha" in p.score else np.ones(p.shape)


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
    return np.where(gap == 0, 0.0, solve.newton(excess, low, np.full(gap.shape, _ALL), np.maximum(gap, 0.0)))


def _in_kink(delta: Array, p: Parameters) -> Mask:
    """Whether the copy entry has all the weight; for softmax (k → 0) there is no kink."""
    return np.asarray((delta >= _ALL) & (_k(p) > _SMALLEST_K))
