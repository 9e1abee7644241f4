"""Linear attention with token+position inputs, posterior: pooling is a vector (docs/theory.md, section 6).

With tokens in the keys, pooling has a weight k_v for every token v. The readout turns any such vector into the constant
output, so all V of its components gain from the data, and all of them fluctuate: its mean s is one mode of V, and its
amplitude grows smoothly with P, without an onset.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasekit.action.base import Action, Array, Averages, Jet, Point, Profile
from phasekit.action.generated import pooled_field
from phasekit.action.linear import copying_scale, pooling_scale
from phasekit.model import Parameters

_CAVEAT = (
    "approximate: with token+position inputs pooling is a vector over the vocabulary, whose fluctuations enter on "
    "average; c1 is a root mean square and has no onset; how far samples differ is in docs/theory.md, section 6"
)
#: Newton steps at most for the noise, and the change of its logarithms at which they end.
_STEPS, _SETTLED = 100, 1e-13
#: Steps of a descent at most, how often one is cut to a quarter, the slope at which it may end (the search for minima
#: polishes them), and from where on two ends are one minimum.
_DESCENT, _HALVINGS, _NEAR, _SAME = 100, 6, 1e-5, 1e-3
#: Largest change of a logarithm in one step; smallest curvature that a step trusts.
_LARGEST, _FLAT = 0.5, 1e-3
#: Complex step: derivatives are exact to rounding however small it is.
_STEP = 1e-100
#: Instead of no modes at all (V = 2 has one direction across the constant one): they carry nothing.
_SOME = 1e-300

#: Real numbers, or complex ones that carry a derivative.
Numbers = NDArray[Any]


class _Modes(NamedTuple):
    """Groups of modes, along a new last axis: their number, what a unit of variance adds to the noise (n, m, q) along
    the constant direction, along k⊥ and along each other one (one more axis), and to ‖A‖_F² outside of the patterns."""

    number: Array
    loads: Array
    outside: Array


class PoolingVector(Action):
    """The posterior over G, W integrated out, as a function of the pooling vector and cG, with the noise relaxed.

    ``s`` is the pooling vector's mean and ``k`` its root mean square across, both as amplitudes: the posterior has both
    signs of s (as reported, s > 0 sets the sign of the head) and all directions of k, whose number of modes the action
    counts. ``c1`` is s − cG. Minima are found by descent from six starts (:meth:`further`), not along a path.
    """

    coordinates: ClassVar[tuple[str, ...]] = ("s", "k", "cG")
    order_parameters: ClassVar[tuple[str, str]] = ("c1", "cG")
    symmetric: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    cells: ClassVar[int] = 1

    def caveat(self, p: Parameters) -> str:
        return _CAVEAT

    def physical(self, z: Point, p: Parameters) -> Point:
        return tuple(x * scale for x, scale in zip(z, _scales(p), strict=True))

    @np.errstate(invalid="ignore")  # trial points without a stationary noise are NaN
    def gradient(self, z: Point, p: Parameters) -> tuple[Array, ...]:
        x = _stacked(z)
        return tuple(np.moveaxis(_slopes(x, _relaxed(x, p), p), -1, 0))

    @np.errstate(invalid="ignore")
    def jet(self, z: Point, p: Parameters) -> Jet:
        x = _stacked(z)
        logs = _relaxed(x, p)
        slopes, hessian = _slopes(x, logs, p), _hessian(x, logs, p)
        rows = tuple(tuple(hessian[..., i, j] for j in range(3)) for i in range(3))
        return Jet(_value(x, logs, p), tuple(np.moveaxis(slopes, -1, 0)), rows)

    def loss(self, z: Point, p: Parameters) -> Array:
        x = _stacked(z)
        return pooled_field.loss(*_averages(x, _relaxed(x, p), p), *_data(p))

    def averages(self, z: Point, p: Parameters) -> Averages:
        x = _stacked(z)
        s, n, _, g, *_ = _averages(x, _relaxed(x, p), p)
        return Averages(s, s**2 + n, g, _pattern_norm(s, z[2] * copying_scale(p), p) + self.outside(z, p) / p.L)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        """Return g²/q of the pattern alone, as for positional inputs."""
        s, _, cG = self.physical(z, p)
        return np.asarray((cG + (s - cG) / p.L) ** 2 / _pattern_norm(s, cG, p))

    def outside(self, z: Point, p: Parameters) -> Array:
        x, modes = _stacked(z), modes_of(p)
        averages = _averages(x, _relaxed(x, p), p)
        return np.asarray(averages[2] + (modes.outside * _variances(averages, p, modes)).sum(-1))

    def covariance(self, z: Point, p: Parameters) -> tuple[Array, Array, Array]:
        """Return the fluctuations of cG; those of s are in c1 already."""
        x = _stacked(z)
        variance = copying_scale(p) ** 2 * np.linalg.inv(_hessian(x, _relaxed(x, p), p))[..., 2, 2]
        return variance, -variance, variance

    def path(self, p: Parameters, cells: int) -> Array:
        return np.zeros((*p.shape, cells + 1))  # nothing to search: see further

    def profile(self, u: Array, p: Parameters) -> Profile:
        return Profile((u, u, u), u)  # of an empty path

    @np.errstate(invalid="ignore")
    def further(self, p: Parameters) -> tuple[NDArray[np.int64], Point, Array]:
        """Return what is reached from the prior's point, from strong pooling of both kinds, and from copying.

        ``start`` numbers the starts, from 0.
        """
        starts = _starts(p)
        count = starts.shape[1]
        owner = np.repeat(np.arange(p.shape[0]), count)
        x = _descend(starts.reshape(-1, 3), p[owner])
        found = np.isfinite(_relaxed(x, p[owner])).all(-1, keepdims=True)  # also without the descent's warm start
        x = np.where(found, x, np.nan)
        new = ~_met_before(x.reshape(-1, count, 3)).ravel()
        return owner[new], tuple(np.moveaxis(x[new], -1, 0)), (np.flatnonzero(new) % count).astype(float)


def modes_of(p: Parameters) -> _Modes:
    """Return the groups of modes of the noise: all of G but the pooling vector and cG.

    Rows of a block of G that is read at key tokens vary from query to query and collect E[φφᵀ] like the pooling vector:
    1/V for the direction that they point to, and through the tokens' random frequencies 1/(VL) for every other one.
    Logits of key positions average out over the tokens there, except along the constant direction.
    """
    V, L = p.V, p.L
    nothing = np.zeros(np.broadcast_shapes(V.shape, L.shape))
    token, position = (V - 1) / V, (L - 1) / L  # of the rows, without their mean
    direct, random = 1 / V, 1 / (V * L)
    key_tokens = (
        (1, (direct, random, random), direct),  # along the constant direction
        (1, (random, direct, random), direct),  # along k⊥
        (V - 2, ((V - 2) * random, (V - 2) * random, direct + (V - 3) * random), (V - 2) * direct),
    )
    groups = [
        (rows * number, tuple(share * load for load in loads), share * outside)
        for rows, share in ((V - 1, token), (L - 1, position))
        for number, loads, outside in key_tokens
    ]
    inside = (0 * L, position / L, position / L)
    groups += [
        (V * (L - 1), inside, position),  # query token × key position
        (L * (L - 1), inside, (L * (L - 1) - 1) / L**2),  # query position × key position, but for the shift
        *(
            (rows, (share / L, share / L**2, share / L**2), share / L)  # the row means of both
            for rows, share in ((V - 1, token), (L - 1, position))
        ),
    ]

    def laid(columns: tuple[Array, ...]) -> Array:
        return np.stack([column + nothing for column in columns], axis=-1)

    number, loads, outside = zip(*groups, strict=True)
    return _Modes(laid(number), np.stack([laid(load) for load in zip(*loads, strict=True)], axis=-1), laid(outside))


def _stacked(z: Point) -> Array:
    return np.stack(np.broadcast_arrays(*z), axis=-1)


def _data(p: Parameters) -> tuple[Array, ...]:
    return p.P, p.V, p.L, p.sigma_w, p.kappa


def _scales(p: Parameters) -> tuple[Array, Array, Array]:
    """Return the prior standard deviations of s, of k in each of its V − 1 directions, and of cG."""
    return pooling_scale(p), np.asarray(p.sigma_g * np.sqrt((1 / p.V + 1 / p.L) / p.V)), copying_scale(p)


def _pattern_norm(s: Numbers, cG: Numbers, p: Parameters) -> Numbers:
    """Return q of the pattern: of c1 = s − cG and cG."""
    return np.asarray((1 - 1 / p.L) * cG**2 + s**2 / p.L)


def _averages(x: Numbers, logs: Numbers, p: Parameters) -> tuple[Numbers, ...]:
    """Return what Φ is a function of, (s, n, k⊥², g, m, q), at whitened coordinates and logarithms of the noise."""
    s, k, cG = (part * scale for part, scale in zip(np.moveaxis(x, -1, 0), _scales(p), strict=True))
    n, m, q = np.moveaxis(np.exp(logs), -1, 0)
    return s, n, k**2, (1 - 1 / p.L) * cG + s / p.L, m, q


def _variances(averages: tuple[Numbers, ...], p: Parameters, modes: _Modes) -> Numbers:
    """Return the variances, along a last axis of groups, that the data's forces leave (phasekit.action.noise)."""
    _, on_n, _, _, *on_others = pooled_field.forces(*averages, *_data(p))
    squeezed = (modes.loads * np.stack([on_n, *on_others], axis=-1)[..., None, :]).sum(-1)
    sigma2 = p.sigma_g[..., None] ** 2
    return np.asarray(sigma2 / (1 + 2 * sigma2 * squeezed / np.maximum(modes.number, _SOME)))


