"""The curve of stationary points P(u) of an action that has one, and how soft the action is along it."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Curved, Kinked, Mask, Point

_STRETCH = 0.1  # of u: half the length over which polynomials are fitted
_SAMPLES, _DEGREE = 32, 12
_REAL = 1e-6  # roots of polynomials with a smaller imaginary part are real, within rounding


class StationaryCurves:
    """The curves of stationary points of several models, with nodes along each.

    At a given path coordinate u the force of the data grows with P, so exactly one P makes u stationary.

    Parameters
    ----------
    action : Curved
    p : Parameters
        Flat; its P is ignored.
    nodes : array, shape (models, nodes), optional
    begin : array, shape (models,), optional
        Where the stretch that is looked at begins, as a minimum; 0 unless said.
    """

    def __init__(self, action: Curved, p: Parameters, nodes: Array | None = None, begin: Array | float = 0.0) -> None:
        self.action, self.p = action, p
        self.nodes = action.curve_nodes(p) if nodes is None else nodes
        self.begin = begin + np.zeros(p.shape)

    def __getitem__(self, rows: NDArray[np.int64]) -> StationaryCurves:
        return StationaryCurves(self.action, self.p[rows], self.nodes[rows], self.begin[rows])

    def at(self, u: Array, p: Parameters) -> Parameters:
        """Return the parameters with the P that makes ``u`` stationary."""
        return p.with_strength(self.action.balancing_strength(u, p))

    def point(self, u: Array, p: Parameters) -> Point:
        return self.action.profile(u, p).points

    def curvature(self, u: Array, p: Parameters) -> Array:
        """Return the lowest Hessian eigenvalue at the stationary point ``u``."""
        there = self.at(u, p)
        return self.action.curvatures(self.point(u, there), there)[..., 0]

    def flatness(self, u: Array, p: Parameters) -> Array:
        """Return d ln P/d ln g at the stationary point ``u``, by a central difference; inf where g has saturated."""
        ends = []
        for x in (u * (1 - 1e-4), u * (1 + 1e-4)):
            there = self.at(x, p)
            ends.append((np.log(there.P), np.log(self.action.averages(self.point(x, there), there).g)))
        (log_P, log_g), (log_P_after, log_g_after) = ends
        rise = log_g_after - log_g
        return np.where(rise <= 0, np.inf, (log_P_after - log_P) / np.where(rise <= 0, 1.0, rise))

    def softest(self) -> tuple[Array, Array]:
        """Return where the lowest Hessian eigenvalue is smallest, and its value there."""
        return self._lowest(self.curvature, self.action.may_fold(self.nodes, self.p))

    def steepest(self) -> Array:
        """Return the P at which ln g rises fastest with ln P; NaN if that is at an end of the curve.

        Where the rise gets steeper up to a kink of the action, at which the copy entry has all the weight, it is the P
        of the kink: beyond it g stays constant.
        """
        u, _ = self._lowest(self.flatness, self.action.may_fold(self.nodes, self.p))
        inside, at_kink = (u > self.nodes[:, 0]) & (u < self.nodes[:, -1]), u == self.nodes[:, -1]
        u[inside] = self[np.flatnonzero(inside)]._polished(u[inside])
        return np.where(inside, self.at(u, self.p).P, np.where(at_kink, self.end_of_rise(), np.nan))

    def end_of_rise(self) -> Array:
        """Return the P from which on g stays constant in a kink of the action; NaN where it never does."""
        return self.action.end_of_rise(self.p) if isinstance(self.action, Kinked) else np.full(self.p.shape, np.nan)

    def _polished(self, u: Array) -> Array:
        """Return where d ln P/d ln g is smallest near ``u``, from polynomials in u through ln P and ln g.

        Differences of neighbouring points know a minimum to the square root of their rounding only.
        """
        reach = np.minimum(_STRETCH * u, np.minimum(u - self.nodes[:, 0], self.nodes[:, -1] - u))
        x = np.cos(np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES)
        samples = u[:, None] + reach[:, None] * x
        there = self.at(samples, self.p.expand())
        log_g = np.log(self.action.averages(self.point(samples, there), there).g)
        log_P, result = np.log(there.P), u.copy()
        for k in range(u.size):  # fitted one by one: numbers of one model don't hang on its neighbours
            y1, z1 = (chebyshev.chebder(chebyshev.chebfit(x, values[k], _DEGREE)) for values in (log_P, log_g))
            bend = chebyshev.chebsub(
                chebyshev.chebmul(chebyshev.chebder(y1), z1), chebyshev.chebmul(y1, chebyshev.chebder(z1))
            )
            roots = chebyshev.chebroots(bend)
            roots = roots[(np.abs(roots.imag) < _REAL) & (np.abs(roots.real) < 1)].real
            if roots.size:
                result[k] = u[k] + reach[k] * roots[np.abs(roots).argmin()]
        return result

    def _lowest(self, function: solve.Function, among: Mask | None = None) -> tuple[Array, Array]:
        """Return position and value of the smallest value of a function along the curve, or ``among`` some nodes."""
        values = function(self.nodes, self.p.expand())
        if among is not None:
            values = np.where(among, values, np.inf)
        rows, k = np.arange(values.shape[0]), values.argmin(axis=1)
        inner = np.clip(k, 1, values.shape[1] - 2)
        at_end = (k != inner) | np.isinf(values[rows, inner - 1]) | np.isinf(values[rows, inner + 1])
        x, value = solve.minimum(function, tuple(self.nodes[rows, inner + shift] for shift in (-1, 0, 1)), self.p)
        return np.where(at_end, self.nodes[rows, k], x), np.where(at_end, values[rows, k], value)
