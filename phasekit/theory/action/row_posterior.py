"""Posterior of any normalised score: rows in the mean field of all others (docs/theory.md, section 6).

    F = min over (g, q) of  Φ(1, 1, g, q) + L I(g, q),      I = max over (θ, η) of  θ g + η q − ln Z₁(θ, η)

with ln Z₁ from :mod:`phasekit.theory.action.row_sample`. At a stationary point L θ = −Φ_g and L η = −Φ_q. For given θ
the two conditions leave one strength of the data t = Pσ_w²/(κV): the stationary points of a system form one curve, with
t, η and the copy weight g as functions of θ, whatever P and κ. Points are labelled by the θ of that
curve. Off the curve, at another P, the label means: the state with the same g and with q relaxed; its actual field
differs. (To relax q at fixed field isn't possible everywhere: for large fields two solutions meet and vanish.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.scores import Score
from phasekit.theory.action.base import (
    Approximate,
    Array,
    Averages,
    Coarse,
    Covariance,
    Curved,
    Fluctuating,
    Isolated,
    Jet,
    Point,
    Posterior,
    Profile,
    StationaryPoints,
    pattern_norm,
    share,
)
from phasekit.theory.action.generated import mean_field
from phasekit.theory.action.row_sample import Cumulants, RowSample, data_strength, row_sample, squeeze

#: Points of the curve of stationary states for each anchor of the rows.
_PER_ANCHOR = 4
#: The curve ends at this copy weight, or where fewer independent rows than this carry the averages.
_MOST_COPYING, _FEWEST_ROWS = 0.95, 1000
#: Derivatives along the curve are taken where at least this many do.
_MANY_ROWS = 4000
#: Newton's method for the fields of a state: steps, precision (of g in standard deviations over rows), longest step.
_NEWTON_STEPS, _SETTLED, _LONGEST_STEP = 60, 1e-13, 10.0
#: Iterations of the fields next to the prior's state, at most.
_FIELD_STEPS = 200
#: Longest row: more would take minutes and gigabytes.
LONGEST = 4096


@dataclass(frozen=True)
class Curve:
    """The stationary states of one system: θ (increasing), functions of ln θ, and the rows they were computed from."""

    rows: RowSample
    theta: Array
    trusted: float
    """θ up to which many rows carry the averages, so that even derivatives along the curve are free of noise."""
    log_t: CubicSpline
    eta: CubicSpline
    g: CubicSpline

    def copying(self, theta: float) -> tuple[float, float]:
        """Return g, and dg/dθ; below the curve's first θ a straight line through the prior's g."""
        first = float(self.theta[0])
        if theta < first:
            nothing, at_first = self.rows.cumulants(0.0, 0.0).g, float(self.g(np.log(first)))
            rise = (at_first - nothing) / first
            return nothing + rise * theta, rise
        return float(self.g(np.log(theta))), float(self.g(np.log(theta), 1)) / theta


class _State(NamedTuple):
    """One point: its own fields θ and η, averages with derivatives of ln Z₁, and d²F/dg² with q relaxed.

    ``rise`` is dg over the coordinate.
    """

    theta: float
    eta: float
    row: Cumulants
    rise: float
    stiffness: float


class RowPosterior(Curved, Coarse, Isolated, Posterior, Fluctuating, Approximate):
    """The posterior over G of a normalised score, in the row-level mean field.

    Positional inputs. The whitened coordinate is θ √L times the prior's standard deviation of the copy weight of a row.
    Averages over rows carry a standard error (:meth:`uncertainty`).

    Parameters
    ----------
    score : Score
    """

    coordinates = ("theta",)
    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")
    course: ClassVar[str] = "folds"
    cells: ClassVar[int] = 200

    def __init__(self, score: Score) -> None:
        self.score = score

    def approximation(self, p: Parameters) -> str | None:
        if p.setting.encoding.name == "token+position":
            return (
                "approximate: the content blocks of G, whose noise lets rows with equal tokens fluctuate together, are "
                "left out (docs/theory.md, section 6)"
            )
        return None

    def curve_nodes(self, p: Parameters) -> Array:
        curves = [self._curve(one) for one in _each(p)]
        return np.stack([np.geomspace(curve.theta[0], curve.trusted, 60) for curve in curves])

    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        shape = np.broadcast_shapes(np.shape(u), p.shape)
        flat, log_u = _broadcast(p, shape), np.log(np.broadcast_to(u, shape)).reshape(-1)
        log_t = np.empty(log_u.size)
        for system, members in _systems(flat):
            log_t[members] = self._curve(system).log_t(log_u[members])
        return np.exp(log_t.reshape(shape))

    def physical(self, z: Point, p: Parameters) -> Point:
        return (z[0] * self._scale(p),)

    def jet(self, z: Point, p: Parameters) -> Jet:
        def at(one: Parameters, state: _State) -> tuple[float, float, float]:
            g, q = state.row.g, state.row.q
            value = float(mean_field.action(*_averages(g, q), *_data(one)))
            _, _, on_g, _ = mean_field.forces(*_averages(g, q), *_data(one))
            entropy = state.theta * g + state.eta * q - state.row.log_Z
            # Where the slope vanishes, so does the part of the second derivative that is left out.
            slope = float(one.L * state.theta + on_g) * state.rise
            return value + float(one.L) * entropy, slope, state.stiffness * state.rise**2

        value, slope, curvature = self._each_state(z[0] * self._scale(p), p, at, 3)
        scale = self._scale(p)
        return Jet.of(value, (slope * scale,), (curvature * scale**2,))

    def fields(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        """Return θ and η of points: those of the coordinate where it is stationary, else others."""
        theta, eta = self._each_state(z[0] * self._scale(p), p, lambda one, state: (state.theta, state.eta), 2)
        return theta, eta

    def loss(self, z: Point, p: Parameters) -> Array:
        return np.asarray(mean_field.loss(*self.averages(z, p), *_data(p)))

    def averages(self, z: Point, p: Parameters) -> Averages:
        g, q = self._each_state(z[0] * self._scale(p), p, lambda one, state: (state.row.g, state.row.q), 2)
        return Averages(np.ones_like(g), np.ones_like(g), g, q)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return share(self.averages(z, p))

    def covariance(self, z: Point, p: Parameters) -> Covariance:
        """Return 1/F''(g) for the variance of g; a1 = 1 − aG moves against aG."""
        (stiffness,) = self._each_state(z[0] * self._scale(p), p, lambda one, state: (state.stiffness,), 1)
        variance = 1 / (stiffness * (1 - 1 / p.L) ** 2)
        return Covariance(variance, -variance, variance)

    def outside(self, z: Point, p: Parameters) -> Array:
        """Return L q without what is along the patterns: their mean, and one of the L fluctuations of g over a row."""
        q, along = self._each_state(z[0] * self._scale(p), p, lambda one, state: (state.row.q, state.row.gg), 2)
        return np.asarray(p.L * q - pattern_norm(*self.order(z, p), p) - along * p.L / (p.L - 1))

    def fluctuation(self, z: Point, p: Parameters) -> Array:
        """Return what Gaussian fluctuations of (g, q) around a minimum add to F: ½ ln det(1 + C Φ''/L).

        C is the covariance of (g, q) over one row. Relative to F this is of order 1/L; NaN at a saddle point.
        """

        def at(one: Parameters, state: _State) -> tuple[float]:
            _, _, _, gg, gq, qq = mean_field.stiffness(*_averages(state.row.g, state.row.q), *_data(one))
            C = np.array([[state.row.gg, state.row.gq], [state.row.gq, state.row.qq]])
            stiffness = np.array([[float(gg), float(gq)], [float(gq), float(qq)]])
            determinant = np.linalg.det(np.eye(2) + C @ stiffness / float(one.L))
            return (float(np.log(determinant) / 2) if determinant > 0 else np.nan,)

        return self._each_state(z[0] * self._scale(p), p, at, 1)[0]

    def uncertainty(self, low: Point, high: Point, p: Parameters) -> Array:
        """Return the standard error of the difference of F between two points of each model (same rows in both)."""
        scale = self._scale(p)
        errors = []
        for k, one in enumerate(_each(p)):
            curve = self._curve(one)
            ends = [self._state(float(np.broadcast_to(z[0] * scale, p.shape)[k]), one) for z in (low, high)]
            first, second = (curve.rows.group_log_Z(state.theta, state.eta) for state in ends)
            errors.append(float(one.L) * (second - first).std(ddof=1) / np.sqrt(first.size))
        return np.array(errors)

    def path(self, p: Parameters, cells: int) -> Array:
        for system, members in _systems(p):
            curve = self._curve(system)
            last = float(np.exp(curve.log_t(np.log(curve.theta[-1]))))
            t = p[members].strength
            if (t > last).any():
                most = last * float(system.with_strength(1.0).P)
                beyond = float(p[members].P.max())
                raise InputError(
                    "P", beyond, f"rows can be sampled well enough up to P = {most:.4g} at L = {system.L:g}"
                )
        ends = [self._curve(one).theta[[0, -1]] for one in _each(p)]
        return np.stack([np.geomspace(first, last, cells + 1) for first, last in ends])

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return points, and a slope with the sign of dF/dθ: below the P that makes θ stationary the prior wins."""
        u = np.asarray(u)
        shape = np.broadcast_shapes(u.shape, p.shape)
        flat_u = np.broadcast_to(u, shape).reshape(-1)
        slope = np.empty(flat_u.size)
        flat = _broadcast(p, shape)
        log_t = np.log(flat.strength)
        for system, members in _systems(flat):
            curve = self._curve(system)
            place = np.log(np.maximum(flat_u[members], curve.theta[0]))  # below, no copying: the prior wins
            slope[members] = curve.log_t(place) - log_t[members]
        return Profile((u / self._scale(p),), slope.reshape(shape))

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return the state next to the prior's where data are too weak for the curve; ``start`` is its θ.

        There both fields follow from the averages at the fields before, starting from none.
        """
        owners, labels, starts = [], [], []
        for k, one in enumerate(_each(p)):
            curve = self._curve(one)
            if np.log(one.strength) >= curve.log_t(np.log(curve.theta[0])):
                continue
            theta = eta = 0.0
            for _ in range(_FIELD_STEPS):
                row = curve.rows.cumulants(theta, eta)
                _, _, on_g, on_q = (float(x) for x in mean_field.forces(*_averages(row.g, row.q), *_data(one)))
                moved = abs(on_g / one.L + theta) + abs(on_q / one.L + eta)
                theta, eta = -on_g / float(one.L), -on_q / float(one.L)
                if moved <= _SETTLED * (abs(theta) + abs(eta)):
                    owners.append(k)
                    labels.append((row.g - curve.rows.cumulants(0.0, 0.0).g) / curve.copying(0.0)[1])
                    starts.append(theta)
                    break
        owner = np.array(owners, dtype=np.int64)
        return StationaryPoints(owner, (np.array(labels) / self._scale(p)[owner],), np.array(starts))

    def offset(self, z: Point, u: Array, p: Parameters) -> Array:
        return np.asarray(z[0] * self._scale(p) - u)

    def _scale(self, p: Parameters) -> Array:
        """θ of one unit of z: the prior alone gives F = L θ² Var(g)/2."""
        shape = p.shape
        flat = _broadcast(p, shape)
        scale = np.empty(flat.P.size)
        for system, members in _systems(flat):
            scale[members] = 1 / np.sqrt(system.L * self._curve(system).rows.cumulants(0.0, 0.0).gg)
        return scale.reshape(shape)

    def _curve(self, one: Parameters) -> Curve:
        L = float(one.L)
        if L > LONGEST:
            raise InputError("L", L, f"the posterior of a normalised score is computed up to {LONGEST}")
        score = self.score.at(**{name: float(value) for name, value in one.score.items()})
        return _curve(score, round(L), float(one.V), float(one.sigma_w), float(one.sigma_g))

    def _state(self, label: float, one: Parameters) -> _State:
        """Find the fields with the copy weight of the curve's state ``label`` and with η = −Φ_q(g, q)/L at this P."""
        curve, L = self._curve(one), float(one.L)
        g, rise = curve.copying(label)
        theta, eta = label, float(curve.eta(np.log(np.clip(label, *curve.theta[[0, -1]]))))
        for _ in range(_NEWTON_STEPS):
            row = curve.rows.cumulants(theta, eta)
            off_g = row.g - g
            off_eta = eta + float(mean_field.forces(*_averages(row.g, row.q), *_data(one))[3]) / L
            if max(abs(off_g) / row.gg**0.5, abs(off_eta) / (1 + abs(eta))) < _SETTLED:
                break
            per_theta, per_eta = self._slopes(row, one)
            step = np.linalg.solve([[row.gg, row.gq], [per_theta, per_eta]], [-off_g, -off_eta])
            # Fields move by a few units at most: further off, the averages are no longer those of the expansion.
            step *= min(1.0, _LONGEST_STEP / float(np.abs(step).max()))
            theta, eta = theta + float(step[0]), min(eta + float(step[1]), 0.0)
        # d(θ, η)/dg, for the condition on η to stay true.
        along = np.linalg.solve([[row.gg, row.gq], self._slopes(row, one)], [1.0, 0.0])
        _, _, _, gg, gq, _ = mean_field.stiffness(*_averages(row.g, row.q), *_data(one))
        stiffness = L * along[0] + float(gg) + float(gq) * (row.gq * along[0] + row.qq * along[1])
        return _State(theta, eta, row, rise, float(stiffness))

    def _slopes(self, row: Cumulants, one: Parameters) -> tuple[float, float]:
        """Return the derivatives of η + Φ_q/L in θ and in η."""
        _, _, _, _, gq, qq = (float(x) for x in mean_field.stiffness(*_averages(row.g, row.q), *_data(one)))
        L = float(one.L)
        return (gq * row.gg + qq * row.gq) / L, 1 + (gq * row.gq + qq * row.qq) / L

    def _each_state(
        self, theta: Array, p: Parameters, function: Callable[[Parameters, _State], tuple[float, ...]], count: int
    ) -> list[Array]:
        """Apply a function of (parameters, state) to every point; returns ``count`` arrays."""
        shape = np.broadcast_shapes(np.shape(theta), p.shape)
        flat_theta = np.broadcast_to(theta, shape).reshape(-1)
        found = [
            function(one, self._state(float(x), one))
            for x, one in zip(flat_theta, _each(_broadcast(p, shape)), strict=True)
        ]
        table = np.array(found, dtype=float).reshape(flat_theta.size, count)
        return [column.reshape(shape) for column in table.T]


