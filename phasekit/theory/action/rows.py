"""Rows of different length in a common field: what masked heads are made of (docs/beyond.md).

Rows (``phasekit derive front``) meet only in two averages, g and q, and

    −t g²/(1 + t q) = min over w of (−2 w g + w² q + w²/t):

given the gain w of the readout, rows are independent. So S is the minimum over w and over each row's logits of

    E = P/(2κV(1+t)) + K (1 + w²/t) + Σ_i [K/R (−2 w α_i + w² q_i) + cost_i],     K = P(V−1)/(2κV),

with R rows that count. A row of n keys pays 1/n of what a head of L = n pays for its rows (:mod:`.price`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory.action.base import TOLERANCE, Array, Point
from phasekit.theory.action.price import Price
from phasekit.theory.action.token_data import row_averages

#: Cells that a row's path is cut into, and nodes of w of the scan.
_CELLS, _FIELDS = 96, 64
#: Lengths per factor e that the coarse scan looks at, valleys that are followed, cells on each side of one that the
#: fine scan looks at, its fields in each, and how many of its minima are finished.
_PER_E, _VALLEYS, _WIDE, _FINE, _MINIMA = 64, 4, 2, 8, 4
_NEWTON_STEPS, _SETTLED = 40, 1e-12
#: Rows that are moved across their barriers at once, at first; then a quarter, and so on.
_MOST = 64
#: What counts as a lower action (relative), and steps of a descent at most.
_GAIN, _SWEEPS = 1e-13, 5000
Nodes = NDArray[np.int64]


class Table(NamedTuple):
    """Rows of each length (first axis) at the nodes of their path (second axis): odds, weights, and a row's cost."""

    u: Array
    alpha: Array
    q: Array
    cost: Array


class RowStates(NamedTuple):
    """Each row at some logits."""

    point: Point
    delta: Array
    alpha: Array
    q: Array
    cost: Array


@dataclass(frozen=True)
class Stationary:
    """A stationary state of a head's rows and readout.

    Attributes
    ----------
    action : S
    w : gain of the readout in the directions of vocabulary space in which tokens differ
    rows : RowStates
        One for each length.
    g, q : averages over the rows that count
    gradient_norm : of S, as :class:`phasekit.theory.minima.Minima` has it
    softest : lowest curvature in whitened coordinates; positive in a minimum
    """

    action: float
    w: float
    rows: RowStates
    g: float
    q: float
    gradient_norm: float
    softest: float

    @property
    def settled(self) -> bool:
        """Whether it is a minimum."""
        return self.softest > 0 and self.gradient_norm <= TOLERANCE


