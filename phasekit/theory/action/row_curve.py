"""The curve of stationary states of rows in the mean field of all others (docs/theory.md, section 6).

For given θ the conditions L θ = −Φ_g and L η = −Φ_q leave one strength of the data t = Pσ_w²/(κV), whatever P and κ.
The curve is followed from no copying to almost full copying, in steps of ln θ that are short where it bends; between
its nodes everything is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import BSpline, KroghInterpolator, make_interp_spline

from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.theory.action.base import Array
from phasekit.theory.action.row_averages import ROW_ERROR, Cumulants, Rows, data_strength, rows_of, squeeze

#: Where a curve begins; the shares of copying up to which it is followed, further for stronger data only.
_FIRST, _COPYING = 5e-3, (0.7, 0.85, 0.95)
#: d ln t/d ln θ from which on a curve is far from folding; it is near 1/2 in small fields and 1.2 in large ones.
RISING = 0.9
#: At V = 2 weak fields rise as steeply (up to 1 where Lθ/(V − 1) is large), but copy less than this: folds follow.
WEAK = 0.1
#: Folds are passed after so many nodes in a row that rise so in stronger fields.
_FOR_GOOD = 3
#: The curve ends where fewer independent rows than this carry the averages; derivatives are taken where so many do.
_FEWEST_ROWS, _MANY_ROWS = 1000, 4000
#: Steps of ln θ: the first, the longest, the shortest.
_STEP, _LONGEST, _SHORTEST = 0.5, 1.2, 1e-3
#: The relative miss of a prediction that they are made for, its power of the rows' error, and how large it may be; a
#: larger one than the last is a state that was lost.
_MISS, _MISS_POWER, _MOST_MISS, _LOST = 2e-3, 0.6, 6e-3, 3e-2
#: Nodes at most.
_MOST_NODES = 400
#: Newton's method for η: its steps, and the relative step that is the last one.
_NEWTON_STEPS, _SETTLED = 30, 1e-5
_TINY = 1e-30


class _Node(NamedTuple):
    """A stationary state: x = ln θ, η, ln t, averages, dη/dx and d ln t/dx, and what helps to find it again."""

    x: float
    eta: float
    log_t: float
    row: Cumulants
    eta_slope: float
    log_t_slope: float
    near: Any

    @property
    def smooth(self) -> tuple[float, ...]:
        """What has known slopes: ln t, η, ln Z₁, g and q."""
        return self.log_t, self.eta, *self.row[:3]

    @property
    def slopes(self) -> tuple[float, ...]:
        """The derivatives of that in ln θ."""
        row, theta = self.row, np.exp(self.x)
        along = (
            row.g * theta + row.q * self.eta_slope,
            row.gg * theta + row.gq * self.eta_slope,
            row.gq * theta + row.qq * self.eta_slope,
        )
        return self.log_t_slope, self.eta_slope, *along


@dataclass(frozen=True)
class Curve:
    """The stationary states of one system.

    Attributes
    ----------
    rows : Rows
    theta : array
        Nodes, increasing.
    trusted : float
        θ up to which derivatives along the curve are free of noise.
    """

    rows: Rows
    theta: Array
    trusted: float
    _nodes: tuple[_Node, ...]
    _smooth: BSpline
    _others: BSpline

    @property
    def last_t(self) -> float:
        """The strength of the data at its end."""
        return float(np.exp(self._nodes[-1].log_t))

    def log_t(self, theta: Array) -> Array:
        """Return ln t of states; before the curve's first one, that of the first."""
        return np.asarray(self._smooth(np.log(np.maximum(theta, self.theta[0])))[..., 0])

    def log_t_slope(self, theta: Array) -> Array:
        """Return d ln t/d ln θ."""
        return np.asarray(self._smooth(np.log(np.maximum(theta, self.theta[0])), 1)[..., 0])

    def eta(self, theta: Array) -> Array:
        return np.asarray(self._smooth(np.log(theta))[..., 1])

    def averages(self, theta: Array) -> Cumulants:
        """Return the averages over rows in stationary states."""
        x = np.log(theta)
        table = np.concatenate([self._smooth(x)[..., 2:], self._others(x)], axis=-1)
        return Cumulants(*np.moveaxis(table, -1, 0))

    def copying(self, theta: Array) -> tuple[Array, Array]:
        """Return g, and dg/dθ; below the curve's first θ a straight line through the prior's g."""
        theta = np.asarray(theta)
        first = self.theta[0]
        inside = np.maximum(theta, first)
        g, rise = self._smooth(np.log(inside))[..., 3], self._smooth(np.log(inside), 1)[..., 3] / inside
        nothing = self.rows.prior.g
        straight = (self._smooth(np.log(first))[3] - nothing) / first
        return np.where(theta < first, nothing + straight * theta, g), np.where(theta < first, straight, rise)

    def share(self, theta: Array) -> Array:
        """Return how much states copy, from 0 in the prior's to 1."""
        return np.asarray(_share(self.copying(theta)[0], self.rows))

    def even(self, count: int, last: float | None = None) -> Array:
        """Return θ at ``count`` even steps along the nodes, which are dense where the curve bends."""
        used = self.theta if last is None else self.theta[self.theta <= last]
        steps = np.linspace(0.0, used.size - 1, count)
        return np.exp(np.interp(steps, np.arange(used.size), np.log(used)))

    def cumulants(self, theta: float, eta: float) -> Cumulants:
        """Return exact averages over rows at any tilt."""
        nearest = int(np.abs(self.theta - max(theta, 0.0)).argmin())
        return self.rows.cumulants(theta, eta, self._nodes[nearest].near)[0]