@lru_cache(maxsize=64)
def _curve(score: Score, L: int, V: float, sigma_w: float, sigma_g: float) -> Curve:
    """Follow the stationary states from no copying to almost full copying."""
    rows = row_sample(score, L, V, sigma_w, sigma_g)
    anchors = rows.fields[1:]
    theta = np.geomspace(anchors[0] / 100, anchors[-1], _PER_ANCHOR * (len(anchors) + 7))
    eta, log_t, copying = (np.empty_like(theta) for _ in range(3))
    last, trusted = 0.0, theta[0]

    def excess(x: float, field: float) -> float:
        row = rows.cumulants(field, x)
        t = data_strength(field, row.g, row.q, L, V, sigma_w)
        return x - squeeze(t, row.g, row.q, L, V, sigma_w)

    for k, field in enumerate(theta):
        low = min(last * 1.3, -1e-6)
        while excess(low, field) > 0:
            low *= 2
        last = eta[k] = brentq(excess, low, 0.0, args=(field,), xtol=1e-10, rtol=1e-10)
        row = rows.cumulants(field, last)
        log_t[k] = np.log(data_strength(field, row.g, row.q, L, V, sigma_w))
        copying[k] = row.g
        effective = rows.effective_rows(field, last)
        trusted = field if effective >= _MANY_ROWS else trusted
        if row.g > _MOST_COPYING or effective < _FEWEST_ROWS:
            break
    theta = theta[: k + 1]
    along = [CubicSpline(np.log(theta), values[: k + 1]) for values in (log_t, eta, copying)]
    return Curve(rows, theta, float(trusted), *along)


def _averages(g: float, q: float) -> tuple[Array, Array, Array, Array]:
    one = np.asarray(1.0)
    return one, one, np.asarray(g), np.asarray(q)


def _data(p: Parameters) -> tuple[Array, ...]:
    return p.P, p.V, p.sigma_w, p.kappa


def _broadcast(p: Parameters, shape: tuple[int, ...]) -> Parameters:
    """Return flat parameters of a common shape."""
    return p.replace(P=np.broadcast_to(p.P, shape)).ravel()


def _each(p: Parameters) -> list[Parameters]:
    flat = p.ravel()
    return [flat[k] for k in range(flat.P.size)]


def _systems(p: Parameters) -> list[tuple[Parameters, NDArray[np.int64]]]:
    """Return flat parameters sorted by system: models that differ in P and κ alone share their rows."""
    keys = np.stack([p.L, p.V, p.sigma_w, p.sigma_g, *p.score.values()], axis=-1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    members = inverse.reshape(-1)
    return [(p[k], np.asarray(np.flatnonzero(members == n), dtype=np.int64)) for n, k in enumerate(first)]
