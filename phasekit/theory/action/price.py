"""What the logits of a normalised row cost, and the weight that they buy: all that sets one score apart from another.

A *price* is one curve of states, the cheapest logits for each log odds δ of the copy entry, numbered by a path
coordinate u that grows with δ. The data part of the action depends on δ alone (:mod:`.two_level`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Array, Mask, Point

_CURVE_NODES = 400
#: The curve of stationary points is followed up to this copy weight.
_COPYING = 0.99
#: What σ_g may be for softmax, whose slope is 1.
_STEEPEST = 1e9


class State(NamedTuple):
    """Any logits: their whitened coordinates, so that they cost ‖z‖²/2, and δ with its derivatives in z."""

    z: tuple[Array, ...]
    delta: Array
    first: tuple[Array, ...]
    second: tuple[Array, ...]
    """Upper triangle by rows: (11,) of one coordinate, (11, 12, 22) of two."""


class Cheapest(NamedTuple):
    """The cheapest logits at a path coordinate: their point, δ there, and what the last bit of δ costs, d cost/dδ."""

    point: Point
    delta: Array
    force: Array


class Price(ABC):
    """What log odds cost under one score; vectorised over models and points.

    Attributes
    ----------
    coordinates : names of the physical coordinates
    """

    coordinates: tuple[str, ...]

    @abstractmethod
    def physical(self, point: Point, p: Parameters) -> Point:
        """Turn a point into physical coordinates."""

    @abstractmethod
    def state(self, point: Point, p: Parameters) -> State:
        """Return cost and log odds of any point."""

    @abstractmethod
    def place(self, u: Array, p: Parameters) -> Cheapest:
        """Return the cheapest state at path coordinates ``u``."""

    def moved(self, point: Point, step: Array, slopes: Array, p: Parameters) -> Point:
        """Return the points that lie a step of the whitened coordinates (last axis) away; ``slopes`` are dδ/dz."""
        return tuple(x + step[..., k] for k, x in enumerate(point))

    def in_kink(self, point: Point, p: Parameters) -> Mask:
        """Return where the score has a kink, from which on more of a logit changes nothing."""
        return np.zeros(np.shape(point[0]), dtype=bool)

    @abstractmethod
    def path(self, p: Parameters, cells: int) -> Array:
        """Return nodes of u that cover every minimum, shape (models, cells + 1); see :class:`.base.Profiled`."""

    def nodes(self, last: Array, p: Parameters, cells: int) -> Array:
        """Return nodes of u from 0 to ``last``, about even in the log odds where these grow with u in proportion."""
        return np.asarray(last[..., None] * np.linspace(0.0, 1.0, cells + 1))


def nodes_up_to_copying(price: Price, p: Parameters) -> Array:
    """Return nodes of u from no copying to a copy weight above 0.99, shape (models, nodes); the P of ``p`` is ignored.

    NaN where a number of the model is NaN, where no P gets there that float64 can hold, or where the score itself
    doesn't get there: beyond a clip its odds no longer rise, and their force is infinite.
    """
    p = p.with_strength(1.0)
    while True:
        nodes = price.path(p, _CURVE_NODES)
        last = price.place(nodes[:, -1], p)
        copying = 1 / (1 + (p.L - 1) * np.exp(-last.delta))
        lost = ~np.isfinite(copying + last.force) | ~np.isfinite(p.P)
        ended = lost | (copying > _COPYING)
        if ended.all():
            return np.where(lost[:, None], np.nan, nodes[:, 1:])
        p = p.replace(P=np.where(ended, p.P, 10 * p.P))


def gap_scale(p: Parameters) -> Array:
    """Return the prior standard deviation of the gap between the copy entry's logit and the others'."""
    return np.asarray(p.logit_scale / np.sqrt(p.L - 1))


def check_slope(slope: Array, p: Parameters) -> None:
    """Raise InputError where σ_g times a score's slope at equal logits is more than float64 resolves the gaps of."""
    steepest = np.nanmax(p.logit_scale * slope, initial=0.0)
    if steepest > _STEEPEST:
        allowed = f"times the score's slope at equal logits must be at most {_STEEPEST:g}, here {steepest:.3g}"
        raise InputError("sigma_g", float(np.nanmax(p.logit_scale)), allowed)


def affordable_gap(p: Parameters) -> Array:
    """Return three times the gap whose prior alone costs all that the data can give; no minimum was found beyond."""
    return 3 * p.logit_scale * np.sqrt(p.P / (p.kappa * (p.L - 1))) + 1e-3 + np.zeros(p.shape)


def even_in_asinh(last: Array, cells: int) -> Array:
    """Return nodes from 0 to ``last`` in even steps of asinh: they resolve coordinates from 1 to thousands alike."""
    return np.sinh(np.arcsinh(last)[..., None] * np.linspace(0.0, 1.0, cells + 1))