def curve_of(
    score: Score,
    L: float,
    V: float,
    sigma_w: float,
    sigma_g: float,
    t: float = 0.0,
    folds_alone: bool = False,
    error: float = ROW_ERROR,
) -> Curve:
    """Return the curve of a system; if it can, it goes on to data of strength t.

    With ``folds_alone`` it may end as soon as it has passed its folds, or the dip of a curve that has none. ``error``
    is that of ln Z₁ at its nodes, and about that between them.

    Raises
    ------
    InputError
        If its rows can't be averaged.
    """
    levels: tuple[float | None, ...] = (None, *_COPYING) if folds_alone else _COPYING
    for most in levels:
        curve = _curve(score, L, V, sigma_w, sigma_g, most, error)
        if t <= curve.last_t:
            break
    return curve


@lru_cache(maxsize=256)
def _curve(score: Score, L: float, V: float, sigma_w: float, sigma_g: float, most: float | None, error: float) -> Curve:
    rows = rows_of(score, L, sigma_g, error)
    way = _Way(rows, L, V, sigma_w, min(_MISS * (error / ROW_ERROR) ** _MISS_POWER, _MOST_MISS))
    try:
        nodes = way.follow(most)
    except ArithmeticError as error:
        system, allowed = (L, V, sigma_w, sigma_g), f"rows of {score.name} can't be averaged there: {error}"
        raise InputError("L, V, sigma_w, sigma_g", system, allowed) from None
    many = [node for node in nodes if rows.effective_rows(np.exp(node.x), node.eta) >= _MANY_ROWS]
    x = np.array([node.x for node in nodes])
    smooth = _through(x, np.array([node.smooth for node in nodes]), np.array([node.slopes for node in nodes]))
    others = make_interp_spline(x, np.array([node.row[3:] for node in nodes]), k=5)
    trusted = many[-1] if many else nodes[0]
    return Curve(rows, np.exp(x), float(np.exp(trusted.x)), tuple(nodes), smooth, others)


