"""Posterior of any normalised score: rows in the mean field of all others (docs/theory.md, section 6).

    F = min over (g, q) of  Φ(1, 1, g, q) + L I(g, q),      I = max over (θ, η) of  θ g + η q − ln Z₁(θ, η)

with ln Z₁ from :mod:`phasekit.theory.action.row_averages`. At a stationary point L θ = −Φ_g and L η = −Φ_q. For given θ
the two conditions leave one strength of the data t = Pσ_w²/(κV): the stationary points of a system form one curve, with
t, η and the copy weight g as functions of θ, whatever P and κ. Points are labelled by the θ of that
curve. Off the curve, at another P, the label means: the state with the same g and with q relaxed; its actual field
differs. (To relax q at fixed field isn't possible everywhere: for large fields two solutions meet and vanish.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    Mask,
    Point,
    Posterior,
    Profile,
    StationaryPoints,
    pattern_norm,
    share,
)
from phasekit.theory.action.generated import mean_field
from phasekit.theory.action.row_averages import ROW_ERROR, Cumulants, Tilt, averages, rows_of
from phasekit.theory.action.row_curve import RISING, WEAK, Curve, curve_of

#: Newton's method for the fields of a state: steps, precision (of g in standard deviations over rows), longest step.
_NEWTON_STEPS, _SETTLED, _LONGEST_STEP = 60, 1e-11, 10.0
#: Iterations of the fields next to the prior's state, at most, and their relative precision.
_FIELD_STEPS, _FIELDS_SETTLED = 200, 1e-13
#: States whose ln t is this close to the curve's follow from those on the curve, to first order.
_BESIDE = 1e-5
#: Places on the curve at which derivatives along it are looked at first.
_NODES = 60
#: The last of them lies so far before the end of the curve that what is taken to see how it changes lies on it, too.
_INSIDE = 1e-3


class _States(NamedTuple):
    """States at points: their own fields θ and η, averages with derivatives of ln Z₁, and how F changes.

    ``rise`` is dg over the coordinate θ of the curve; ``force`` is dF/dg and ``stiffness`` d²F/dg², with q relaxed.
    """

    theta: Array
    eta: Array
    row: Cumulants
    rise: Array
    force: Array
    stiffness: Array


class RowPosterior(Curved, Coarse, Isolated, Posterior, Fluctuating, Approximate):
    """The posterior over G of a normalised score, in the row-level mean field.

    Positional inputs. The whitened coordinate is θ √L times the prior's standard deviation of the copy weight of a row.
    Averages over rows carry an error (:meth:`uncertainty`).

    Parameters
    ----------
    score : Score
    folds_alone : bool
        Whether curves may end just past their folds; where data are stronger than there, they are followed further.
    error : float
        Of the averages over rows, in ln Z₁.
    """

    coordinates = ("theta",)
    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")
    course: ClassVar[str] = "folds"
    cells: ClassVar[int] = 200

    def __init__(self, score: Score, folds_alone: bool = False, error: float = ROW_ERROR) -> None:
        self.score, self._folds_alone, self.error = score, folds_alone, error
        self._latest: tuple[tuple[bytes, ...], _States] | None = None

    def approximation(self, p: Parameters) -> str | None:
        if p.setting.encoding.name == "token+position":
            return (
                "approximate: the content blocks of G, whose noise lets rows with equal tokens fluctuate together, are "
                "left out (docs/theory.md, section 6)"
            )
        return None

    def near_folds(self) -> RowPosterior:
        return RowPosterior(self.score, folds_alone=True, error=self.error)

    def with_error(self, error: float) -> RowPosterior:
        return RowPosterior(self.score, self._folds_alone, error)

    def curve_nodes(self, p: Parameters) -> Array:
        nodes = np.empty((p.shape[0], _NODES))
        for system, members in _systems(p):
            curve = self._curve(system)
            nodes[members] = curve.even(_NODES, curve.trusted)
        nodes[:, -1] *= 1 - _INSIDE
        return nodes

    def may_fold(self, nodes: Array, p: Parameters) -> Mask:
        # A fold has d ln t/d ln θ = 0. Where t has begun to rise for good, the eigenvalue falls with it to its noise.
        slope, copied = np.empty(nodes.shape), np.empty(nodes.shape)
        for system, members in _systems(p):
            curve = self._curve(system)
            slope[members], copied[members] = curve.log_t_slope(nodes[members]), curve.share(nodes[members])
        steep = slope >= RISING
        strong = steep & (copied > WEAK)
        for_good = strong & np.roll(strong, -1, axis=1) & np.roll(strong, -2, axis=1)
        for_good[:, -2:] = False
        return ~(steep | np.maximum.accumulate(for_good, axis=1))

    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        shape = np.broadcast_shapes(np.shape(u), p.shape)
        flat, flat_u = _broadcast(p, shape), np.broadcast_to(u, shape).reshape(-1)
        log_t = np.empty(flat_u.size)
        for system, members in _systems(flat):
            log_t[members] = self._curve(system).log_t(flat_u[members])
        return np.exp(log_t.reshape(shape))

    def physical(self, z: Point, p: Parameters) -> Point:
        return (z[0] * self._scale(p),)

    def jet(self, z: Point, p: Parameters) -> Jet:
        states = self._states(z, p)
        g, q = states.row.g, states.row.q
        entropy = states.theta * g + states.eta * q - states.row.log_Z
        value = mean_field.action(*averages(g, q), *_data(p)) + p.L * entropy
        along = states.rise * self._scale(p)
        # Where the slope vanishes, so does the part of the second derivative that is left out.
        return Jet.of(value, (states.force * along,), (states.stiffness * along**2,))

    def fields(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        """Return θ and η of points: those of the coordinate where it is stationary, else others."""
        states = self._states(z, p)
        return states.theta, states.eta

    def row(self, z: Point, p: Parameters) -> Cumulants:
        """Return the averages over one row, with their covariance."""
        return self._states(z, p).row

    def prior(self, one: Parameters) -> Cumulants:
        """Return the averages over one row of the prior; ``one`` model."""
        return rows_of(self._score_of(one), float(one.L), float(one.sigma_g), self.error).prior

    def loss(self, z: Point, p: Parameters) -> Array:
        return np.asarray(mean_field.loss(*self.averages(z, p), *_data(p)))

    def averages(self, z: Point, p: Parameters) -> Averages:
        row = self.row(z, p)
        return Averages(np.ones_like(row.g), np.ones_like(row.g), row.g, row.q)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return share(self.averages(z, p))

    def covariance(self, z: Point, p: Parameters) -> Covariance:
        """Return 1/F''(g) for the variance of g; a1 = 1 − aG moves against aG."""
        variance = 1 / (self._states(z, p).stiffness * (1 - 1 / p.L) ** 2)
        return Covariance(variance, -variance, variance)

    def outside(self, z: Point, p: Parameters) -> Array:
        """Return L q without what is along the patterns: their mean, and one of the L fluctuations of g over a row."""
        row = self.row(z, p)
        return np.asarray(p.L * row.q - pattern_norm(*self.order(z, p), p) - row.gg * p.L / (p.L - 1))

    def fluctuation(self, z: Point, p: Parameters) -> Array:
        """Return what Gaussian fluctuations of (g, q) around a minimum add to F: ½ ln det(1 + C Φ''/L).

        C is the covariance of (g, q) over one row. Relative to F this is of order 1/L; NaN at a saddle point.
        """
        row = self.row(z, p)
        _, _, _, gg, gq, qq = mean_field.stiffness(*averages(row.g, row.q), *_data(p))
        a, b = 1 + (row.gg * gg + row.gq * gq) / p.L, (row.gg * gq + row.gq * qq) / p.L
        c, d = (row.gq * gg + row.qq * gq) / p.L, 1 + (row.gq * gq + row.qq * qq) / p.L
        determinant = a * d - b * c
        return np.where(determinant > 0, np.log(np.where(determinant > 0, determinant, 1.0)) / 2, np.nan)

    def uncertainty(self, low: Point, high: Point, p: Parameters) -> Array:
        """Return the error of the difference of F between two points of each model, from its averages over rows.

        ``p`` must be flat.
        """
        each, ends = _each(p), []
        for z in (low, high):
            states = self._states(z, p)
            ends.append(
                [
                    Tilt(*(float(x) for x in tilt))
                    for tilt in zip(states.theta, states.eta, states.row.log_Z, strict=True)
                ]
            )
        errors = [
            float(one.L) * self._curve(one).rows.error_of_difference(*tilts)
            for one, *tilts in zip(each, *ends, strict=True)
        ]
        return np.array(errors)

    def path(self, p: Parameters, cells: int) -> Array:
        nodes = np.empty((p.shape[0], cells + 1))
        for curve, members in self._curves(p):
            beyond = members[p.strength[members] > curve.last_t]
            if beyond.size:
                one = p[beyond[:1]]
                most, allowed = (
                    float(one.with_strength(curve.last_t).P[0]),
                    "rows can be averaged well enough up to P =",
                )
                raise InputError("P", float(one.P[0]), f"{allowed} {most:.4g} at L = {one.L[0]:g}")
            nodes[members] = curve.even(cells + 1)
        return nodes

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return points, and a slope with the sign of dF/dθ: below the P that makes θ stationary the prior wins."""
        shape = np.broadcast_shapes(np.shape(u), p.shape)
        flat_u, flat = np.broadcast_to(u, shape).reshape(-1), _broadcast(p, shape)
        z, slope, log_t = np.empty(flat_u.size), np.empty(flat_u.size), np.log(flat.strength)
        for curve, members in self._curves(flat):
            place = np.maximum(flat_u[members], curve.theta[0])  # below, no copying: the prior wins
            slope[members] = curve.log_t(place) - log_t[members]
            z[members] = flat_u[members] * np.sqrt(flat.L[members] * curve.rows.prior.gg)
        return Profile((z.reshape(shape),), slope.reshape(shape))

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return the state next to the prior's where data are too weak for the curve; ``start`` is its θ.

        There both fields follow from the averages at the fields before, starting from none.
        """
        owners, labels, starts = [], [], []
        for k, one in enumerate(_each(p)):
            curve = self._curve(one)
            if np.log(one.strength) >= curve.log_t(curve.theta[0]):
                continue
            theta = eta = 0.0
            for _ in range(_FIELD_STEPS):
                row = curve.cumulants(theta, eta)
                _, _, on_g, on_q = (float(x) for x in mean_field.forces(*averages(row.g, row.q), *_data(one)))
                moved = abs(on_g / one.L + theta) + abs(on_q / one.L + eta)
                theta, eta = -on_g / float(one.L), -on_q / float(one.L)
                if moved <= _FIELDS_SETTLED * (1 + abs(theta) + abs(eta)):
                    owners.append(k)
                    labels.append((row.g - curve.rows.prior.g) / curve.copying(np.zeros(()))[1])
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
            scale[members] = 1 / np.sqrt(system.L * self.prior(system).gg)
        return scale.reshape(shape)

    def _score_of(self, one: Parameters) -> Score:
        return self.score.at(**{name: float(value) for name, value in one.score.items()})

    def _curve(self, one: Parameters, t: float = 0.0) -> Curve:
        """Return the curve of one model, that goes on to data of strength t if it can."""
        system = float(one.L), float(one.V), float(one.sigma_w), float(one.sigma_g)
        return curve_of(self._score_of(one), *system, t, self._folds_alone, self.error)

    def _curves(self, p: Parameters) -> Iterator[tuple[Curve, NDArray[np.int64]]]:
        """Yield curves that reach as far as models' data, with the numbers of those models; flat parameters."""
        for system, members in _systems(p):
            t = p.strength[members]
            while members.size:
                curve = self._curve(system, float(t.min()))
                within = t <= curve.last_t
                within |= ~within.any()  # beyond the last curve's end
                yield curve, members[within]
                members, t = members[~within], t[~within]

    def _states(self, z: Point, p: Parameters) -> _States:
        """Return states at points; those of the last call are kept, as a minimum is asked for many things."""
        label = np.asarray(z[0] * self._scale(p))
        shape = np.broadcast_shapes(label.shape, p.shape)
        flat, labels = _broadcast(p, shape), np.ascontiguousarray(np.broadcast_to(label, shape).reshape(-1))
        asked = (labels.tobytes(), *(number.tobytes() for number in flat.numbers))
        if self._latest is None or self._latest[0] != asked:
            table = np.empty((11, labels.size))
            for curve, members in self._curves(flat):
                table[:, members] = _states_of(curve, labels[members], flat[members])
            theta, eta, *row, rise, force, stiffness = table
            self._latest = (asked, _States(theta, eta, Cumulants(*row), rise, force, stiffness))
        latest = self._latest[1]
        shaped = [x.reshape(shape) for x in (*latest[:2], *latest.row, *latest[3:])]
        return _States(shaped[0], shaped[1], Cumulants(*shaped[2:8]), *shaped[8:])


