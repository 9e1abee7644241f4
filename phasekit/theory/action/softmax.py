"""Softmax attention, map estimator: S as a function of the gap Δ (docs/theory.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array, Jet, Mask, Point, Profile
from phasekit.theory.action.generated import softmax_map as generated
from phasekit.theory.action.two_level import TwoLevelMap, gap_scale


class SoftmaxMap(TwoLevelMap):
    """One logit per row, that of the copied position, stands a gap Δ above the others.

    Positional and token+position inputs give the same action: softmax ignores a shift of a row, and the pattern needs
    the position-position block of G only.
    """

    coordinates: ClassVar[tuple[str, ...]] = ("gap",)
    cells: ClassVar[int] = 32  # 24 find the same minima as 512 in 40 000 random models

    def physical(self, z: Point, p: Parameters) -> Point:
        return (z[0] * gap_scale(p),)

    def jet(self, z: Point, p: Parameters) -> Jet:
        scale = gap_scale(p)
        value, slope, curvature = generated.jet(z[0] * scale, p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa)
        return Jet.of(value, (slope * scale,), (curvature * scale**2,))

    def log_odds(self, z: Point, p: Parameters) -> Array:
        return np.asarray(z[0] * gap_scale(p))

    def price(self, u: Array, p: Parameters) -> tuple[Array, Array]:
        return u, (p.L - 1) / p.sigma_g**2 * u

    def path(self, p: Parameters, cells: int) -> Array:
        # The path coordinate is the gap itself. The data pull towards larger gaps at every Δ (their force is
        # single-signed), so every stationary point lies between 0 and a gap where the prior is sure to win.
        return largest_gap(p, lambda gap: (p.L - 1) / p.sigma_g**2 * gap)[:, None] * np.linspace(0.0, 1.0, cells + 1)

    def profile(self, u: Array, p: Parameters) -> Profile:
        return Profile((u / gap_scale(p),), generated.gradient(u, p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa))


def largest_gap(p: Parameters, prior_force: Callable[[Array], Array]) -> Array:
    """Return a gap above every stationary point, given the prior's force at a gap (which must not fall with it).

    The data's force is at most ``pull(Δ) = P(V−1)/(κV) · t (1−α) [1 + t(1−α)/(L−1)] / (1+tα²)²``, which falls with Δ,
    while the prior's doesn't; where they cross no stationary point lies beyond. The crossing is bracketed by doubling,
    then halved a few times (it only has to be an upper bound, not a tight one).
    """
    t = p.strength
    amplitude = p.P * (p.V - 1) / (p.kappa * p.V) * t

    def prior_wins(gap: Array) -> Mask:
        other = 1 / (np.exp(gap) + (p.L - 1))  # the weight of each other key; 1 − α = (L − 1) · other
        alpha = 1 - (p.L - 1) * other
        resistance = prior_force(gap) * (1 + t * alpha**2) ** 2
        pull = amplitude * (p.L - 1) * other * (1 + t * other)
        return np.asarray(~(resistance <= pull))  # also for NaN, which has no gap to look for

    low, high = np.zeros(p.shape), np.ones(p.shape)
    while not (won := prior_wins(high)).all():
        low, high = np.where(won, low, high), np.where(won, high, 2 * high)
    for _ in range(6):
        middle = (low + high) / 2
        won = prior_wins(middle)
        low, high = np.where(won, low, middle), np.where(won, middle, high)
    return high
