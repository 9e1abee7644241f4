"""Linear attention with token+position inputs, posterior: pooling is a vector (docs/theory.md, section 6).

With tokens in the keys, pooling has a weight k_v for every token v. The readout turns any such vector into the constant
output, so all V of its components gain from the data, and all of them fluctuate: its mean s is one mode of V, and its
amplitude grows smoothly with P, without an onset.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory.action.base import (
    Approximate,
    Array,
    Averages,
    Covariance,
    Isolated,
    Jet,
    Point,
    Posterior,
    StationaryPoints,
    eigenvalues,
)
from phasekit.theory.action.descent import STEP, Numbers, by_complex_step, met_before
from phasekit.theory.action.generated import pooled_field
from phasekit.theory.action.linear import copying_scale
from phasekit.theory.action.pooling_mean import Means, copying_share, means_around
from phasekit.theory.action.pooling_noise import (
    action_at,
    averages_of,
    data_of,
    free_noise,
    imbalance,
    modes_of,
    relaxed,
    scales,
    solve,
)
from phasekit.theory.action.search import polish

_CAVEAT = (
    "approximate: with token+position inputs pooling is a vector over the vocabulary; c1 is a root mean square over "
    "its distribution and has no onset; where pooling grows fastest its square comes out up to 40 % below that of "
    "samples (V = 8, L = 24; docs/theory.md, section 6)"
)
#: Steps of a descent at most, how often one is cut to a quarter, the slope at which it may end (the search for minima
#: polishes them).
_DESCENT, _HALVINGS, _NEAR = 100, 6, 1e-5
#: Largest relative change of an amplitude in one step; smallest curvature that a step trusts.
_LARGEST, _FLAT = 0.5, 1e-3


class PoolingVector(Isolated, Posterior, Approximate):
    """The posterior over G, W integrated out, as a function of the pooling vector and cG, with the noise relaxed.

    ``s`` is the size of the pooling vector's mean, ``k`` the size of the rest of it, both above 0. The posterior is the
    same for both signs of the mean and for all directions of the rest; the action counts these states by −ln s and
    −(V − 1) ln k. ``c1`` is s − cG. Minima are found by descent from six starts. Of several that pool, the lowest is
    kept: samples go from one to the other, and what is reported are means over all of them (pooling_mean.py).
    """

    coordinates = ("s", "k", "cG")
    order_parameters: ClassVar[tuple[str, str]] = ("c1", "cG")
    course: ClassVar[str] = "crossover"
    _latest: ClassVar[tuple[tuple[bytes, ...], Means] | None] = None

    def approximation(self, p: Parameters) -> str:
        return _CAVEAT

    def physical(self, z: Point, p: Parameters) -> Point:
        return tuple(x * scale for x, scale in zip(z, scales(p), strict=True))

    @np.errstate(invalid="ignore")  # trial points without a stationary noise are NaN
    def jet(self, z: Point, p: Parameters) -> Jet:
        x = _stacked(z)
        logs = relaxed(x, p)
        return Jet(action_at(x, logs, p), _slopes(x, logs, p), _hessian(x, logs, p))

    def loss(self, z: Point, p: Parameters) -> Array:
        return self._means(z, p).loss

    def averages(self, z: Point, p: Parameters) -> Averages:
        means = self._means(z, p)
        return Averages(means.s, means.s2, means.g, means.q)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return copying_share(_stacked(z), p)

    def outside(self, z: Point, p: Parameters) -> Array:
        return self._means(z, p).outside

    def _means(self, z: Point, p: Parameters) -> Means:
        """Return the means over the amplitudes; those of the last call are kept, as a minimum is asked for each."""
        x = _stacked(z)
        shape = np.broadcast_shapes(x.shape[:-1], p.shape)
        x = np.ascontiguousarray(np.broadcast_to(x, (*shape, 3)).reshape(-1, 3))
        flat = p.with_numbers(np.broadcast_to(number, shape) for number in p.numbers).ravel()
        asked = (x.tobytes(), *(number.tobytes() for number in flat.numbers))
        latest = self._latest
        if latest is None or latest[0] != asked:
            latest = type(self)._latest = (asked, means_around(x, flat))
        return Means(*(values.reshape(shape) for values in latest[1]))

    def covariance(self, z: Point, p: Parameters) -> Covariance:
        """Return the fluctuations of cG; those of s are in c1 already."""
        x = _stacked(z)
        variance = copying_scale(p) ** 2 * np.linalg.inv(_hessian(x, relaxed(x, p), p))[..., 2, 2]
        return Covariance(variance, -variance, variance)

    @np.errstate(invalid="ignore")
    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return what is reached from the prior's point, from strong pooling of both kinds, and from copying.

        ``start`` numbers the starts, from 0.
        """
        starts = _starts(p)
        count = starts.shape[1]
        owner = np.repeat(np.arange(p.shape[0]), count)
        x = _descend(starts.reshape(-1, 3), p[owner])
        found = np.isfinite(relaxed(x, p[owner])).all(-1, keepdims=True)  # also without the descent's warm start
        x = np.where(found, x, np.nan)
        new = ~met_before(x.reshape(-1, count, 3)).ravel()
        start = (np.flatnonzero(new) % count).astype(float)
        owner = owner[new]
        z = polish(self, tuple(np.moveaxis(x[new], -1, 0)), p[owner])
        kept = self._one_that_pools(z, owner, p[owner])
        return StationaryPoints(owner[kept], tuple(part[kept] for part in z), start[kept])

    def _one_that_pools(self, z: Point, owner: NDArray[np.int64], p: Parameters) -> NDArray[np.bool_]:
        """Return which points stay: all but those minima that pool and lie above another one of the same model."""
        jet = self.jet(z, p)
        pools = (self.copying_share(z, p) < 0.5) & (eigenvalues(jet.hessian)[..., 0] > 0)
        lowest = np.full(owner.max(initial=-1) + 1, np.inf)
        np.minimum.at(lowest, owner[pools], jet.value[pools])
        return ~pools | (jet.value <= lowest[owner])