class Rows:
    """The rows of one model.

    Parameters
    ----------
    price : Price
    p : Parameters
        Of one model, 0-d arrays.
    """

    def __init__(self, price: Price, p: Parameters) -> None:
        self.price, self.p = price, p
        self.keys, self.count = lengths(p)
        self.number = float(self.count.sum())
        self.t = float(p.strength)
        self.weight = float(p.P * (p.V - 1) / (2 * p.kappa * p.V))
        self.pull = self.weight / self.number
        self.constant = float(p.P / (2 * p.kappa * p.V)) / (1 + self.t)
        # A row's logits cost at most what data can give it; rounded up, so that models nearby share their table.
        share = 2.0 ** np.ceil(np.log2(self.pull))
        self.row_p = p.replace(L=self.keys, P=2 * p.kappa * share * self.keys).ravel()
        self.table = _table(price, float(share), self.row_p)

    def values(self, w: float) -> Array:
        """Return what each node of each row adds to E at a field, shape (lengths, nodes)."""
        return self.pull * w * (w * self.table.q - 2 * self.table.alpha) + self.table.cost

    def profile(self, w: Array, chosen: Nodes, count: Array) -> tuple[Array, Nodes]:
        """Return E at fields w, and the node of each row there: those ``chosen`` stand for ``count`` rows each.

        A row is at the best of its nodes, and what it gains between nodes is that of a parabola.
        """
        alpha, q, cost = (x[chosen] for x in self.table[1:])
        energy, nodes = np.empty(w.size), np.empty((w.size, chosen.size), dtype=np.int64)
        for k, field in enumerate(w):
            value = self.pull * field * (field * q - 2 * alpha) + cost
            node = nodes[k] = value.argmin(1)
            middle = np.clip(node, 1, value.shape[1] - 2)
            below, here, above = (np.take_along_axis(value, (middle + i)[:, None], 1)[:, 0] for i in (-1, 0, 1))
            bend = below - 2 * here + above
            gain = np.where((node == middle) & (bend > 0), (below - above) ** 2 / (8 * np.where(bend > 0, bend, 1)), 0)
            energy[k] = count @ (value.min(1) - gain)
        return self.constant + self.weight * (1 + w**2 / self.t) + energy, nodes

    def fields(self) -> Array:
        """Return fields that cover every stationary one: w = g/(q + 1/t), with g² ≤ q ≤ 1 and g at least pooling's."""
        pooled = float(self.count @ (1 / self.keys)) / self.number
        g = max(pooled, self.t**-0.5)
        return np.geomspace(0.99 * pooled / (1 + 1 / self.t), 1.01 * g / (g**2 + 1 / self.t), _FIELDS)

    def balance(self, node: Nodes) -> float:
        """Return the field in which rows at these nodes leave the readout."""
        g, q = (self._mean(np.take_along_axis(x, node[:, None], 1)[:, 0]) for x in (self.table.alpha, self.table.q))
        return g / (q + 1 / self.t)

    def lowest(self) -> Stationary:
        """Return the global minimum: each row at its lower minimum, at the best field.

        A coarse scan sees the valleys of the profile, a fine one the minima in them: where rows jump one by one, each
        has a minimum on both sides of its jump. Where the scan can't tell rows apart, the front is moved to and fro by
        a row until nothing is gained.
        """
        w = self.fields()
        coarse, _ = self.profile(w, *_thinned(self.keys, self.count))
        fine = np.unique(np.concatenate([_around(w, k) for k in _minima(coarse)[:_VALLEYS]]))
        energy, nodes = self.profile(fine, np.arange(self.keys.size), self.count)
        starts = _minima(energy)[:_MINIMA]
        found = [self.stationary(float(fine[k]), nodes[k]) for k in starts]
        best, k = min(zip(found, starts, strict=True), key=lambda each: (not each[0].settled, each[0].action))
        return self._moved(best, nodes[k])

    def descended(self, first: int) -> Stationary:
        """Return the minimum that a descent reaches from first rows that copy by a half, and others that spread evenly.

        All rows move by a node at a time and the readout follows, as in slow training.
        """
        copying = np.abs(self.table.alpha - 0.5).argmin(1)
        node = np.where(np.cumsum(self.count) < first, copying, 0)
        for _ in range(_SWEEPS):
            following = self._lower(node)
            if (following == node).all():
                break
            node = following
        return self.stationary(self.balance(node), node)

    def _lower(self, node: Nodes) -> Nodes:
        """Move each row to the lower one of its neighbouring nodes, if that is lower."""
        last = self.table.u.shape[1] - 1
        first = np.arange(node.size) * (last + 1)
        alpha, q, cost = (x.ravel() for x in self.table[1:])
        w = self._mean(alpha[first + node]) / (self._mean(q[first + node]) + 1 / self.t)
        places = node, np.maximum(node - 1, 0), np.minimum(node + 1, last)
        here, down, up = (self.pull * w * (w * q[k] - 2 * alpha[k]) + cost[k] for k in (first + x for x in places))
        return np.where((down < here) & (down <= up), places[1], np.where(up < here, places[2], node))

    def _moved(self, best: Stationary, node: Nodes) -> Stationary:
        """Move rows at the front across their barriers as long as the action falls."""
        moved = _MOST
        while moved:
            for trial in self._moved_fronts(node, best.w, moved):
                found = self.stationary(best.w, trial)
                if found.settled and found.action < best.action - _GAIN * abs(best.action):
                    best, node = found, trial
                    break
            else:
                moved //= 4
        return best

    def _moved_fronts(self, node: Nodes, w: float, moved: int) -> list[Nodes]:
        """Return the nodes with so many rows more, or less, on the other side of their barriers, the readiest first."""
        value = self.values(w)
        rising, last = np.diff(value) > 0, value.shape[1] - 1
        ends = np.where(rising.any(1), rising.argmax(1), last), last - (~rising[:, ::-1]).argmax(1)
        ends = ends[0], np.where(rising.all(1), 0, ends[1])
        low, high = (np.take_along_axis(value, end[:, None], 1)[:, 0] for end in ends)
        two = ends[1] > ends[0] + 1
        up = two & (np.abs(node - ends[1]) < np.abs(node - ends[0]))
        trials = []
        for side, target in ((up, ends[0]), (two & ~up, ends[1])):
            rows = np.flatnonzero(side)
            if rows.size >= moved:
                readiest = rows[np.argsort(np.abs(high - low)[rows], kind="stable")[:moved]]
                trials.append(node.copy())
                trials[-1][readiest] = target[readiest]
        return trials

    def stationary(self, w: float, node: Nodes) -> Stationary:
        """Finish a state by Newton's method in all logits and the field at once: its matrix is an arrow, O(rows)."""
        u = np.take_along_axis(self.table.u, node[:, None], 1)[:, 0]
        point = self.price.place(u, self.row_p).point
        still = np.zeros((u.size, len(point)))
        point = self.price.moved(point, still, still, self.row_p)
        for _ in range(_NEWTON_STEPS):
            state, row, cross, slopes, inverse = self._expand(point, w)
            field, stiffness = self._field(state, w)
            against = (cross[:, None] @ inverse)[:, 0]
            schur = stiffness - self.count @ (against * cross).sum(1)
            dw = -(field - self.count @ (against * row).sum(1)) / schur
            step = -(inverse @ (row + cross * dw)[..., None])[..., 0]
            limit = 1 / max(1.0, float(np.abs(step * slopes).max()), abs(dw) / (0.3 * w))
            dw, step = dw * limit, step * limit
            w = float(w + dw)
            point = self.price.moved(point, step, slopes, self.row_p)
            if limit == 1 and abs(dw) < _SETTLED * w and float(np.abs(step).max()) < 1e-9:
                break
        return self._finished(point, float(w))

    def _finished(self, point: Point, w: float) -> Stationary:
        state, row, cross, _, inverse = self._expand(point, w)
        field, stiffness = self._field(state, w)
        g, q = self._mean(state.alpha), self._mean(state.q)
        rest = self.constant + self.weight * (1 + w**2 / self.t)
        energy = rest + self.count @ (self.pull * w * (w * state.q - 2 * state.alpha) + state.cost)
        unit = self.keys**0.5  # of a row's whitened logits
        size = np.sqrt(self.count @ (2 * state.cost) + 2 * self.weight / self.t * w**2)
        slope = self.count @ ((row * unit[:, None]) ** 2).sum(1) + field**2 / (2 * self.weight / self.t)
        curvature = self.keys / inverse[:, 0, 0] if row.shape[1] == 1 else self._curvatures(inverse)
        # Rows alone are stable where their own curvatures are positive; together, where Schur's complement is.
        together = 1 - self.count @ ((cross[:, None] @ inverse)[:, 0] * cross).sum(1) / stiffness
        softest = min(float(curvature.min()), float(together * stiffness) / (2 * self.weight / self.t))
        norm = float(np.sqrt(slope)) / (max(1.0, float(size)) * max(1.0, float(curvature.max())))
        return Stationary(float(energy), w, state, g, q, norm, softest)

    def _expand(self, point: Point, w: float) -> tuple[RowStates, Array, Array, Array, Array]:
        """Return rows with gradient, mixed derivative with w, dδ/dz, and inverse Hessian, in their logits z."""
        at = self.price.state(point, self.row_p)
        first = np.stack(np.broadcast_arrays(*at.first, at.delta)[:-1], axis=-1)
        (alpha, a1, a2), (q, q1, q2) = row_averages(at.delta, self.row_p)
        force, bend = self.pull * w * (w * q1 - 2 * a1), self.pull * w * (w * q2 - 2 * a2)
        z = np.stack(at.z, axis=-1)
        row = force[:, None] * first + z / self.keys[:, None]
        cross = (2 * self.pull * (w * q1 - a1))[:, None] * first
        k = z.shape[1]
        hessian = bend[:, None, None] * first[:, :, None] * first[:, None]
        for second, i, j in zip(at.second, *np.triu_indices(k), strict=True):
            hessian[:, i, j] += force * second
            if i != j:
                hessian[:, j, i] += force * second
        hessian += np.eye(k) / self.keys[:, None, None]
        cost = (z**2).sum(1) / (2 * self.keys)
        kink = self.price.in_kink(point, self.row_p)
        if kink.any():  # the data pull against a wall: the shortest subgradient, and nothing moves
            row = np.where(kink[:, None], np.maximum(row, 0.0), row)
            cross, first = (np.where(kink[:, None], 0.0, x) for x in (cross, first))
            hessian[kink] = np.eye(k) / self.keys[kink, None, None]
        inverse = np.linalg.inv(hessian) if k > 1 else 1 / hessian
        return RowStates(point, at.delta, alpha, q, cost), row, cross, first, inverse

    def _curvatures(self, inverse: Array) -> Array:
        return np.asarray(np.linalg.eigvalsh(np.linalg.inv(inverse) * self.keys[:, None, None]))

    def _field(self, state: RowStates, w: float) -> tuple[float, float]:
        """Return ∂E/∂w and ∂²E/∂w² at fixed rows."""
        g, q = self._mean(state.alpha), self._mean(state.q)
        return 2 * self.weight * (w * (q + 1 / self.t) - g), 2 * self.weight * (q + 1 / self.t)

    def _mean(self, of_rows: Array) -> float:
        return float(self.count @ of_rows) / self.number