def _slopes(x: Numbers, logs: Numbers, p: Parameters) -> Numbers:
    """Return the gradient of S at fixed noise, whitened, along a last axis: at relaxed noise the reduced action's."""
    averages = _averages(x, logs, p)
    on_s, on_n, on_k2, on_g, on_m, on_q = pooled_field.forces(*averages, *_data(p))
    s, k, cG = np.moveaxis(x, -1, 0)
    a, b, c = _scales(p)
    # The tokens' random frequencies make noise of the pooling vector itself, in all directions but its own.
    return np.stack(
        np.broadcast_arrays(
            a * (on_s + on_g / p.L + 2 * averages[0] * (on_m + on_q) / p.L) + s - 1 / s,
            2 * b**2 * k * (on_k2 + (on_n + on_q) / p.L) + k - (p.V - 1) / k,
            c * (1 - 1 / p.L) * (on_g + 2 * c * cG * (on_m + on_q)) + cG,
        ),
        axis=-1,
    )


def _imbalance(x: Numbers, logs: Numbers, p: Parameters, modes: _Modes) -> Numbers:
    """Return what vanishes at relaxed noise, along a last axis of (n, m, q): relative excess over what makes it up."""
    free = (modes.loads * _variances(_averages(x, logs, p), p, modes)[..., None]).sum(-2)
    return np.asarray(1 - (free + _own_noise(x, p)) / np.exp(logs))