def _states_of(curve: Curve, label: Array, p: Parameters) -> Array:
    """Return the numbers of :class:`_States` along a first axis, for points of one curve."""
    held = np.clip(label, *curve.theta[[0, -1]])
    offset = np.log(p.strength) - curve.log_t(held)
    beside = (held == label) & (np.abs(offset) <= _BESIDE)
    table = np.empty((11, label.size))
    if beside.any():
        table[:, beside] = _beside(curve, label[beside], p[beside])
    for k in np.flatnonzero(~beside):
        table[:, k] = _solved(curve, float(label[k]), p[k])
    return table


def _beside(curve: Curve, theta: Array, p: Parameters) -> Array:
    """Return states that follow from those on the curve by moving η to where P squeezes it, at the same g."""
    row, eta, (_, rise) = curve.averages(theta), curve.eta(theta), curve.copying(theta)
    on_curve = p.with_strength(np.exp(curve.log_t(theta)))
    (_, _, there_g, there_q), (_, _, here_g, here_q) = (
        mean_field.forces(*averages(row.g, row.q), *_data(where)) for where in (p, on_curve)
    )
    change = _Change.at(row, p)
    moved_theta, moved_eta = change.solve(np.zeros_like(theta), (here_q - there_q) / p.L)
    moved_q = row.gq * moved_theta + row.qq * moved_eta
    force = p.L * moved_theta + there_g - here_g + change.on_gq * moved_q
    log_Z = row.log_Z + row.g * moved_theta + row.q * moved_eta
    moved = Cumulants(log_Z, row.g, row.q + moved_q, *row[3:])
    return np.stack([theta + moved_theta, eta + moved_eta, *moved, rise, force, change.stiffness(p)])


