"""Any normalised score, map estimator: one raised logit a row (docs/theory.md, section 6).

A row that gives weight α to its copy entry and the same weight to each other entry is described by one number, the log
odds δ = ln[(L−1) α/(1−α)] of the copy entry against any other one. In δ the data part of the action is that of softmax
attention, whatever the score. Scores differ in what it costs to reach δ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from phasekit import solve
from phasekit.action.base import Action, Array, Averages, Jet, Point, Profile
from phasekit.action.generated import softmax_map
from phasekit.action.generated import two_level as generated
from phasekit.model import Parameters
from phasekit.scores.elementwise import ElementwiseSoftmax

if TYPE_CHECKING:
    from torch import Tensor


class _Data(NamedTuple):
    """Φ(δ) and its first two derivatives."""

    value: Array
    slope: Array
    curvature: Array


class TwoLevelMap(Action):
    """What all normalised scores share: the data part over log odds."""

    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")
    symmetric: ClassVar[bool] = False
    cells: ClassVar[int] = 128

    def gradient(self, z: Point, p: Parameters) -> tuple[Array, ...]:
        return self.jet(z, p).gradient

    def loss(self, z: Point, p: Parameters) -> Array:
        return softmax_map.loss(self.log_odds(z, p), p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa)

    def averages(self, z: Point, p: Parameters) -> Averages:
        return Averages(*softmax_map.averages(self.log_odds(z, p), p.L))

    def log_odds(self, z: Point, p: Parameters) -> Array:
        """Return δ."""
        raise NotImplementedError

    def path(self, p: Parameters, cells: int) -> Array:
        # The coordinate is the gap, in even steps of asinh: scores that grow as powers need gaps from 1 to thousands.
        # Beyond three times the gap whose prior alone costs all that the data can give, no minimum was ever found.
        last = 3 * p.sigma_g * np.sqrt(p.P / (p.kappa * (p.L - 1))) + 1e-3 + np.zeros(p.shape)
        return np.sinh(np.arcsinh(last)[:, None] * np.linspace(0.0, 1.0, cells + 1))


class ElementwiseMap(TwoLevelMap):
    """Scores f(h)/Σf with f = exp(t): δ = t(u) − t(v) for logits u on the copy entry and v on the others.

    In terms of the gap u − v and the row mean m the prior costs [(L−1) gap² + λ m²]/(2σ_g²), λ the pooling cost. At a
    stationary point both feel the same −Φ'(δ): λ m δ_gap = (L−1) gap δ_m contains neither the data nor P. So the
    stationary points of all P lie on one curve m(gap), on which the search for minima runs.
    """

    coordinates: ClassVar[tuple[str, ...]] = ("gap", "mean")

    def __init__(self, score: ElementwiseSoftmax) -> None:
        self.score = score

    def physical(self, z: Point, p: Parameters) -> Point:
        return z[0] * _gap_scale(p), z[1] * _mean_scale(p)

    def log_odds(self, z: Point, p: Parameters) -> Array:
        u, v = _levels(self.physical(z, p), p)
        return np.asarray(self._transform(u, p)[0] - self._transform(v, p)[0])

    def jet(self, z: Point, p: Parameters) -> Jet:
        u, v = _levels(self.physical(z, p), p)
        (up, up1, up2), (down, down1, down2) = self._transform(u, p), self._transform(v, p)
        share = 1 - 1 / p.L  # du/dgap; dv/dgap = −1/L, du/dm = dv/dm = 1
        data = _data(up - down, p)
        gap, mean = up1 * share + down1 / p.L, up1 - down1
        second = (up2 * share**2 - down2 / p.L**2, up2 * share + down2 / p.L, up2 - down2)
        a, b = _gap_scale(p), _mean_scale(p)
        gradient = (a * data.slope * gap + z[0], b * data.slope * mean + z[1])
        gg = a**2 * (data.curvature * gap**2 + data.slope * second[0]) + 1
        gm = a * b * (data.curvature * gap * mean + data.slope * second[1])
        mm = b**2 * (data.curvature * mean**2 + data.slope * second[2]) + 1
        return Jet(data.value + (z[0] ** 2 + z[1] ** 2) / 2, gradient, ((gg, gm), (gm, mm)))

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the points with relaxed mean, and ∂S/∂gap there, which has the sign of the profile's slope."""
        mean = self._relaxed_mean(u, p)
        z = (u / _gap_scale(p), mean / _mean_scale(p))
        high, low = _levels((u, mean), p)
        (up, up1, _), (down, down1, _) = self._transform(high, p), self._transform(low, p)
        rise = up1 * (1 - 1 / p.L) + down1 / p.L
        return Profile(z, _data(up - down, p).slope * rise + u * (p.L - 1) / p.sigma_g**2)

    def _relaxed_mean(self, gap: Array, p: Parameters) -> Array:
        def balance(mean: Array, p: Parameters, gap: Array) -> Array:
            u, v = _levels((gap, mean), p)
            up, down = self._transform(u, p)[1], self._transform(v, p)[1]
            rise = up * (1 - 1 / p.L) + down / p.L
            return p.pooling_cost * mean * rise - (p.L - 1) * gap * (up - down)

        gap = np.broadcast_to(gap, np.broadcast_shapes(np.shape(gap), p.shape))
        at_zero = balance(np.zeros(gap.shape), p, gap)
        flat = np.abs(at_zero) <= 1e-15 * (p.L - 1) * np.abs(gap)  # a score that ignores a shift of the row
        # The mean lies on the side to which it is pulled, and no further than a whole gap.
        end = np.where(at_zero > 0, -gap, gap)
        root = solve.root(balance, np.minimum(end, 0.0), np.maximum(end, 0.0), p, gap, relative=1e-14)
        if np.isnan(root[~flat]).any():
            raise ArithmeticError(f"no row mean balances the logits of {self.score!r} at some gap")
        return np.where(flat, 0.0, root)

    def _transform(self, x: Array, p: Parameters) -> tuple[Array, Array, Array]:
        """Return t and its first two derivatives, by automatic differentiation of the score's slope."""
        import torch

        shape = np.broadcast_shapes(np.shape(x), p.shape)
        point = torch.tensor(np.broadcast_to(x, shape), dtype=torch.float64, requires_grad=True)
        values: dict[str, Tensor] = {
            name: torch.tensor(np.broadcast_to(p.score[name], shape), dtype=torch.float64)
            for name in self.score.learnable
        }
        slope = self.score.slope(point, **values) + 0 * point
        (second,) = torch.autograd.grad(slope.sum(), point)
        with torch.no_grad():
            value = self.score.transform(point.detach(), **values) + 0 * point.detach()
        return value.numpy(), slope.detach().numpy(), second.numpy()


