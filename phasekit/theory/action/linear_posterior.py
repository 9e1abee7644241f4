"""Linear attention, posterior estimator: S(c1, cG) with the noise of the logits relaxed (docs/theory.md, section 6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Array, Averages, Covariance, Isolated, Jet, Point, Posterior, StationaryPoints
from phasekit.theory.action.descent import Numbers, descend, hessian, met_before
from phasekit.theory.action.generated import mean_field
from phasekit.theory.action.linear import LinearAction, copying_scale, pooling_scale
from phasekit.theory.action.noise import Noise, modes_of, relax
from phasekit.theory.action.pooling_noise import solve
from phasekit.theory.action.search import polish

#: Patterns smaller than this are none (z is measured in the prior's standard deviations).
_NOTHING = 1e-6
#: Where descents begin: angles of z, radii in units of the largest one, and ln(variance/σ_g²).
_DIRECTIONS = np.append(np.arctan([-60.0, -20.0, -9.0, -5.0, -3.0, -1.5, -0.5, 0.0, 0.3, 1.0, 3.0, 30.0]), np.pi / 2)
_RADII = np.geomspace(3e-3, 1.0, 14)
_LOG_NOISE = np.array([0.0, -1.0, -3.0, -5.0, -8.0])
#: Angles and noises of more starts: beside its spinodal, the minimum with negative copying holds noises that differ.
_NEGATIVE = np.arctan([-14.0, -9.0, -9.0, -9.0])
_ITS_NOISE = np.array([[-3.0, -8.0], [-0.7, -1.75], [-1.2, -2.3], [-2.0, -3.5]])
#: Largest P/κ up to which the action's curvature in the noise is resolved.
_RESOLVED = 1e12


class _Pattern(NamedTuple):
    """A pattern: its coordinates, its averages without noise, and dq/ds, dq/dcG at fixed noise."""

    s: Array
    cG: Array
    s2: Array
    g: Array
    q: Array
    q_s: Array
    q_G: Array


class LinearPosterior(LinearAction, Isolated, Posterior):
    """The posterior over G, W integrated out: Φ at the averages of pattern and noise, plus the prior's cost of both.

    The noise is minimised out at every point (:mod:`phasekit.theory.action.noise`), so the gradient is that at fixed
    noise and the Hessian the Schur complement: its inverse is the covariance of (c1, cG) over the posterior, to leading
    order. Exact for many rows. With positional inputs only: :class:`phasekit.theory.action.PoolingVector` is for
    token+position ones.
    """

    def check_range(self, p: Parameters) -> None:
        beyond = np.ravel(p.P / p.kappa) > _RESOLVED
        if beyond.any():
            P = float(np.broadcast_to(p.P, p.shape).ravel()[beyond][0])
            raise InputError(
                "P", P, f"minima of linear attention's posterior are resolved up to P/kappa = {_RESOLVED:g}"
            )

    @np.errstate(invalid="ignore")  # noise that wasn't found is NaN
    def jet(self, z: Point, p: Parameters) -> Jet:
        pattern = _pattern(self.physical(z, p), p)
        noise = _relaxed(pattern, p)
        ratio = noise.variances / p.sigma_g[..., None] ** 2
        shape = ratio.shape[:-1]
        x = np.stack([*(np.broadcast_to(part, shape) for part in z), *np.moveaxis(np.log(ratio), -1, 0)], axis=-1)
        whole = hessian(_whole_gradient, x, p)
        reduced = whole[..., :2, :2] - whole[..., :2, 2:] @ solve(whole[..., 2:, 2:], whole[..., 2:, :2])
        data = mean_field.action(pattern.s, noise.s2, pattern.g, noise.q, *_data(p))
        value = data + noise.entropy + (x[..., :2] ** 2).sum(-1) / 2
        return Jet(value, _whole_gradient(x, p)[..., :2], reduced)

    def loss(self, z: Point, p: Parameters) -> Array:
        return mean_field.loss(*self.averages(z, p), *_data(p))

    def averages(self, z: Point, p: Parameters) -> Averages:
        pattern = _pattern(self.physical(z, p), p)
        noise = _relaxed(pattern, p)
        return Averages(np.broadcast_to(pattern.s, noise.q.shape), noise.s2, pattern.g, noise.q)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        """Return g²/q of the pattern alone: noise adds to q, but nothing to what the head does on average."""
        pattern = _pattern(self.physical(z, p), p)
        return np.asarray(np.where(pattern.q > 0, pattern.g**2 / np.where(pattern.q > 0, pattern.q, 1.0), 0.0))

    def outside(self, z: Point, p: Parameters) -> Array:
        return _relaxed(_pattern(self.physical(z, p), p), p).outside

    def covariance(self, z: Point, p: Parameters) -> Covariance:
        hessian = self.jet(z, p).hessian
        h11, h12, h22 = hessian[..., 0, 0], hessian[..., 0, 1], hessian[..., 1, 1]
        determinant = h11 * h22 - h12**2
        a, b = pooling_scale(p), copying_scale(p)
        # c1 = s − cG, in units of the scales of s and cG.
        pooling, mixed, copying = a**2 * h22 / determinant, -a * b * h12 / determinant, b**2 * h11 / determinant
        return Covariance(pooling - 2 * mixed + copying, mixed - copying, copying)

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return minima over pattern and noise together, by descent from the lowest point of each of some directions.

        ``start`` numbers the directions. With the noise as coordinates of their own no equation has to be solved on the
        way, and the action is smooth everywhere.
        """
        starts = _starts(p)
        count = starts.shape[1]
        owner = np.repeat(np.arange(p.shape[0]), count)
        x = descend(starts.reshape(-1, 4), p[owner], _whole_value, _whole_gradient, _longest_step)
        x[:, :2] *= np.where(x[:, :1] < 0, -1, 1)  # of a pair, the point with positive s
        new = np.flatnonzero(~met_before(x.reshape(-1, count, 4)).ravel())
        x[new, :2] = np.stack(polish(self, (x[new, 0], x[new, 1]), p[owner[new]]), axis=-1)
        new = new[np.hypot(x[new, 0], x[new, 1]) > _NOTHING]  # the origin needs no search
        # Where data are so many that q − g² is lost in rounding, descents stop early: only polished they are one.
        new = new[~_polished_before(owner[new], x[new, :2])]
        return StationaryPoints(owner[new], (x[new, 0], x[new, 1]), (new % count).astype(float))