def _solved(curve: Curve, label: float, one: Parameters) -> Array:
    """Find the fields with the copy weight of the curve's state ``label`` and with η = −Φ_q(g, q)/L at this P.

    NaN where Newton's method doesn't settle, or goes where rows can't be averaged.
    """
    L = float(one.L)
    g, rise = (float(x) for x in curve.copying(np.asarray(label)))
    theta, eta = label, float(curve.eta(np.clip(label, *curve.theta[[0, -1]])))
    for _ in range(_NEWTON_STEPS):
        try:
            row = curve.cumulants(theta, eta)
        except ArithmeticError:
            break
        _, _, on_g, on_q = (float(x) for x in mean_field.forces(*averages(row.g, row.q), *_data(one)))
        off = np.array([row.g - g, eta + on_q / L])
        change = _Change.at(row, one)
        if max(abs(off[0]) / row.gg**0.5, abs(off[1]) / (1 + abs(eta))) < _SETTLED:
            return np.array([theta, eta, *row, rise, L * theta + on_g, change.stiffness(one)], dtype=float)
        step = -np.array(change.solve(off[0], off[1]), dtype=float)
        # Fields move by a few units at most: further off, the averages are no longer those of the expansion.
        step *= min(1.0, _LONGEST_STEP / float(np.abs(step).max()))
        theta, eta = theta + float(step[0]), min(eta + float(step[1]), 0.0)
    return np.full(11, np.nan)


