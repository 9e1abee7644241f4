"""What Adam's minimum over the factors of G = W_Qᵀ W_K does to the prior (docs/theory.md, section 9).

With key dimension d, the factors cost (‖W_Q‖² + ‖W_K‖²)√d/(2σ_g), and at fixed G at least √d ‖G‖_*/σ_g: the nuclear
norm, the sum of the singular values. A singular value x of G is a product of two weights, each √x at the minimum, so
the natural coordinate is the root: with x = σ_g z²/(2√d) it costs z²/2. In z the action is smooth, and its origin
always stationary, with the prior's curvature 1 as long as the data don't pull on x itself.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Estimator, Model, Parameters
from phasekit.theory import solve
from phasekit.theory.action.base import (
    Array,
    Averages,
    Coarse,
    Isolated,
    Jet,
    Point,
    Profile,
    StationaryPoints,
    share,
)
from phasekit.theory.action.generated import nuclear_map as generated
from phasekit.theory.action.price import Cheapest, Price, State
from phasekit.theory.action.search import polish
from phasekit.theory.action.softmax import largest_odds
from phasekit.theory.action.two_level import TwoLevelMap

_ROUNDING = 1e-9  # of the radicand of s
_NODES = 600  # values of the readout between which copying minima of linear attention are looked for


class NormPrice(Price):
    """Logits Δ (S − 11ᵀ/L), of zero row mean, have L − 1 singular values Δ; the path coordinate is δ = Δ.

    No other logits with the same copy weight cost less or gain more (``phasekit derive nuclear``), but they need
    d ≥ L − 1. A minimum at Δ = 0 is the origin, which needs no search.
    """

    coordinates = ("gap",)

    def __init__(self, key_dim: int) -> None:
        self.key_dim = key_dim

    def physical(self, point: Point, p: Parameters) -> Point:
        return (np.asarray(self._bend(p) * point[0] ** 2 / 2),)

    def state(self, point: Point, p: Parameters) -> State:
        bend = self._bend(p)
        return State(point, self.physical(point, p)[0], (bend * point[0],), (bend,))

    def place(self, u: Array, p: Parameters) -> Cheapest:
        bend = self._bend(p)
        return Cheapest((np.sqrt(2 * u / bend),), u, 1 / bend)

    def path(self, p: Parameters, cells: int) -> Array:
        return largest_odds(p, lambda gap: 1 / self._bend(p))[:, None] * np.linspace(0.0, 1.0, cells + 1)

    def _bend(self, p: Parameters) -> Array:
        """d²Δ/dz²: the gap is bend · z²/2."""
        return 1 / ((p.L - 1) * _per_singular_value(self.key_dim, p))


class SoftmaxNuclear(TwoLevelMap):
    """Softmax attention of factorised heads: one logit per row stands a gap Δ above the others.

    Parameters
    ----------
    key_dim : int
        d.
    """

    symmetric: ClassVar[bool] = True
    course: ClassVar[str] = "jumps"
    cells: ClassVar[int] = 64

    def __init__(self, key_dim: int) -> None:
        super().__init__(NormPrice(key_dim))


class LinearNuclear(Coarse, Isolated):
    """A has a row sum s, and r − 1 more singular values c, along as many modes of the shift; r = min(d, L).

    Every mode costs and gains alike, so those there is room for are all used equally. With d ≥ L the pattern is
    c1 11ᵀ/L + cG S with c = cG; below, copying is a shift of rank d. The path (coordinate s) covers minima that only
    pool, with c = 0; :meth:`isolated_stationary_points` finds those that copy.

    Parameters
    ----------
    key_dim : int
        d.
    """

    coordinates = ("s", "c")
    order_parameters: ClassVar[tuple[str, str]] = ("c1", "cG")
    symmetric: ClassVar[bool] = True
    course: ClassVar[str] = "jumps"
    cells: ClassVar[int] = 128

    def __init__(self, key_dim: int) -> None:
        self.key_dim = key_dim

    def physical(self, z: Point, p: Parameters) -> Point:
        return tuple(np.asarray(b * x * np.abs(x) / 2) for b, x in zip(self._bends(p), z, strict=True))

    def whitened(self, x: Point, p: Parameters) -> Point:
        """Turn physical coordinates (s, c) into whitened ones."""
        return tuple(np.sign(y) * np.sqrt(2 * np.abs(y) / b) for b, y in zip(self._bends(p), x, strict=True))

    def jet(self, z: Point, p: Parameters) -> Jet:
        a, b = self._bends(p)
        slope_a, slope_b = a * np.abs(z[0]), b * np.abs(z[1])
        s, c = self.physical(z, p)
        value, g1, g2, h11, h12, h22 = self._data(s, c, p)
        # Where z = 0 the curvature differs between the two signs of x; take the side that the data pull to.
        pull_a, pull_b = (np.where(x == 0, -np.abs(g), np.sign(x) * g) for x, g in ((z[0], g1), (z[1], g2)))
        return Jet.of(
            value + (z[0] ** 2 + z[1] ** 2) / 2,
            (z[0] + g1 * slope_a, z[1] + g2 * slope_b),
            (1 + a * pull_a + h11 * slope_a**2, h12 * slope_a * slope_b, 1 + b * pull_b + h22 * slope_b**2),
        )

    def loss(self, z: Point, p: Parameters) -> Array:
        s, c = self.physical(z, p)
        return generated.loss(s, c, 1 + self._others(p), p.P, p.V, p.L, p.sigma_w, p.kappa)

    def averages(self, z: Point, p: Parameters) -> Averages:
        s, c = self.physical(z, p)
        m = self._others(p)
        return Averages(s, s**2, (s + m * c) / p.L, (s**2 + m * c**2) / p.L)

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return share(self.averages(z, p))

    def path(self, p: Parameters, cells: int) -> Array:
        # The data's force on s is below 2hV/(t s³), h = P/(2κV): beyond this s the prior wins.
        t = p.strength
        largest = np.cbrt(p.P / (p.kappa * t * np.sqrt(p.pooling_cost) * self._cost(p))) * np.ones(p.shape)
        return largest[:, None] * np.linspace(0.0, 1.0, cells + 1) ** 2

    def profile(self, u: Array, p: Parameters) -> Profile:
        nothing = np.zeros(np.shape(u))
        slope = np.sqrt(p.pooling_cost) * self._cost(p) + self._data(u, nothing, p)[1]
        return Profile(self.whitened((u, nothing), p), slope)

    def offset(self, z: Point, u: Array, p: Parameters) -> Array:
        return np.asarray(self.physical(z, p)[0] - u)

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        """Return stationary points that copy, from the readout w = t g/(1 + t q).

        Stationarity in c reads w − c w² = ±k, and gives c; the definition of w is then quadratic in s. What remains is
        stationarity in s, one function of w on each root; its sign changes are bracketed on a grid. ``start`` is w.
        """
        t = p.strength
        low, high = self._threshold(p), np.sqrt(t * (1 + self._others(p)) / (4 * p.L))
        models = np.flatnonzero(low < high)
        q, steps = p[models], np.linspace(0.0, 1.0, _NODES + 1)
        nodes = np.exp(np.log(low[models])[:, None] + np.log(high / low)[models, None] * steps)
        owners, points, starts = [], [], []
        for sign in (-1.0, 1.0):
            grid = self._with_ends(nodes, q, sign)
            for sheet in (-1.0, 1.0):
                extras = (np.full(nodes.shape, sheet), np.full(nodes.shape, sign))
                positive = self._balance(grid, q.expand(), *extras) >= 0
                row, k = np.nonzero(positive[:, :-1] != positive[:, 1:])
                ends = (np.full(row.size, sheet), np.full(row.size, sign))
                w = solve.root(self._balance, grid[row, k], grid[row, k + 1], q[row], *ends)
                s, c, room = self._from_readout(w, q[row], *ends)
                good = (room > -_ROUNDING) & (s > 0) & np.isfinite(w)
                owners.append(models[row[good]])
                points.append(self.whitened((s[good], c[good]), q[row[good]]))
                starts.append(w[good])
        owner, z = np.concatenate(owners), tuple(np.concatenate(x) for x in zip(*points, strict=True))
        return StationaryPoints(owner, polish(self, z, p[owner]), np.concatenate(starts))

    def _with_ends(self, nodes: Array, p: Parameters, sign: float) -> Array:
        """Move the first node beyond each end of a solution for s, where its two roots meet, to that end."""

        def room(w: Array, p: Parameters) -> Array:
            return self._from_readout(w, p, np.asarray(1.0), np.asarray(sign))[2]

        inside = room(nodes, p.expand()) > 0
        row, k = np.nonzero(inside[:, :-1] != inside[:, 1:])
        moved = nodes.copy()
        moved[row, np.where(inside[row, k], k + 1, k)] = solve.root(room, nodes[row, k], nodes[row, k + 1], p[row])
        return moved

    def _balance(self, w: Array, p: Parameters, sheet: Array, sign: Array) -> Array:
        s, c, _ = self._from_readout(w, p, sheet, sign)
        return self._data(s, c, p)[1] + np.sign(s) * np.sqrt(p.pooling_cost) * self._cost(p)

    def _from_readout(self, w: Array, p: Parameters, sheet: Array, sign: Array) -> tuple[Array, Array, Array]:
        """Return s, c, and the radicand of s (negative: no solution; then s is that of 0), at readout ``sign`` · w."""
        t = p.strength
        k = self._threshold(p)
        c = sign * (w - k) / w**2
        room = 1 - 4 * w**2 * p.L / t + 4 * self._others(p) * np.abs(c) * k
        return sign * (1 + sheet * np.sqrt(np.maximum(room, 0.0))) / (2 * w), c, room

    def _threshold(self, p: Parameters) -> Array:
        """k: a mode of the shift grows from zero where the readout exceeds it."""
        return np.asarray(self._cost(p) * p.L**2 * p.kappa * p.V / (p.P * (p.V - 1)))

    def _cost(self, p: Parameters) -> Array:
        return _per_singular_value(self.key_dim, p)

    def _others(self, p: Parameters) -> Array:
        """r − 1: how many modes there are besides the uniform one."""
        return np.minimum(float(self.key_dim), p.L) - 1

    def _bends(self, p: Parameters) -> tuple[Array, Array]:
        """d²s/dz² and d²c/dz²: r − 1 singular values L c of G and one √λ s cost z²/2 (r = 1: c plays no role)."""
        others = np.maximum(self._others(p), 1.0)
        return 1 / (np.sqrt(p.pooling_cost) * self._cost(p)), 1 / (p.L * others * self._cost(p))

    def _data(self, s: Array, c: Array, p: Parameters) -> tuple[Array, ...]:
        """Return Φ(s, c) and its derivatives by s, c, ss, sc, cc."""
        return generated.data_jet(s, c, 1 + self._others(p), p.P, p.V, p.L, p.sigma_w, p.kappa)


def nuclear_action(model: Model, estimator: Estimator) -> LinearNuclear | SoftmaxNuclear:
    """Return the effective action of a factorised head; there is one for the map estimator.

    Raises
    ------
    InputError
        If there is no theory for its score, or its key dimension.
    """
    d, name = model.key_dim, model.score.name
    if d is None or estimator != "map" or name not in ("linear", "softmax"):
        allowed = "has no theory for factorised heads (key_dim); there is linear (map), softmax (map)"
        raise InputError("score and estimator", f"{name} ({estimator})", allowed)
    if name == "linear":
        return LinearNuclear(d)
    if d < model.L - 1:
        raise InputError("key_dim", d, f"copying softmax logits have rank L − 1 = {model.L - 1}: no theory for fewer")
    return SoftmaxNuclear(d)


def _per_singular_value(key_dim: int, p: Parameters) -> Array:
    """Return √d/σ_g, the cost of a unit of a singular value of G."""
    return np.asarray(np.sqrt(key_dim) / p.sigma_g)