def _polished_before(owner: NDArray[np.int64], z: Array) -> NDArray[np.bool_]:
    """Return which points are those of an earlier row of the same owner; the owners ascend."""
    rank = np.arange(owner.size) - np.searchsorted(owner, owner)
    table = np.full((owner.max(initial=-1) + 1, rank.max(initial=-1) + 1, 2), np.nan)
    table[owner, rank] = z
    return np.asarray(met_before(table)[owner, rank])


def _starts(p: Parameters) -> Array:
    """Return where descents begin, shape (models, directions, 4): the lowest point of a coarse grid in each direction.

    The data can give P/(2κ) at most, which bounds the radius by √(P/κ).
    """
    radii = np.sqrt(p.P / p.kappa)[:, None] * _RADII
    grid = np.empty((*radii.shape[:1], _DIRECTIONS.size, _RADII.size, _LOG_NOISE.size, 4))
    grid[..., 0] = np.cos(_DIRECTIONS)[:, None, None] * radii[:, None, :, None]
    grid[..., 1] = np.sin(_DIRECTIONS)[:, None, None] * radii[:, None, :, None]
    grid[..., 2:] = _LOG_NOISE[:, None]
    grid = grid.reshape(*grid.shape[:2], -1, 4)
    negative = np.empty((*radii.shape[:1], _NEGATIVE.size, _RADII.size, 4))
    negative[..., 0] = np.cos(_NEGATIVE)[:, None] * radii[:, None]
    negative[..., 1] = np.sin(_NEGATIVE)[:, None] * radii[:, None]
    negative[..., 2:] = _ITS_NOISE[:, None]
    return np.concatenate([_lowest(grid, p), _lowest(negative, p)], axis=1)


