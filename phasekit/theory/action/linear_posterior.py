"""Linear attention, posterior estimator: S(c1, cG) with the noise of the logits relaxed (docs/theory.md, section 6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import Array, Averages, Covariance, Jet, Point, Posterior
from phasekit.theory.action.generated import mean_field
from phasekit.theory.action.linear import LinearAction, copying_scale, pooling_scale
from phasekit.theory.action.noise import Noise, relax

#: Smallest squared radius that is told apart from 0 (z is measured in the prior's standard deviations).
_SMALLEST = 1e-12


class _Pattern(NamedTuple):
    """A pattern: its coordinates, its averages without noise, and dq/ds, dq/dcG at fixed noise."""

    s: Array
    cG: Array
    s2: Array
    g: Array
    q: Array
    q_s: Array
    q_G: Array


class LinearPosterior(LinearAction, Posterior):
    """The posterior over G, W integrated out: Φ at the averages of pattern and noise, plus the prior's cost of both.

    The noise is minimised out at every point (:mod:`phasekit.theory.action.noise`), so the gradient is that at fixed
    noise and the Hessian the Schur complement: its inverse is the covariance of (c1, cG) over the posterior, to leading
    order. Exact for many rows. With positional inputs only: :class:`phasekit.theory.action.PoolingVector` is for
    token+position ones.
    """

    def _gradient(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        pattern = _pattern(self.physical(z, p), p)
        noise = _relaxed(pattern, p)
        along_s, along_G = _gradient(pattern, noise, p)
        return pooling_scale(p) * along_s, copying_scale(p) * along_G

    def jet(self, z: Point, p: Parameters) -> Jet:
        pattern = _pattern(self.physical(z, p), p)
        noise = _relaxed(pattern, p)
        a, b = pooling_scale(p), copying_scale(p)
        along_s, along_G = _gradient(pattern, noise, p)
        ss, sG, GG = _hessian(pattern, noise, p)
        value = mean_field.action(pattern.s, noise.s2, pattern.g, noise.q, *_data(p)) + noise.entropy
        value = value + (z[0] ** 2 + z[1] ** 2) / 2
        return Jet.of(value, (a * along_s, b * along_G), (a**2 * ss, a * b * sG, b**2 * GG))

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

    def _squared_radius(self, direction: Point, p: Parameters) -> Array:
        """Find where S is stationary along the ray.

        The data pull with at most P/(2κ) per unit of ln(radius²), the prior with half the squared radius: beyond P/κ
        the prior has won.
        """
        cosine, sine = np.broadcast_arrays(*direction)

        def outward(log_square: Array, p: Parameters, cosine: Array, sine: Array) -> Array:
            radius = np.exp(log_square / 2)
            along_s, along_G = self._gradient((radius * cosine, radius * sine), p)
            return cosine * along_s + sine * along_G

        shape = np.broadcast_shapes(cosine.shape, p.shape)
        low = np.full(shape, np.log(_SMALLEST))
        high = np.broadcast_to(np.log(np.maximum(2 * p.P / p.kappa, 2 * _SMALLEST)), shape)
        root = solve.root(outward, low, high, p, cosine, sine, relative=1e-13)
        return np.where(np.isnan(root), 0.0, np.exp(root))


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


def _gradient(pattern: _Pattern, noise: Noise, p: Parameters) -> tuple[Array, Array]:
    """Return dS/ds and dS/dcG at fixed noise; at relaxed noise these are those of the reduced action."""
    on_s, on_s2, on_g, on_q = mean_field.forces(pattern.s, noise.s2, pattern.g, noise.q, *_data(p))
    along_s = on_s + 2 * pattern.s * on_s2 + on_g / p.L + on_q * pattern.q_s + pattern.s / pooling_scale(p) ** 2
    along_G = on_g * (1 - 1 / p.L) + on_q * pattern.q_G + pattern.cG / copying_scale(p) ** 2
    return along_s, along_G


def _hessian(pattern: _Pattern, noise: Noise, p: Parameters) -> tuple[Array, Array, Array]:
    """Return the second derivatives (s s, s cG, cG cG) of the reduced action.

    A displacement changes the forces directly and through the noise, which answers to the forces: with the pattern's
    own change (dq, ds₂) and the response R, the totals change by u = (1 + R K)⁻¹ [(dq, ds₂) − R k], where K holds the
    stiffnesses (Φ_qq, Φ_s₂s₂) and k = (Φ_gq dg, Φ_ss₂ ds).
    """
    _, on_s2, _, on_q = mean_field.forces(pattern.s, noise.s2, pattern.g, noise.q, *_data(p))
    ss, s_s2, s2s2, gg, gq, qq = mean_field.stiffness(pattern.s, noise.s2, pattern.g, noise.q, *_data(p))
    r_qq, r_qs, r_ss = noise.response
    zero, one = np.zeros_like(noise.q), np.ones_like(noise.q)
    along_s = {"s": one, "g": one / p.L, "q": pattern.q_s, "s2": 2 * pattern.s}
    along_G = {"s": zero, "g": one * (1 - 1 / p.L), "q": pattern.q_G, "s2": zero}

    def force_change(d: dict[str, Array]) -> dict[str, Array]:
        direct_q, direct_s2 = gq * d["g"], s_s2 * d["s"]
        x = d["q"] - r_qq * direct_q - r_qs * direct_s2
        y = d["s2"] - r_qs * direct_q - r_ss * direct_s2
        a, b, c, e = 1 + r_qq * qq, r_qs * s2s2, r_qs * qq, 1 + r_ss * s2s2
        determinant = a * e - b * c
        dq, ds2 = (e * x - b * y) / determinant, (a * y - c * x) / determinant
        return {
            "s": ss * d["s"] + s_s2 * ds2,
            "g": gg * d["g"] + gq * dq,
            "q": direct_q + qq * dq,
            "s2": direct_s2 + s2s2 * ds2,
        }

    def contract(d: dict[str, Array], change: dict[str, Array]) -> Array:
        return np.asarray(sum(d[name] * change[name] for name in d))

    by_s, by_G = force_change(along_s), force_change(along_G)
    return (
        contract(along_s, by_s) + 2 * on_s2 + on_q * 2 / p.L + 1 / pooling_scale(p) ** 2,
        contract(along_s, by_G),
        contract(along_G, by_G) + on_q * 2 * (1 - 1 / p.L) + 1 / copying_scale(p) ** 2,
    )