def _minima(profile: Array) -> Nodes:
    """Return where a profile has minima inside, lowest first; its lowest place if it has none."""
    inner = np.flatnonzero((profile[1:-1] <= profile[:-2]) & (profile[1:-1] <= profile[2:])) + 1
    return inner[np.argsort(profile[inner])] if inner.size else np.array([profile.argmin()])


def _around(w: Array, k: int) -> Array:
    """Return fields that lie closely around one of a coarse scan."""
    low, high = max(k - _WIDE, 0), min(k + _WIDE, w.size - 1)
    return np.exp(np.interp(np.arange(low * _FINE, high * _FINE + 1) / _FINE, np.arange(w.size), np.log(w)))


def lengths(p: Parameters) -> tuple[Array, Array]:
    """Return the different numbers of keys that rows see, and how many rows see each."""
    keys, count = np.unique(p.setting.mask.keys(round(float(p.L))), return_counts=True)
    return keys.astype(float), count.astype(float)


#: Tables that neighbouring models of a grid share.
_TABLES: dict[object, Table] = {}
_KEPT = 16


def _table(price: Price, share: float, row_p: Parameters) -> Table:
    """Return the table of rows whose data are worth ``share``, from the cache if it is there."""
    own = [np.asarray(number).tobytes() for name, number in row_p.score.items()]
    key = (price, row_p.setting, share, *(np.asarray(x).tobytes() for x in (row_p.L, row_p.logit_scale)), *own)
    if key not in _TABLES:
        if len(_TABLES) == _KEPT:
            _TABLES.clear()
        u, each = price.path(row_p, _CELLS), row_p.expand()
        place = price.place(u, each)
        (alpha, *_), (q, *_) = row_averages(place.delta, each)
        cost = sum(z**2 for z in price.state(place.point, each).z) / (2 * each.L)
        _TABLES[key] = Table(u, alpha, q, np.asarray(cost))
    return _TABLES[key]


def _thinned(keys: Array, count: Array) -> tuple[Nodes, Array]:
    """Return one length out of each few per cent, and how many rows it stands for."""
    group = np.unique(np.floor(np.log(keys) * _PER_E), return_inverse=True)[1]
    total = np.bincount(group, count)
    middle = np.bincount(group, count * keys) / total
    return np.asarray(np.abs(keys[:, None] - middle).argmin(0)), total.astype(float)
