"""Linear attention: what both estimators share, and the map estimator, S(c1, cG) (docs/theory.md, section 4)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Action, Array, Averages, Coarse, Jet, Point, Profile, share
from phasekit.theory.action.generated import linear_map as generated


class LinearAction(Action):
    """The attention pattern is c1·11ᵀ/L + cG·(shift), for positional or token+position inputs.

    The whitened coordinates are ``z = (√λ s, L √(L−1) cG)/σ_g`` with ``s = c1 + cG``.
    """

    coordinates = ("c1", "cG")
    order_parameters: ClassVar[tuple[str, str]] = ("c1", "cG")
    symmetric: ClassVar[bool] = True
    course: ClassVar[str] = "onset"

    def physical(self, z: Point, p: Parameters) -> Point:
        copying = z[1] * copying_scale(p)
        return z[0] * pooling_scale(p) - copying, copying

    def whitened(self, x: Point, p: Parameters) -> Point:
        """Turn physical coordinates (c1, cG) into whitened ones."""
        return (x[0] + x[1]) / pooling_scale(p), x[1] / copying_scale(p)


class LinearMap(LinearAction, Coarse):
    """The joint minimum over W and G: S is a function of c1 and cG in closed form.

    Each direction of z holds one minimum along the ray from the origin, and the profile over the direction is searched
    exhaustively: the path coordinate is the angle of z.
    """

    cells: ClassVar[int] = 64  # these find the same minima as 512 in 40 000 random models; 48 lose one in 20 000

    def path(self, p: Parameters, cells: int) -> Array:
        # Where only part of the circle of directions is unstable, the path covers just that part (elsewhere the
        # profile is flat: the origin); else the half circle that the symmetry z → −z leaves. The ends are moved in by
        # a millionth, off the plateau, so that the sign of the slope is defined there.
        centre, half_width = self._unstable_directions(p)
        width = half_width * np.where(half_width < np.pi / 2, 1 - 1e-6, 1.0)
        nodes = np.zeros((*p.shape, cells + 1))
        unstable = np.flatnonzero(half_width > 0)
        p, centre, width = p[unstable], centre[unstable], width[unstable]
        first, last = _stretch(centre - width, p), _stretch(centre + width, p)
        steps = np.linspace(0.0, 1.0, cells + 1)
        nodes[unstable] = _unstretch(first[:, None] + (last - first)[:, None] * steps, p.expand())
        return nodes

    def profile(self, u: Array, p: Parameters) -> Profile:
        cosine, sine = np.cos(u), np.sin(u)
        radius = np.sqrt(self._squared_radius((cosine, sine), p))
        z = (radius * cosine, radius * sine)
        along_s, along_G = self._gradient(z, p)
        # S is stationary in the radius, so turning the point is all that changes the profile.
        return Profile(z, z[0] * along_G - z[1] * along_s)

    def offset(self, z: Point, u: Array, p: Parameters) -> Array:
        turned = np.arctan2(z[1], z[0]) - u
        return np.asarray(turned - np.pi * np.round(turned / np.pi))  # z and −z are one

    def _unstable_directions(self, p: Parameters) -> tuple[Array, Array]:
        """Return centre and half width of the interval of angles in which the origin is unstable.

        The origin's Hessian has an eigenvector at angle ``centre`` with the lower eigenvalue; directions within
        ``half_width`` of it have negative curvature (0 if none, π/2 if all).
        """
        hessian = self.jet((np.zeros(p.shape), np.zeros(p.shape)), p).hessian
        h11, h12, h22 = hessian[..., 0, 0], hessian[..., 0, 1], hessian[..., 1, 1]
        mean, half_difference = (h11 + h22) / 2, (h11 - h22) / 2
        spread = np.hypot(half_difference, h12)
        lower, upper = mean - spread, mean + spread
        centre = np.arctan2(-h12, -half_difference) / 2
        half_width = np.arctan2(np.sqrt(np.maximum(-lower, 0.0)), np.sqrt(np.maximum(upper, 0.0)))
        return centre, np.where(lower < 0, half_width, 0.0)

    def _gradient(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        g1, g2 = generated.gradient(*self.physical(z, p), *_numbers(p))
        return pooling_scale(p) * g1, copying_scale(p) * (g2 - g1)

    def jet(self, z: Point, p: Parameters) -> Jet:
        a, b = pooling_scale(p), copying_scale(p)
        c1, cG = self.physical(z, p)
        value, g1, g2, h11, h12, h22 = generated.jet(c1, cG, *_numbers(p))
        second = (a**2 * h11, a * b * (h12 - h11), b**2 * (h22 - 2 * h12 + h11))
        return Jet.of(value, (a * g1, b * (g2 - g1)), second)

    def loss(self, z: Point, p: Parameters) -> Array:
        return generated.loss(*self.physical(z, p), *_numbers(p))

    def averages(self, z: Point, p: Parameters) -> Averages:
        c1, cG = self.physical(z, p)
        return Averages(*generated.averages(c1, cG, p.L))

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return share(self.averages(z, p))

    def _squared_radius(self, direction: Point, p: Parameters) -> Array:
        """Return the squared radius that minimises S along a direction; 0 where the origin does.

        With ``ρ = ‖z‖²`` the action is ``A/(1+aρ) + B[1 − eρ/(1+cρ)] + ρ/2``, so it is stationary where
        ``Aa/(1+aρ)² + Be/(1+cρ)² = 1/2``. The inverse root of the left-hand side is concave and rises with ρ, and is
        exactly linear if one term dominates: Newton on it climbs to the solution from the larger one of the two
        single-term solutions without overshooting.
        """
        s, _, g, q = self.averages(direction, p)
        t = p.strength
        half = p.P / (2 * p.kappa * p.V)
        a, c = t * s**2, t * q
        pooling, copying = 2 * half * a, 2 * half * (p.V - 1) * t * g**2
        tiny = np.finfo(float).tiny
        rho = np.maximum((np.sqrt(pooling) - 1) / np.maximum(a, tiny), (np.sqrt(copying) - 1) / np.maximum(c, tiny))
        rho = np.where(pooling + copying > 1, np.maximum(rho, 0.0), 0.0)
        for _ in range(_RADIUS_STEPS):
            x, y = 1 / (1 + a * rho), 1 / (1 + c * rho)
            px, cy = pooling * x * x, copying * y * y
            total = px + cy
            step = total * (np.sqrt(total) - 1) / np.maximum(a * px * x + c * cy * y, tiny)
            rho = np.maximum(rho + step, 0.0)
            if (np.abs(step) <= 1e-7 * rho).all():  # convergence is quadratic: the next step would be 1e-14
                break
        return np.asarray(rho)


#: Newton steps for the radius at most; 4 to 6 suffice in practice (the convergence is quadratic).
_RADIUS_STEPS = 12


def _numbers(p: Parameters) -> tuple[Array, ...]:
    return p.P, p.V, p.L, p.sigma_w, p.logit_scale, p.kappa, p.pooling_cost


def pooling_scale(p: Parameters) -> Array:
    """Prior standard deviation of s = c1 + cG."""
    return np.asarray(p.logit_scale / np.sqrt(p.pooling_cost))


def copying_scale(p: Parameters) -> Array:
    """Prior standard deviation of cG."""
    return np.asarray(p.logit_scale / (p.L * np.sqrt(p.L - 1)))


def _stretch(angle: Array, p: Parameters) -> Array:
    """Map angles to a coordinate in which even steps resolve every direction that matters.

    ``asinh(√L tan θ)`` spreads out both pooling (θ of order 1/√L) and copying (θ near π/2) at any L; it is cut off
    beyond the steepest direction of interest and continued from one half turn to the next.
    """
    turns = np.round(angle / np.pi)
    inside = np.arcsinh(np.sqrt(p.L) * np.tan(angle - turns * np.pi))
    return np.asarray(np.clip(inside, -_reach(p), _reach(p)) + 2 * _reach(p) * turns)


def _unstretch(stretched: Array, p: Parameters) -> Array:
    turns = np.round(stretched / (2 * _reach(p)))
    return np.asarray(np.arctan(np.sinh(stretched - 2 * _reach(p) * turns) / np.sqrt(p.L)) + np.pi * turns)


def _reach(p: Parameters) -> Array:
    """Cut-off of the stretched angle, at tan θ = 100 L^2.5."""
    return np.asarray(np.log(200 * p.L**3))