def _free_noise(x: Array, p: Parameters, modes: _Modes) -> Array:
    """Return the logarithms of the prior's noise and of what is noise of the pattern itself, at most what there is."""
    free = p.sigma_g[..., None] ** 2 * modes.loads.sum(-2)
    return np.asarray(np.log(free + _own_noise(x, p)))


def _own_noise(x: Numbers, p: Parameters) -> Numbers:
    """Return what the pattern and the tokens' random frequencies add to (n, m, q): least for free noise."""
    s, k, cG = (part * scale for part, scale in zip(np.moveaxis(x, -1, 0), _scales(p), strict=True))
    pattern, random = _pattern_norm(s, cG, p), k**2 / p.L
    return np.stack(np.broadcast_arrays(random, pattern, pattern + random), axis=-1)


def _relaxed(x: Array, p: Parameters, start: Array | None = None) -> Array:
    """Return the noise that is stationary at given coordinates, as logarithms; NaN where it isn't found.

    From above, as in phasekit.action.noise, or from ``start``, that of a point nearby: plain iteration converges, and
    Newton's method takes over where it stays between the bounds.
    """
    modes = modes_of(p)
    top = _free_noise(x, p, modes)
    logs = top if start is None else start
    floor = np.log(_own_noise(x, p))
    for _ in range(_STEPS):
        excess = _imbalance(x, logs, p, modes)
        plain = np.log1p(-excess)
        newton = _solve(_by_complex_step(lambda logs: _imbalance(x, logs, p, modes), logs), -excess)
        usable = ((logs + newton <= top) & (logs + newton >= floor)).all(-1, keepdims=True)
        step = np.where(usable, newton, plain)
        logs = logs + step
        if not (np.abs(step) > _SETTLED).any():
            break
    return np.where(np.abs(step).max(-1, keepdims=True) <= 1e-9, logs, np.nan)


