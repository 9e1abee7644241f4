"""Softmax attention at any temperature, map estimator: a gap Δ buys the log odds Δ/T (docs/theory.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action import token_data
from phasekit.theory.action.base import Array, Curved, Mask, Point
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

#: Nodes at which the pull of tokens that aren't uniform is looked at, and log odds beyond ln L that are the last ones.
_PULL_NODES, _RESOLVED = 128, 40.0


class GapPrice(Price):
    """One logit per row, that of the copied position, stands a gap Δ above the others; the path coordinate is δ = Δ/T.

    Positional and token+position inputs give the same action: softmax ignores a shift of a row, and the pattern needs
    the position-position block of G only.
    """

    coordinates = ("gap",)

    def physical(self, point: Point, p: Parameters) -> Point:
        return (point[0] * gap_scale(p),)

    def state(self, point: Point, p: Parameters) -> State:
        scale = gap_scale(p) / temperature(p)
        return State(point, np.asarray(point[0] * scale), (scale,), (np.zeros(()),))

    def place(self, u: Array, p: Parameters) -> Cheapest:
        scale = gap_scale(p) / temperature(p)
        return Cheapest((u / scale,), u, u / scale**2)

    def path(self, p: Parameters, cells: int) -> Array:
        # The data pull towards larger gaps at every Δ (their force is single-signed), so every stationary point lies
        # between 0 and a gap where the prior is sure to win.
        check_slope(1 / temperature(p), p)
        if p.setting.mask.hides:  # rows in a field: the bounds below are those of rows that move together
            return even_in_asinh(affordable_gap(p) / temperature(p), cells)
        stiffness = (p.L - 1) / (p.logit_scale / temperature(p)) ** 2
        if p.setting.tokens.uniform:
            first, last = 0.0, largest_odds(p, lambda delta: stiffness * delta)
        else:
            # Without a pull at equal logits these are a minimum, which the path has to pass.
            first, last = -1e-3, _last_pull(p, stiffness)
        return last[:, None] * np.linspace(first, 1.0, cells + 1)


class SoftmaxMap(TwoLevelMap, Curved):
    """S(gap) of softmax, without or with a temperature."""

    cells: ClassVar[int] = 32  # 24 find the same minima as 512 in 40 000 random models

    def __init__(self) -> None:
        super().__init__(GapPrice())

    def path(self, p: Parameters, cells: int) -> Array:
        nodes = super().path(p, cells)
        if not (p.setting.tokens.separation(p.V) > 1).any():
            return nodes
        # Which tokens a row attends to also says which one it copies not: there are minima with a negative gap.
        steps = np.arange(cells) / cells
        first = _last_pull(p, (p.L - 1) / (p.logit_scale / temperature(p)) ** 2, -1.0)[:, None]
        return np.concatenate([first + (nodes[:, :1] - first) * steps, nodes], axis=1)

    def curve_nodes(self, p: Parameters) -> Array:
        return nodes_up_to_copying(self.price, p)


def temperature(p: Parameters) -> Array:
    """Return T; 1 for softmax itself."""
    return np.asarray(p.score.get("T", np.ones(())))


def _last_pull(p: Parameters, stiffness: Array, sign: float = 1.0) -> Array:
    """Return log odds of a sign beyond which the prior wins, for tokens whose force there has no simple bound.

    It is read off at nodes up to the odds whose price is all that the data can give, or that nothing resolves.
    """
    furthest = np.minimum(affordable_gap(p) / temperature(p), np.log(p.L) + _RESOLVED)
    nodes = even_in_asinh(furthest, _PULL_NODES)
    pull, _ = token_data.force(sign * nodes, p.strength[:, None], p.expand())
    pulled = sign * pull > stiffness[:, None] * nodes
    last = np.where(pulled.any(1), _PULL_NODES - pulled[:, ::-1].argmax(1), 1)
    return sign * np.take_along_axis(nodes, np.minimum(last + 1, _PULL_NODES)[:, None], 1)[:, 0]


def largest_odds(p: Parameters, prior_force: Callable[[Array], Array]) -> Array:
    """Return log odds above every stationary point, given the prior's force at δ (which must not fall with it).

    The data's force is at most ``pull(δ) = P(V−1)/(κV) · t (1−α) [1 + t(1−α)/(L−1)] / (1+tα²)²``, which falls with δ,
    while the prior's doesn't; where they cross no stationary point lies beyond. The crossing is bracketed by doubling,
    then halved a few times (it only has to be an upper bound, not a tight one).
    """
    t = p.strength
    amplitude = p.P * (p.V - 1) / (p.kappa * p.V) * t

    def prior_wins(delta: Array) -> Mask:
        other = 1 / (np.exp(delta) + (p.L - 1))  # the weight of each other key; 1 − α = (L − 1) · other
        alpha = 1 - (p.L - 1) * other
        resistance = prior_force(delta) * (1 + t * alpha**2) ** 2
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
