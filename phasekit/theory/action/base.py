"""What an effective action offers to the solvers.

Solvers work in *whitened* coordinates ``z``: every coordinate in units of its prior standard deviation, so that the
prior is ``‖z‖²/2``. Gradient norms and Hessian eigenvalues are then dimensionless and comparable between models:
the prior alone gives eigenvalues 1, a spinodal has an eigenvalue 0.

Every action is also reduced to a one-dimensional *profile*: its minimum over everything but one path coordinate
``u``. All local minima of the action are minima of the profile, and a line can be searched exhaustively.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: One array per coordinate; all broadcast against each other.
Point = tuple[Array, ...]


_CURVE_NODES = 400


class Jet(NamedTuple):
    """An action with its derivatives in k whitened coordinates, at points of a common shape (...)."""

    value: Array
    """S, shape (...)."""
    gradient: Array
    """∂S/∂z_i, shape (..., k)."""
    hessian: Array
    """∂²S/∂z_i∂z_j, shape (..., k, k)."""

    @classmethod
    def of(cls, value: Array, gradient: Sequence[Array], hessian: Sequence[Array]) -> Jet:
        """Put a jet together from arrays that broadcast: the value, k slopes, and the Hessian's upper triangle by rows.

        The triangle of three coordinates is (11, 12, 13, 22, 23, 33).
        """
        k = len(gradient)
        value, *parts = np.broadcast_arrays(value, *gradient, *hessian)
        matrix = np.empty((*value.shape, k, k))
        for part, i, j in zip(parts[k:], *np.triu_indices(k), strict=True):
            matrix[..., i, j] = matrix[..., j, i] = part
        return cls(value, np.stack(parts[:k], axis=-1), matrix)


class Covariance(NamedTuple):
    """Variances and covariance of the two order parameters (first, second) over the posterior."""

    first: Array
    mixed: Array
    second: Array


class Profile(NamedTuple):
    """The profile at some path coordinates ``u``: the points it is attained at, and its derivative in ``u``."""

    points: Point
    slope: Array


class Averages(NamedTuple):
    """The four averages of an attention matrix that carry everything (docs/theory.md, section 2)."""

    s: Array
    s2: Array
    g: Array
    q: Array


class Action(ABC):
    """An effective action S for one score function and estimator; vectorised over models and points.

    Attributes
    ----------
    coordinates : tuple of str
        Names of the physical coordinates that S is a function of.
    order_parameters : pair of str
        Names of the two order parameters: (c1, cG) for linear attention, (a1, aG) for normalised scores.
    symmetric : bool
        Whether S(x) = S(−x), so that the origin is stationary and its other minima come in pairs.
    course : str
        What its minima go through as P grows, by the name of a :class:`phasekit.theory.transitions.Course`: "onset",
        "crossover", "folds" or "jumps".
    cells : int
        Into how many cells the search for minima cuts the path.
    """

    coordinates: ClassVar[tuple[str, ...]]
    order_parameters: ClassVar[tuple[str, str]]
    symmetric: ClassVar[bool]
    course: ClassVar[str]
    cells: ClassVar[int]

    @abstractmethod
    def physical(self, z: Point, p: Parameters) -> Point:
        """Turn whitened into physical coordinates."""

    @abstractmethod
    def jet(self, z: Point, p: Parameters) -> Jet:
        """Return S, its gradient and its Hessian in whitened coordinates."""

    def curvatures(self, z: Point, p: Parameters) -> Array:
        """Return the eigenvalues of the Hessian in whitened coordinates, ascending along a last axis.

        1: the prior alone; 0: a spinodal; a saddle point has negative ones.
        """
        return np.asarray(np.linalg.eigvalsh(self.jet(z, p).hessian))

    @abstractmethod
    def loss(self, z: Point, p: Parameters) -> Array:
        """Return the training loss per sequence, averaged over positions (docs/theory.md, section 2)."""

    @abstractmethod
    def averages(self, z: Point, p: Parameters) -> Averages:
        """Return the averages (s, s₂, g, q) of the attention matrix."""

    @abstractmethod
    def path(self, p: Parameters, cells: int) -> Array:
        """Return nodes of the path coordinate, increasing along the last axis, shape (models, cells + 1).

        They cover every local minimum apart from the origin of a symmetric action and what :meth:`further` returns; all
        nodes of a model coincide if the path has no minimum. ``p`` must be flat.
        """

    @abstractmethod
    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the profile at path coordinates ``u``."""

    def further(self, p: Parameters) -> tuple[NDArray[np.int64], Point, Array]:
        """Return stationary points off the path: the model each belongs to, whitened coordinates, and start.

        Most actions have none. Where there are some, minima on the path may be unstable in directions off it; minima
        are then told from saddle points by their curvature. ``p`` must be flat.
        """
        nothing = np.empty(0)
        return np.empty(0, dtype=np.int64), tuple(nothing for _ in self.coordinates), nothing

    def copying_share(self, z: Point, p: Parameters) -> Array:
        """Return g²/q of the pattern, the share of the attention pattern that copies; 0 where there is no pattern."""
        averages = self.averages(z, p)
        some = averages.q > 0
        return np.asarray(np.where(some, averages.g**2 / np.where(some, averages.q, 1.0), 0.0))

    def coverage(self, z: Point, p: Parameters) -> Array:
        """Return the share of E‖A‖_F² that the two patterns explain (docs/theory.md, section 3); NaN where A is zero.

        A ratio of means. The patterns' part is that of the second moments of the order parameters, products of means
        plus :meth:`covariance`; what fluctuates along the patterns isn't counted again in :meth:`outside`.
        """
        inside = pattern_norm(*self.order(z, p), p)
        covariance = self.covariance(z, p)
        if covariance is not None:
            inside = inside + covariance.first + 2 * covariance.mixed + p.L * covariance.second
        total = inside + self.outside(z, p)
        some = total > 0
        return np.asarray(np.where(some, inside / np.where(some, total, 1.0), np.nan))

    def outside(self, z: Point, p: Parameters) -> Array:
        """Return E‖A‖_F² outside of the two patterns; here for an A that doesn't fluctuate (‖A‖_F² = L q)."""
        return np.maximum(p.L * self.averages(z, p).q - pattern_norm(*self.order(z, p), p), 0.0)

    def covariance(self, z: Point, p: Parameters) -> Covariance | None:
        """Return variances and covariance of the order parameters over the posterior.

        To leading order, from the Hessian at a minimum. None for an estimator that is a point, not a distribution.
        """
        return None

    def curve_nodes(self, p: Parameters) -> Array:
        """Return nodes of the path coordinate along the curve of stationary points, shape (models, nodes).

        They reach from no copying to g > 0.99, without the path's first end; NaN where a number of the model is NaN, or
        where no P gets there that float64 can hold. The P of ``p`` is ignored.
        """
        p = p.with_strength(1.0)
        while True:
            nodes = self.path(p, _CURVE_NODES)
            g = self.averages(self.profile(nodes[:, -1], p).points, p).g
            lost = np.isnan(g) | ~np.isfinite(p.P)
            ended = lost | (g > 0.99)
            if ended.all():
                return np.where(lost[:, None], np.nan, nodes[:, 1:])
            p = p.replace(P=np.where(ended, p.P, 10 * p.P))

    def end_of_rise(self, p: Parameters) -> Array:
        """Return the P from which on g stays where it is, because the minimum sits in a kink; NaN where it never does.

        The P of ``p`` is ignored.
        """
        return np.full(p.shape, np.nan)

    def balancing_strength(self, u: Array, p: Parameters) -> Array | None:
        """Return the strength t = Pσ_w²/(κV) of the data that makes ``u`` stationary; None where no formula gives it.

        It is then found as a root of the profile's slope. The P of ``p`` is ignored.
        """
        return None

    def fluctuation(self, z: Point, p: Parameters) -> Array | None:
        """Return what Gaussian fluctuations around a minimum add to the action, beyond its value; None for a point."""
        return None

    def uncertainty(self, low: Point, high: Point, p: Parameters) -> Array | None:
        """Return the standard error of the difference of the action between two points; None if it has none."""
        return None

    def caveat(self, p: Parameters) -> str | None:
        """Return one sentence on where this action is known to be approximate, for every output; None if it is not."""
        return None

    def order(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        """Return the two order parameters: least-squares weights of 11ᵀ/L and S in A (docs/theory.md, section 3)."""
        s, _, g, _ = self.averages(z, p)
        copying = (g - s / p.L) / (1 - 1 / p.L)
        return np.asarray(s - copying), np.asarray(copying)


def pattern_norm(first: Array, second: Array, p: Parameters) -> Array:
    """Return ‖a₁ 11ᵀ/L + a_G S‖_F²."""
    return np.asarray(first**2 + 2 * first * second + p.L * second**2)