class _Way:
    """The steps along one curve."""

    def __init__(self, rows: Rows, L: float, V: float, sigma_w: float, miss: float = _MISS) -> None:
        self.rows, self.system, self.miss = rows, (L, V, sigma_w), miss

    def follow(self, most: float | None) -> list[_Node]:
        """Return nodes up to a share ``most`` of copying, and beyond all folds; if it is None, to just beyond them."""
        nodes = [self._solve(float(np.log(_FIRST)), 0.0, None)]
        step, strongest = _STEP, nodes[0].log_t
        while not (self._enough(nodes, most) and nodes[-1].log_t > strongest):
            here = nodes[-1]
            strongest = max(strongest, here.log_t)
            if len(nodes) > _MOST_NODES:
                raise ArithmeticError("the curve of stationary states doesn't end")
            try:
                node = self._solve(here.x + step, min(_ahead(nodes[-3:], step)[0], 0.0), here.near)
                eta, log_t = _ahead(nodes[-2:], step)
                miss = max(abs(node.eta - min(eta, 0.0)) / (1 + abs(node.eta)), abs(node.log_t - log_t))
            except ArithmeticError:
                miss = np.inf
            if miss > _LOST and step > _SHORTEST:
                step = max(step / 3, _SHORTEST)
                continue
            # Rows reach no further where states are lost, or so noisy that the next one isn't where it should be.
            if miss > _LOST or node.row.g <= here.row.g:
                break
            if self.rows.effective_rows(np.exp(node.x), node.eta) < _FEWEST_ROWS:
                break
            nodes.append(node)
            step = float(np.clip(step * np.clip((self.miss / max(miss, _TINY)) ** 0.25, 0.4, 1.8), _SHORTEST, _LONGEST))
        if len(nodes) < 8:
            raise ArithmeticError("the curve of stationary states is lost where it begins")
        return nodes

    def _enough(self, nodes: list[_Node], most: float | None) -> bool:
        """Return whether a share ``most`` of copying is reached; if it is None, the first one, or no dip can follow."""
        share = _share(nodes[-1].row.g, self.rows)
        past = share > WEAK and min(node.log_t_slope for node in nodes[-_FOR_GOOD:]) >= RISING
        return bool(past or share > _COPYING[0] if most is None else share > most)

    def _solve(self, x: float, eta: float, near: Any) -> _Node:
        """Find η at θ = eˣ by Newton's method."""
        theta = float(np.exp(x))
        for _ in range(_NEWTON_STEPS):
            row, near = self.rows.cumulants(theta, eta, near)
            wanted, per_theta, per_eta = self._wanted(theta, row)
            step = (wanted - eta) / (1 - per_eta)
            if abs(step) <= _SETTLED * (1 + abs(eta)):
                row, eta = _moved(row, step), eta + step
                rise = per_theta / (1 - per_eta)
                t = self._moving(theta, row, 1.0, rise)
                if not (t.real > 0 and np.isfinite(eta)):
                    break
                log_t_slope = theta * t.imag / (_TINY * t.real)
                return _Node(x, eta, float(np.log(t.real)), row, theta * rise, log_t_slope, near)
            eta = min(eta + step, eta / 10)
        raise ArithmeticError(f"no stationary state was found at the field {theta:g}")

    def _moving(self, theta: float, row: Cumulants, along_theta: float, along_eta: float) -> complex:
        """Return the t that balances θ, with its change along a direction of the fields as a tiny imaginary part."""
        field = theta + 1j * _TINY * along_theta
        return complex(data_strength(field, *_carrying(row, along_theta, along_eta), *self.system))

    def _wanted(self, theta: float, row: Cumulants) -> tuple[float, float, float]:
        """Return −Φ_q/L, and its derivatives in θ and η, which move the averages."""

        def at(along_theta: float, along_eta: float) -> complex:
            t = self._moving(theta, row, along_theta, along_eta)
            return complex(squeeze(t, *_carrying(row, along_theta, along_eta), *self.system))

        first, second = at(1.0, 0.0), at(0.0, 1.0)
        return first.real, first.imag / _TINY, second.imag / _TINY


def _carrying(row: Cumulants, along_theta: float, along_eta: float) -> tuple[complex, complex]:
    """Return g and q with their change along a direction of the fields as a tiny imaginary part."""
    change = (along_theta * row.gg + along_eta * row.gq, along_theta * row.gq + along_eta * row.qq)
    return row.g + 1j * _TINY * change[0], row.q + 1j * _TINY * change[1]


def _through(x: Array, values: Array, slopes: Array) -> BSpline:
    """Return a spline of degree 5 through values with given slopes, shape (nodes, k) each."""
    inner = np.repeat(x[1:-1], [1, *[2] * (x.size - 4), 1])
    knots = np.concatenate([[x[0]] * 6, inner, [x[-1]] * 6])
    basis = BSpline(knots, np.eye(2 * x.size), 5)
    return BSpline(knots, np.linalg.solve(np.concatenate([basis(x), basis(x, 1)]), np.concatenate([values, slopes])), 5)


def _share(g: Any, rows: Rows) -> Any:
    return (g - rows.prior.g) / (1 - rows.prior.g)


def _moved(row: Cumulants, step: float) -> Cumulants:
    """Return the averages a small step of η further."""
    log_Z = row.log_Z + step * (row.q + step * row.qq / 2)
    return row._replace(log_Z=log_Z, g=row.g + step * row.gq, q=row.q + step * row.qq)


def _ahead(nodes: Sequence[_Node], step: float) -> Array:
    """Return η and ln t a step of ln θ beyond the last node: of polynomials through all nodes with their slopes."""
    x = np.array([node.x for node in nodes])
    known = [pair for node in nodes for pair in (node.smooth[1::-1], node.slopes[1::-1])]
    return np.asarray(KroghInterpolator(np.repeat(x, 2), known)(x[-1] + step))