def _stacked(z: Point) -> Array:
    return np.stack(np.broadcast_arrays(*z), axis=-1)


def _slopes(x: Numbers, logs: Numbers, p: Parameters) -> Numbers:
    """Return the gradient of S at fixed noise, whitened, along a last axis: at relaxed noise the reduced action's."""
    averages = averages_of(x, logs, p)
    on_s, on_n, on_k2, on_g, on_m, on_q = pooled_field.forces(*averages, *data_of(p))
    s, k, cG = np.moveaxis(x, -1, 0)
    a, b, c = scales(p)
    # The tokens' random frequencies make noise of the pooling vector itself, in all directions but its own.
    return np.stack(
        np.broadcast_arrays(
            a * (on_s + on_g / p.L + 2 * averages[0] * (on_m + on_q) / p.L) + s - 1 / s,
            2 * b**2 * k * (on_k2 + (on_n + on_q) / p.L) + k - (p.V - 1) / k,
            c * (1 - 1 / p.L) * (on_g + 2 * c * cG * (on_m + on_q)) + cG,
        ),
        axis=-1,
    )


def _starts(p: Parameters) -> Array:
    """Return where descents begin, shape (models, starts, 3), in terms of the noise r that a pattern must beat."""
    V, noise = p.V, np.exp(free_noise(np.zeros((*p.shape, 3)), p, modes_of(p)))
    r = np.sqrt(noise[..., 1])
    weak = (np.ones(p.shape), np.sqrt(V - 1) * np.ones(p.shape))
    s, k, cG = (r / scale for scale in scales(p))
    nothing = np.zeros(p.shape)
    return np.stack(
        [
            np.stack(start, axis=-1)
            for start in (
                (*weak, nothing),
                (1.5 * s, weak[1], nothing),
                (weak[0], 1.5 * k, nothing),
                (s, weak[1], cG),
                (s, weak[1], -cG),
                (weak[0], weak[1], cG),
            )
        ],
        axis=-2,
    )


def _descend(x: Array, p: Parameters) -> Array:
    """Follow Newton's method downhill (with the Hessian's absolute eigenvalues) as long as S falls; flat parameters.

    Amplitudes change by no more than half of themselves in one step, and keep their sign.
    """
    logs = relaxed(x, p)
    value = action_at(x, logs, p)
    active = np.isfinite(value)
    for _ in range(_DESCENT):
        k = np.flatnonzero(active)
        if k.size == 0:
            break
        here, there = x[k], p[k]
        slopes = _slopes(here, logs[k], there)
        eigenvalues, vectors = np.linalg.eigh(_symmetric(_hessian(here, logs[k], there)))
        along = np.einsum("...ji,...j->...i", vectors, slopes) / np.maximum(np.abs(eigenvalues), _FLAT)
        step = -np.einsum("...ij,...j->...i", vectors, along)
        log_step = step[:, :2] / here[:, :2]
        largest = np.abs(log_step).max(-1, keepdims=True)
        step = step * np.minimum(1.0, _LARGEST / np.maximum(largest, _LARGEST))
        moved = np.zeros(k.size, dtype=bool)
        for _ in range(_HALVINGS):
            trial = here + step
            trial_logs = relaxed(trial, there, logs[k])
            trial_value = action_at(trial, trial_logs, there)
            better = ~moved & (trial_value < value[k])
            x[k[better]], logs[k[better]], value[k[better]] = trial[better], trial_logs[better], trial_value[better]
            moved |= better
            if moved.all():
                break
            step = step / 4
        active[k] = moved & (np.abs(slopes).max(-1) > _NEAR)
    return x


def _symmetric(matrix: Array) -> Array:
    return np.where(np.isfinite(matrix), (matrix + np.swapaxes(matrix, -1, -2)) / 2, 0.0)


def _hessian(x: Array, logs: Array, p: Parameters) -> Array:
    """Return the Hessian of the reduced action: the noise follows the coordinates, so that it stays relaxed."""
    modes = modes_of(p)
    own = by_complex_step(lambda logs: imbalance(x, logs, p, modes), logs)
    moves = by_complex_step(lambda x: imbalance(x, logs + 0j, p, modes), x)
    follow = solve(own, -moves)
    columns = [
        _slopes(x + 1j * STEP * unit, logs + 1j * STEP * follow[..., k], p).imag / STEP
        for k, unit in enumerate(np.eye(3))
    ]
    return np.stack(columns, axis=-1)