def _starts(p: Parameters) -> Array:
    """Return where descents begin, shape (models, starts, 3), in terms of the noise r that a pattern must beat."""
    V, noise = p.V, np.exp(_free_noise(np.zeros((*p.shape, 3)), p, modes_of(p)))
    scales = _scales(p)
    r = np.sqrt(noise[..., 1])
    weak = (np.ones(p.shape), np.sqrt(V - 1) * np.ones(p.shape))
    s, k, cG = (r / scale for scale in scales)
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

    Amplitudes change by no more than a factor e^0.5 in one step, and keep their sign.
    """
    logs = _relaxed(x, p)
    value = _value(x, logs, p)
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
            trial_logs = _relaxed(trial, there, logs[k])
            trial_value = _value(trial, trial_logs, there)
            better = ~moved & (trial_value < value[k])
            x[k[better]], logs[k[better]], value[k[better]] = trial[better], trial_logs[better], trial_value[better]
            moved |= better
            if moved.all():
                break
            step = step / 4
        active[k] = moved & (np.abs(slopes).max(-1) > _NEAR)
    return x


def _met_before(x: Array) -> NDArray[np.bool_]:
    """Return which points (…, starts, 3) are those of an earlier start (or NaN)."""
    distance = np.abs(x[..., :, None, :] - x[..., None, :, :]).max(-1)
    same = distance <= _SAME * (1 + np.abs(x).max(-1)[..., None])
    return np.asarray(np.tril(same, -1).any(-1) | np.isnan(x).any(-1))


def _symmetric(matrix: Array) -> Array:
    return np.where(np.isfinite(matrix), (matrix + np.swapaxes(matrix, -1, -2)) / 2, 0.0)


def _by_complex_step(function: Any, at: Array) -> Array:
    """Return the matrix of derivatives of a function of the last axis."""
    columns = [function(at + 1j * _STEP * unit).imag / _STEP for unit in np.eye(at.shape[-1])]
    return np.stack(columns, axis=-1)


def _solve(matrix: Array, right: Array) -> Array:
    """Solve for one right-hand side (…, n) or several (…, n, k); NaN where the numbers have gone."""
    columns = right if right.ndim == matrix.ndim else right[..., None]
    whole = np.isfinite(matrix).all((-2, -1), keepdims=True) & np.isfinite(columns).all((-2, -1), keepdims=True)
    found = np.linalg.solve(np.where(whole, matrix, np.eye(matrix.shape[-1])), np.where(whole, columns, np.nan))
    return np.asarray(found if right.ndim == matrix.ndim else found[..., 0])


def _hessian(x: Array, logs: Array, p: Parameters) -> Array:
    """Return the Hessian of the reduced action: the noise follows the coordinates, so that it stays relaxed."""
    modes = modes_of(p)
    own = _by_complex_step(lambda logs: _imbalance(x, logs, p, modes), logs)
    moves = _by_complex_step(lambda x: _imbalance(x, logs + 0j, p, modes), x)
    follow = _solve(own, -moves)
    columns = [
        _slopes(x + 1j * _STEP * unit, logs + 1j * _STEP * follow[..., k], p).imag / _STEP
        for k, unit in enumerate(np.eye(3))
    ]
    return np.stack(columns, axis=-1)


def _value(x: Array, logs: Array, p: Parameters) -> Array:
    modes, averages = modes_of(p), _averages(x, logs, p)
    ratio = _variances(averages, p, modes) / p.sigma_g[..., None] ** 2
    entropy = (modes.number * (ratio - 1 - np.log(ratio))).sum(-1)
    s2, k2, cG2 = np.moveaxis(x**2, -1, 0)
    entropy = entropy + (s2 - 1 - np.log(s2)) + (k2 - (p.V - 1) * (1 + np.log(k2 / (p.V - 1)))) + cG2
    return np.asarray(pooled_field.action(*averages, *_data(p)) + entropy / 2)