class _Change(NamedTuple):
    """Derivatives of g and of η + Φ_q/L in the fields (θ, η); second derivatives of Φ."""

    row: Cumulants
    per_theta: Array
    per_eta: Array
    on_gg: Array
    on_gq: Array

    @classmethod
    def at(cls, row: Cumulants, p: Parameters) -> _Change:
        _, _, _, gg, gq, qq = mean_field.stiffness(*averages(row.g, row.q), *_data(p))
        per_theta = (gq * row.gg + qq * row.gq) / p.L
        return cls(row, per_theta, 1 + (gq * row.gq + qq * row.qq) / p.L, gg, gq)

    def solve(self, g: Array, eta: Array) -> tuple[Array, Array]:
        """Return the change of the fields that changes g and η + Φ_q/L by so much."""
        determinant = self.row.gg * self.per_eta - self.row.gq * self.per_theta
        return (
            (self.per_eta * g - self.row.gq * eta) / determinant,
            (self.row.gg * eta - self.per_theta * g) / determinant,
        )

    def stiffness(self, p: Parameters) -> Array:
        """Return d²F/dg², with q relaxed."""
        theta, eta = self.solve(np.ones_like(self.per_eta), np.zeros_like(self.per_eta))  # d(θ, η)/dg
        return np.asarray(p.L * theta + self.on_gg + self.on_gq * (self.row.gq * theta + self.row.qq * eta))


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
    if (keys == keys[:1]).all():
        return [(p[0], np.arange(keys.shape[0]))] if keys.size else []
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    members = inverse.reshape(-1)
    return [(p[k], np.asarray(np.flatnonzero(members == n), dtype=np.int64)) for n, k in enumerate(first)]