class EntmaxMap(TwoLevelMap):
    """α-entmax, sparsemax (α = 2): with k = α − 1 the gap p^k (1 − e^(−kδ))/k gives log odds δ and copy weight p.

    Rows ignore a shift, so the cost is (L−1) gap²/(2σ_g²). At the gap 1/k the copy entry has all the weight.
    """

    coordinates: ClassVar[tuple[str, ...]] = ("gap",)

    def physical(self, z: Point, p: Parameters) -> Point:
        return (z[0] * _gap_scale(p),)

    def log_odds(self, z: Point, p: Parameters) -> Array:
        return self._odds(z[0] * _gap_scale(p), p)

    def jet(self, z: Point, p: Parameters) -> Jet:
        delta = self.log_odds(z, p)
        data, (_, needed, bend) = _data(delta, p), _entmax_gap(delta, p)
        partial = z[0] * _gap_scale(p) < 1 / _k(p)  # beyond, the copy entry has all the weight and the data are content
        scale = np.where(partial, _gap_scale(p) / needed, 0.0)  # dδ/dz
        curvature = scale**2 * (data.curvature - data.slope * bend / needed)
        return Jet(data.value + z[0] ** 2 / 2, (data.slope * scale + z[0],), ((curvature + 1,),))

    def profile(self, u: Array, p: Parameters) -> Profile:
        delta = self._odds(u, p)
        slope = _data(delta, p).slope / _entmax_gap(delta, p)[1] + u * (p.L - 1) / p.sigma_g**2
        return Profile((u / _gap_scale(p),), slope)

    def path(self, p: Parameters, cells: int) -> Array:
        most = (1 - 1e-9) / _k(p)
        last = np.minimum(super().path(p, 1)[:, -1], most)
        return np.sinh(np.arcsinh(last)[:, None] * np.linspace(0.0, 1.0, cells + 1))

    def _odds(self, gap: Array, p: Parameters) -> Array:
        def excess(delta: Array, p: Parameters, gap: Array) -> Array:
            return _entmax_gap(delta, p)[0] - gap

        shape = np.broadcast_shapes(np.shape(gap), p.shape)
        gap = np.broadcast_to(gap, shape)
        k = _k(p)
        # From below: no log odds are smaller than the gap over p^(k−1) … ; 1 − e^(−kδ) ≥ k·gap.
        low = np.broadcast_to(np.minimum(-1.0, gap), shape)
        high = np.broadcast_to(np.log(p.L - 1) + 40 / np.minimum(k, 1.0), shape)
        root = solve.root(excess, low, high, p, gap, relative=1e-15)
        return np.where(gap == 0, 0.0, np.where(np.isnan(root), high, root))


def _k(p: Parameters) -> Array:
    """Return α − 1; sparsemax has no number of its own."""
    return np.asarray(p.score["alpha"] - 1) if "alpha" in p.score else np.ones(p.shape)


def _entmax_gap(delta: Array, p: Parameters) -> tuple[Array, Array, Array]:
    """Return the gap and its first two derivatives in δ."""
    return generated.entmax_gap(delta, p.L, _k(p))


def _data(delta: Array, p: Parameters) -> _Data:
    return _Data(*generated.data_jet(delta, p.P, p.V, p.L, p.sigma_w, p.kappa))


def _levels(x: Point, p: Parameters) -> tuple[Array, Array]:
    """Return the logits of the copy entry and of all others, from gap and mean."""
    gap, mean = x
    return mean + gap * (1 - 1 / p.L), mean - gap / p.L


def _gap_scale(p: Parameters) -> Array:
    return np.asarray(p.sigma_g / np.sqrt(p.L - 1))


def _mean_scale(p: Parameters) -> Array:
    return np.asarray(p.sigma_g / np.sqrt(p.pooling_cost))