def _lowest(grid: Array, p: Parameters) -> Array:
    """Return the lowest point of each direction, shape (models, directions, 4), of a grid with points along axis 2."""
    lowest = _whole_value(grid, p.expand().expand()).argmin(axis=-1)
    return np.take_along_axis(grid, lowest[..., None, None], axis=2)[:, :, 0]


def _longest_step(x: Numbers, p: Parameters) -> Numbers:
    """Let the pattern change by half of itself, variances by a factor e²."""
    radius = np.maximum(1.0, np.abs(x[..., :2]).max(-1, keepdims=True))
    return np.concatenate([np.repeat(radius / 2, 2, axis=-1), np.full((*x.shape[:-1], 2), 2.0)], axis=-1)


def _whole_averages(x: Numbers, p: Parameters) -> tuple[_Pattern, Numbers, Numbers, Numbers]:
    """Return the pattern, two groups' variances, s₂ and q at points (..., 4): z, and ln(variance/σ_g²) of each."""
    modes = modes_of(p)
    copying = x[..., 1] * copying_scale(p)
    pattern = _pattern((x[..., 0] * pooling_scale(p) - copying, copying), p)
    variances = np.exp(x[..., 2:]) * p.sigma_g[..., None] ** 2
    s2, q = pattern.s2 + (modes.in_s2 * variances).sum(-1), pattern.q + (modes.in_q * variances).sum(-1)
    return pattern, variances, s2, q


def _whole_value(x: Numbers, p: Parameters) -> Numbers:
    """Return the action of pattern and noise, none of them relaxed."""
    pattern, _, s2, q = _whole_averages(x, p)
    entropy = (modes_of(p).number / 2 * (np.exp(x[..., 2:]) - 1 - x[..., 2:])).sum(-1)
    data = mean_field.action(pattern.s, s2, pattern.g, q, *_data(p))
    return np.asarray(data + (x[..., :2] ** 2).sum(-1) / 2 + entropy)


def _whole_gradient(x: Numbers, p: Parameters) -> Numbers:
    modes = modes_of(p)
    pattern, variances, s2, q = _whole_averages(x, p)
    along_s, along_G = _slopes(pattern, s2, q, p)
    _, on_s2, _, on_q = mean_field.forces(pattern.s, s2, pattern.g, q, *_data(p))
    noise = (modes.in_q * on_q[..., None] + modes.in_s2 * on_s2[..., None]) * variances
    noise = noise + modes.number / 2 * np.expm1(x[..., 2:])
    along = np.stack([pooling_scale(p) * along_s, copying_scale(p) * along_G], axis=-1)
    return np.concatenate([along, noise], axis=-1)


def _pattern(x: Point, p: Parameters) -> _Pattern:
    c1, cG = (np.asarray(coordinate) for coordinate in x)
    s, g = c1 + cG, cG + c1 / p.L
    rest = (p.L - 1) * (c1 / p.L) ** 2  # q − g²
    return _Pattern(
        s, cG, s**2, g, g**2 + rest, 2 * (g + (p.L - 1) * c1 / p.L) / p.L, 2 * (1 - 1 / p.L) * (g - c1 / p.L)
    )


def _relaxed(pattern: _Pattern, p: Parameters) -> Noise:
    return relax(pattern.s, pattern.s2, pattern.g, pattern.q, p)


def _data(p: Parameters) -> tuple[Array, ...]:
    return p.P, p.V, p.sigma_w, p.kappa


def _slopes(pattern: _Pattern, s2: Array, q: Array, p: Parameters) -> tuple[Array, Array]:
    """Return dS/ds and dS/dcG at fixed noise; at relaxed noise these are those of the reduced action."""
    on_s, on_s2, on_g, on_q = mean_field.forces(pattern.s, s2, pattern.g, q, *_data(p))
    along_s = on_s + 2 * pattern.s * on_s2 + on_g / p.L + on_q * pattern.q_s + pattern.s / pooling_scale(p) ** 2
    along_G = on_g * (1 - 1 / p.L) + on_q * pattern.q_G + pattern.cG / copying_scale(p) ** 2
    return along_s, along_G
