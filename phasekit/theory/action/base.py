"""What an effective action offers to the solvers.

Solvers work in *whitened* coordinates ``z``: every coordinate in units of its prior standard deviation, so that the
prior is ``‖z‖²/2``. Gradient norms and Hessian eigenvalues are then dimensionless and comparable between models:
the prior alone gives eigenvalues 1, a spinodal has an eigenvalue 0.

:class:`Action` is what every action has. What only some have are protocols of their own, which a solver asks for with
``isinstance``: how its stationary points are found (:class:`Profiled` along a line, :class:`Isolated` by their own
equations or by descent from starts, or both), whether they form one curve in P (:class:`Curved`, :class:`Kinked`), and
what a distribution has and a point hasn't (:class:`Posterior`, :class:`Fluctuating`).
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
#: A minimum counts as converged if its ``gradient_norm`` (see :class:`phasekit.theory.minima.Minima`) is at most this.
TOLERANCE = 1e-10
_TOKENS_LEFT_OUT = (
    "approximate: with token+position inputs this is the theory of long contexts: it leaves out the token-token block "
    "of G, which is never zero at the minimum; S is stated 2 to 9 % too high at L = 4 to 10, some tenths of a per cent "
    "at L = 32 (docs/theory.md, section 5)"
)


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


class StationaryPoints(NamedTuple):
    """Stationary points of several models, as flat arrays."""

    owner: NDArray[np.int64]
    """Number of the model that a point belongs to."""
    points: Point
    start: Array
    """Where the search for it began: a path coordinate, or the number of a start (see the action); NaN for none."""


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
    """

    coordinates: tuple[str, ...]
    order_parameters: ClassVar[tuple[str, str]]
    symmetric: ClassVar[bool] = False
    course: ClassVar[str]

    @abstractmethod
    def physical(self, z: Point, p: Parameters) -> Point:
        """Turn points into physical coordinates."""

    @abstractmethod
    def jet(self, z: Point, p: Parameters) -> Jet:
        """Return S, its gradient and its Hessian in whitened coordinates."""

    @abstractmethod
    def loss(self, z: Point, p: Parameters) -> Array:
        """Return the training loss per sequence, averaged over positions (docs/theory.md, section 2)."""

    @abstractmethod
    def averages(self, z: Point, p: Parameters) -> Averages:
        """Return the averages (s, s₂, g, q) of the attention matrix."""

    @abstractmethod
    def copying_share(self, z: Point, p: Parameters) -> Array:
        """Return g²/q, the share of the attention pattern that copies; 0 where there is no pattern."""

    def caveat(self, p: Parameters) -> str | None:
        """Return one sentence on where this action is known to be approximate, for every output; None if it is not."""
        if isinstance(self, Approximate):
            return self.approximation(p)
        return _TOKENS_LEFT_OUT if p.setting.encoding.name == "token+position" else None

    def curvatures(self, z: Point, p: Parameters) -> Array:
        """Return the eigenvalues of the Hessian in whitened coordinates, ascending along a last axis.

        1: the prior alone; 0: a spinodal; a saddle point has negative ones. All NaN where the Hessian has a NaN.
        """
        return eigenvalues(self.jet(z, p).hessian)

    def order(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        """Return the two order parameters: least-squares weights of 11ᵀ/L and S in A (docs/theory.md, section 3)."""
        s, _, g, _ = self.averages(z, p)
        copying = (g - s / p.L) / (1 - 1 / p.L)
        return np.asarray(s - copying), np.asarray(copying)

    def coverage(self, z: Point, p: Parameters) -> Array:
        """Return the share of E‖A‖_F² that the two patterns explain (docs/theory.md, section 3); NaN where A is zero.

        A ratio of means. The patterns' part is that of the second moments of the order parameters, products of means
        plus :meth:`Posterior.covariance`; what fluctuates along the patterns isn't counted again in
        :meth:`Posterior.outside`. An A that doesn't fluctuate has ‖A‖_F² = L q.
        """
        inside = pattern_norm(*self.order(z, p), p)
        if isinstance(self, Posterior):
            covariance, outside = self.covariance(z, p), self.outside(z, p)
            inside = inside + covariance.first + 2 * covariance.mixed + p.L * covariance.second
        else:
            outside = np.maximum(p.L * self.averages(z, p).q - inside, 0.0)
        total = inside + outside
        some = total > 0
        return np.asarray(np.where(some, inside / np.where(some, total, 1.0), np.nan))


class Profiled(Action):
    """An action that is reduced to its *profile*: its minimum over everything but one path coordinate ``u``.

    All local minima of the action are minima of the profile, and a line can be searched exhaustively.

    Attributes
    ----------
    cells : int
        Into how many cells the search for minima cuts the path.
    """

    cells: ClassVar[int]

    @abstractmethod
    def path(self, p: Parameters, cells: int) -> Array:
        """Return nodes of the path coordinate, increasing along the last axis, shape (models, cells + 1).

        They cover every local minimum apart from the origin of a symmetric action and isolated ones; all nodes of a
        model coincide if the path has no minimum. ``p`` must be flat.
        """

    @abstractmethod
    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the profile at path coordinates ``u``."""


class Coarse(Profiled):
    """An action whose profile isn't exact to rounding: Newton's method in all coordinates finishes its minima."""

    @abstractmethod
    def offset(self, z: Point, u: Array, p: Parameters) -> Array:
        """Return how far along the path points lie beyond path coordinates ``u``."""


class Isolated(Action):
    """An action with stationary points that aren't on a path."""

    @abstractmethod
    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return stationary points off the path, found by other means; ``p`` must be flat.

        They are exact, but may be unstable; minima are told from saddle points by their curvature.
        """


class Curved(Profiled):
    """An action whose stationary points form one curve: exactly one P makes a path coordinate stationary."""

    def near_folds(self) -> Curved:
        """Return this action for questions about folds alone: its curve may end just past them if that is cheaper."""
        return self

    def may_fold(self, nodes: Array, p: Parameters) -> Mask:
        """Return which nodes of the curve are looked at for folds, and for the steepest rise where there are none."""
        return np.ones(nodes.shape, dtype=bool)

    @abstractmethod
    def curve_nodes(self, p: Parameters) -> Array:
        """Return nodes of the path coordinate along the curve of stationary points, shape (models, nodes).

        They reach from no copying to g > 0.99, without the path's first end; NaN where a number of the model is NaN, or
        where no P gets there that float64 can hold. The P of ``p`` is ignored.
        """

    @abstractmethod
    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        """Return the strength t = Pσ_w²/(κV) of the data that makes ``u`` stationary. The P of ``p`` is ignored."""


class Kinked(Action):
    """An action with a kink where the copy entry has all the weight."""

    @abstractmethod
    def end_of_rise(self, p: Parameters) -> Array:
        """Return the P from which on g stays where it is, because the minimum sits in the kink; NaN where it never is.

        The P of ``p`` is ignored.
        """


class Posterior(Action):
    """The action of a distribution over G, not of a point."""

    def check_range(self, p: Parameters) -> None:
        """Raise InputError where minima aren't resolved in float64."""

    @abstractmethod
    def covariance(self, z: Point, p: Parameters) -> Covariance:
        """Return variances and covariance of the order parameters over the posterior, from the Hessian at a minimum."""

    @abstractmethod
    def outside(self, z: Point, p: Parameters) -> Array:
        """Return E‖A‖_F² outside of the two patterns."""


class Approximate(Action):
    """An action that leaves something out."""

    @abstractmethod
    def approximation(self, p: Parameters) -> str | None:
        """Return in one sentence what is left out, and where that shows; None where nothing is."""


class Fluctuating(Action):
    """An action made of averages over rows: they have an error, and Gaussian fluctuations around their mean.

    Attributes
    ----------
    error : float
        That its averages are made for, of the logarithm of a row's partition function.
    """

    error: float

    @abstractmethod
    def with_error(self, error: float) -> Fluctuating:
        """Return this action with averages of another error: larger ones are found faster."""

    @abstractmethod
    def fluctuation(self, z: Point, p: Parameters) -> Array:
        """Return what Gaussian fluctuations around a minimum add to the action, beyond its value."""

    @abstractmethod
    def uncertainty(self, low: Point, high: Point, p: Parameters) -> Array:
        """Return the standard error of the difference of the action between two points of each model."""


def share(averages: Averages) -> Array:
    """Return g²/q; 0 where q is."""
    some = averages.q > 0
    return np.asarray(np.where(some, averages.g**2 / np.where(some, averages.q, 1.0), 0.0))


def eigenvalues(hessian: Array) -> Array:
    """Return eigenvalues, ascending along a last axis; all NaN where the Hessian isn't finite (LAPACK gives zeros)."""
    whole = np.asarray(np.isfinite(hessian).all((-2, -1)))[..., None]
    found = np.linalg.eigvalsh(np.where(whole[..., None], hessian, 0.0))
    return np.where(whole, found, np.nan)


def pattern_norm(first: Array, second: Array, p: Parameters) -> Array:
    """Return ‖a₁ 11ᵀ/L + a_G S‖_F²."""
    return np.asarray(first**2 + 2 * first * second + p.L * second**2)
