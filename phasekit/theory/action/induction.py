"""Induction heads, map estimator: two layers pay for the log odds of one (docs/induction.md).

The data part is a function of the second layer's log odds δ alone. A match of strength β between the query and the
right key gives δ = βγ/T, where γ is the share of it that the first layer lets through, so δ may be paid by either
layer; :class:`RelayPrice` is what the cheapest split costs. The rest is the theory of one head.

The unstructured state, no match and a uniform first layer, is stationary at every P: near it the price is |δ| times a
constant, a kink, like that of a nuclear norm. Four *sheets* leave it, one for each pair of signs. The first, on which
layer 1 attends to the previous token and layer 2 to where it is the query, has the global minimum. On the second
(negative match) the head attends anywhere but to the right key, with a negative readout.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.model import Estimator, Induction, Model, Parameters
from phasekit.scores import Score, Softmax, TemperatureSoftmax
from phasekit.theory.action.base import (
    Approximate,
    Array,
    Curved,
    Isolated,
    Jet,
    Mask,
    Point,
    Profile,
    StationaryPoints,
)
from phasekit.theory.action.generated import induction_map, softmax_map
from phasekit.theory.action.price import Cheapest, Price, State, nodes_up_to_copying
from phasekit.theory.action.search import on_path
from phasekit.theory.action.smooth import SmoothPrice
from phasekit.theory.action.softmax import GapPrice, temperature
from phasekit.theory.action.two_level import Data, TwoLevelMap

_FIRST = "first_"  # before the names of the first layer's own numbers
_HALVINGS = 6
_BEGIN = 1e-9  # of the first cell of a path
_MOST_DATA = 1e12  # of t: as good as infinitely many
_BISECTIONS = 40
_ENDLESS = 1e60  # t that no data reach
_NEWTON_STEPS, _ROUNDING = 60, 4e-16
_MOST = 100.0  # negative log odds; positive ones may be twice as large


class DistinctData:
    """Φ(δ) where the tokens of a sequence are distinct."""

    def jet(self, delta: Array, p: Parameters) -> Data:
        return Data(*induction_map.data_jet(_resolved(delta), p.P, p.V, p.L, p.sigma_w, p.kappa))

    def force(self, delta: Array, t: Array, p: Parameters) -> tuple[Array, Array]:
        return induction_map.data_force(_resolved(delta), t, p.V, p.L, p.sigma_w)

    def loss(self, delta: Array, p: Parameters) -> Array:
        return induction_map.loss(_resolved(delta), p.P, p.V, p.L, p.sigma_w, p.kappa)


class InductionData(DistinctData):
    """The questions that one of the layers answers, with a readout of its own: a share of all P.

    Parameters
    ----------
    layer : 1 or 2
        Layer 1 answers a share ``weight`` of them by itself.
    """

    def __init__(self, layer: int) -> None:
        self._layer = layer

    def share(self, p: Parameters) -> Array:
        return np.asarray(weight(p) if self._layer == 1 else 1 - weight(p))

    def jet(self, delta: Array, p: Parameters) -> Data:
        return super().jet(delta, p.replace(P=p.P * self.share(p)))

    def force(self, delta: Array, t: Array, p: Parameters) -> tuple[Array, Array]:
        return super().force(delta, t * self.share(p), p)

    def loss(self, delta: Array, p: Parameters) -> Array:
        return super().loss(delta, p.replace(P=p.P * self.share(p)))


def weight(p: Parameters) -> Array:
    """Return the share of questions that layer 1 alone can answer."""
    return np.asarray(p.score.get("weight", np.zeros(())))


def _resolved(delta: Array) -> Array:
    """Return log odds whose exponentials, and the squares of those, float64 holds; beyond them nothing changes."""
    return np.clip(delta, -_MOST, 2 * _MOST)


def _route(delta: Array, p: Parameters) -> tuple[Array, Array, Array]:
    """Return the share of a match that layer 1 lets through, with derivatives, at its log odds."""
    return induction_map.route(np.clip(delta, -3 * _MOST, 6 * _MOST), p.L)


#: What layer 1 is asked by itself.
ALONE = InductionData(1)


class RelayPrice(Price):
    """What the second layer's log odds cost both layers; the path coordinate is that of the first layer's price.

    Parameters
    ----------
    first : Price
        Of the first layer's log odds.
    own : bool
        Whether the first layer has numbers of its own score, apart from the second's.
    gap, match : +1 or -1
        Signs of the first layer's log odds and of β, on this sheet.
    """

    def __init__(self, first: Price, own: bool = False, gap: int = 1, match: int = 1) -> None:
        self.first, self.own, self.gap, self.match = first, own, gap, match
        self.coordinates = (*first.coordinates, "match")

    def physical(self, point: Point, p: Parameters) -> Point:
        return (*self.first.physical(point[:-1], self._first(p)), point[-1] * p.sigma_g / np.sqrt(p.V - 1))

    def first_odds(self, point: Point, p: Parameters) -> Array:
        """Return the log odds of the first layer."""
        return self.first_state(point, p).delta

    def first_state(self, point: Point, p: Parameters) -> State:
        """Return what the first layer does."""
        return self.first.state(point[:-1], self._first(p))

    def state(self, point: Point, p: Parameters) -> State:
        *below, z = point
        first = self.first.state(tuple(below), self._first(p))
        share, slope, bend = _route(first.delta, p)
        unit, k = self._scale(p) / np.sqrt(p.V - 1), len(below)
        rows: list[Array] = []
        parts = iter(first.second)
        for i in range(k):
            rows += [unit * z * (bend * first.first[i] * one + slope * next(parts)) for one in first.first[i:]]
            rows.append(unit * slope * first.first[i])
        slopes = (*(unit * z * slope * one for one in first.first), np.asarray(unit * share))
        return State(point, np.asarray(unit * z * share), slopes, (*rows, np.zeros(())))

    def place(self, u: Array, p: Parameters) -> Cheapest:
        below = self.first.place(self.gap * u, self._first(p))
        share, slope, _ = _route(below.delta, p)
        scale = self._scale(p)
        mixed = weight(p) > 0
        pull = ALONE.force(below.delta, p.strength, p)[0] if mixed.any() else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # at no gap both vanish, and so do the odds
            squared = (below.force - pull) * share**3 / ((p.V - 1) * slope)
            odds = scale * np.sqrt(np.maximum(squared, 0.0)) * self.gap * self.match
            force = (p.V - 1) * odds / (share * scale) ** 2
            z = np.sqrt(p.V - 1) * odds / (share * scale)
        if mixed.any():
            # Where its own questions pull layer 1 on, no match balances it. Next to there odds vanish, and a uniform
            # look of layer 2 pulls them up (V > L), or doesn't: then no match is a state of its own, beside the path.
            side = np.where(p.V == p.L, self.gap * self.match, -1.0)
            force = np.where(mixed & (squared <= 0), side * 2 * self._strongest(p), force)
        nothing = share == 0
        at_kink = self.gap * self.match * self.kink(p)
        return Cheapest(
            (*below.point, np.where(nothing, 0.0, z)), np.where(nothing, 0.0, odds), np.where(nothing, at_kink, force)
        )

    def path(self, p: Parameters, cells: int) -> Array:
        nodes = self.first.nodes(self._last(p), self._first(p), cells)
        # Nothing at all is no state if layer 1 is asked anything; its limit along the path isn't looked at.
        nodes[:, 0] = np.where(weight(p) > 0, _BEGIN * nodes[:, 1], nodes[:, 0])
        return nodes

    def kink(self, p: Parameters) -> Array:
        """Return the slope of the price at the unstructured state: what the first bit of |δ| costs."""
        return np.asarray(p.L * np.sqrt((p.L - 1) * (p.V - 1)) / self.prior_variance(p))

    def prior_variance(self, p: Parameters) -> Array:
        """Return what stands for σ_g² of two softmax layers in what holds near the unstructured state."""
        nothing = tuple(np.zeros(p.shape) for _ in self.first.coordinates)
        slope = self.first.state(nothing, self._first(p)).first
        return np.asarray(self._scale(p) * np.sqrt((p.L - 1) * sum(one**2 for one in slope)))

    def _last(self, p: Parameters) -> Array:
        """Return path coordinates beyond every stationary point.

        The data's force is at most P(V−1)/(2κV) · (1 + 2√t/(L−1)). That of the prior falls as long as most of the
        first layer's weight lies elsewhere (the first layer gets cheaper), and then rises. 0 where data are too weak
        for any.
        """
        strongest = self._strongest(p)

        def beyond(u: Array) -> Mask:
            copying = np.abs(self.first.place(self.gap * u, self._first(p)).delta) >= np.log(4 * p.L)
            with np.errstate(over="ignore"):
                return np.asarray(copying & ~(np.abs(self.place(u, p).force) <= strongest))

        hopeless = ~(self._floor(p) <= strongest)
        low, high = np.zeros(p.shape), np.ones(p.shape)
        while not (ended := beyond(high) | hopeless).all():
            low, high = np.where(ended, low, high), np.where(ended, high, 2 * high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            ended = beyond(middle)
            low, high = np.where(ended, low, middle), np.where(ended, middle, high)
        return np.where(hopeless, 0.0, high)

    def _strongest(self, p: Parameters) -> Array:
        return np.asarray(p.P * (p.V - 1) / (2 * p.kappa * p.V) * (1 + 2 * np.sqrt(p.strength) / (p.L - 1)))

    def _floor(self, p: Parameters) -> Array:
        """Return what the slope of the price is at least, anywhere on the sheet; 0 where no such bound is known.

        It is √[(V−1)(L−1) (Δ/γ)/γ']/σ_g². For Δ < 0 both factors are at least L, as at the unstructured
        state; for Δ > 0 the first is at least ln L and 1, the second 4(L−1)/L.
        """
        if not isinstance(self.first, GapPrice) or (weight(p) > 0).any():
            return np.zeros(p.shape)
        if self.gap < 0:
            return self.kink(p)
        return np.asarray(self.kink(p) / p.L * np.sqrt(np.maximum(np.log(p.L), 1) * 4 * (p.L - 1) / p.L))

    def _scale(self, p: Parameters) -> Array:
        return np.asarray(p.sigma_g / temperature(p))

    def _first(self, p: Parameters) -> Parameters:
        """Return the numbers as the first layer sees them."""
        if not self.own:
            return p
        return p.with_score({n.removeprefix(_FIRST): x for n, x in p.score.items() if n.startswith(_FIRST)})


class Sheet(TwoLevelMap):
    """The action on one sheet: both layers' signs are given, and the stationary points form one curve.

    The averages are those of the second layer's attention.
    """

    order_parameters: ClassVar[tuple[str, str]] = ("alpha1", "alpha2")
    cells: ClassVar[int] = 24  # as many minima as with 512 in 6000 random models; the first sheet takes more
    price: RelayPrice

    def __init__(self, price: RelayPrice) -> None:
        super().__init__(price, InductionData(2))

    def profile(self, u: Array, p: Parameters) -> Profile:
        points, slope = super().profile(u, p)
        return Profile(points, slope * (self.price.gap * self.price.match))  # from odds to the path's direction

    def jet(self, z: Point, p: Parameters) -> Jet:
        found = super().jet(z, p)
        if not (weight(p) > 0).any():
            return found
        state = self.price.first_state(z, p)
        data, k = ALONE.jet(state.delta, p), len(state.z)
        gradient, hessian = found.gradient.copy(), found.hessian.copy()
        for own, slope in enumerate(state.first):
            gradient[..., own] += data.slope * slope
        for second, i, j in zip(state.second, *np.triu_indices(k), strict=True):
            hessian[..., i, j] += data.curvature * state.first[i] * state.first[j] + data.slope * second
            hessian[..., j, i] = hessian[..., i, j]
        return Jet(found.value + data.value, gradient, hessian)

    def loss(self, z: Point, p: Parameters) -> Array:
        """Return the mean loss over the questions of both kinds."""
        later = super().loss(z, p)
        if not (weight(p) > 0).any():
            return later
        return np.asarray((1 - weight(p)) * later + weight(p) * ALONE.loss(self.price.first_state(z, p).delta, p))

    def order(self, z: Point, p: Parameters) -> tuple[Array, Array]:
        """Return the weights of the previous token in layer 1, and of the right key in layer 2."""
        first = softmax_map.averages(self.price.first_odds(z, p), p.L)[2]
        return np.asarray(first), self.averages(z, p).g


class TwoLayers(Sheet, Isolated, Approximate):
    """S(Δ, β): the first sheet as a path, what has no match and the other sheets' minima beside it.

    Parameters
    ----------
    first : Price
    own : bool
        As in :class:`RelayPrice`.
    """

    cells: ClassVar[int] = 64  # overlooks one of 200 pairs of minima at equal actions, in a window 5e-6 of P wide

    def __init__(self, first: Price, own: bool = False) -> None:
        super().__init__(RelayPrice(first, own))
        self._others = tuple(Sheet(RelayPrice(first, own, *signs)) for signs in ((1, -1), (-1, -1), (-1, 1)))

    def approximation(self, p: Parameters) -> str | None:
        # Negative odds at L = 3 share the attention between two wrong keys, which an antisymmetric G₂ tells apart.
        if (p.L == 3).any():
            return (
                "at L = 3, minima whose gap and match differ in sign are in general saddle points among all weights: "
                "stable on their sheet only (docs/induction.md, section 2)"
            )
        return None

    def isolated_stationary_points(self, p: Parameters) -> StationaryPoints:
        found = [*self.without_match(p), *(on_path(sheet, p) for sheet in self._others)]
        owners, points, starts = zip(*found, strict=True)
        joined = tuple(np.concatenate(coordinate) for coordinate in zip(*points, strict=True))
        return StationaryPoints(np.concatenate(owners), joined, np.concatenate(starts))

    @abstractmethod
    def without_match(self, p: Parameters) -> list[StationaryPoints]:
        """Return what is stationary where layer 2 has no match."""

    def _unstructured(self, rows: NDArray[np.int64]) -> StationaryPoints:
        nothing = tuple(np.zeros(rows.size) for _ in self.coordinates)
        return StationaryPoints(rows, nothing, np.full(rows.size, np.nan))


class InductionMap(TwoLayers, Curved):
    """Every question needs both layers: the unstructured state is stationary at every P."""

    course: ClassVar[str] = "layers"

    def curve_nodes(self, p: Parameters) -> Array:
        """Return nodes up to a weight of 0.99 on the right key, or to as much as any data can pay for.

        Where a sequence holds the whole vocabulary the readout can do without sharp attention: for V = L the force of
        the data stays finite however many there are.
        """
        nodes = nodes_up_to_copying(self.price, p)
        low, high = np.zeros(p.shape), np.where(np.isnan(nodes[:, -1]), 0.0, nodes[:, -1])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            paid = self.balancing_strength(middle, p) < _MOST_DATA
            # The curve comes down from the spinodal before it goes up for good.
            paid |= self.price.place(middle, p).delta < 1
            low, high = np.where(paid, middle, low), np.where(paid, high, middle)
        return nodes * (low / np.where(nodes[:, -1] == 0, 1.0, nodes[:, -1]))[:, None]

    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        """Return the t at which the data balance the prior; 1e60 where no data do (V = L, sharp attention).

        1/t is the positive root of a cubic that is convex there, so Newton's method comes down to it from above.
        """
        place = self.price.place(u, p)
        e, a, b = induction_map.force_terms(_resolved(place.delta), p.V, p.L, p.sigma_w)
        a, b = a / place.force, b / place.force
        with np.errstate(divide="ignore", invalid="ignore"):
            s = np.fmin(np.maximum(np.sqrt(2 * a), np.cbrt(2 * b)), np.where(e**2 > a, b / (e**2 - a), np.inf))
            for _ in range(_NEWTON_STEPS):
                step = (s * (s + e) ** 2 - a * s - b) / ((s + e) * (3 * s + e) - a)
                s = s - step
                if not (np.abs(step) > _ROUNDING * s).any():
                    break
            return np.asarray(np.where(s > 1 / _ENDLESS, 1 / s, _ENDLESS))

    def without_match(self, p: Parameters) -> list[StationaryPoints]:
        return [self._unstructured(np.arange(p.shape[0]))]

    def spinodal(self, p: Parameters) -> Array:
        """Return the P up to which the unstructured state is a minimum; infinite for V = L."""
        with np.errstate(divide="ignore"):
            scale = np.sqrt(self.price.prior_variance(p))
            return np.asarray(induction_map.small_match(1 / p.L, p.V, p.L, p.sigma_w, scale, p.kappa))


class _FirstAlone(TwoLevelMap):
    """Layer 1 and its own questions, without a second layer, on one side of no gap."""

    cells: ClassVar[int] = 256

    def __init__(self, relay: RelayPrice) -> None:
        super().__init__(relay.first, ALONE)
        self._relay = relay

    def path(self, p: Parameters, cells: int) -> Array:
        return self._relay.gap * self._relay.path(p, cells)[:, :: self._relay.gap]


class MixedMap(TwoLayers):
    """Some questions are answered by layer 1 alone: they pull it on, whatever layer 2 does.

    Where a sequence holds the whole vocabulary (V = L) no match is stationary with any layer 1 that its own questions
    balance.
    """

    course: ClassVar[str] = "relay"
    cells: ClassVar[int] = 256

    def __init__(self, first: Price, own: bool = False) -> None:
        super().__init__(first, own)
        self._alone = tuple(_FirstAlone(RelayPrice(first, own, gap)) for gap in (1, -1))

    def without_match(self, p: Parameters) -> list[StationaryPoints]:
        rows = np.flatnonzero(p.V == p.L)
        found = [self._unstructured(rows)]
        for one in self._alone if rows.size else ():
            alone = on_path(one, p[rows])
            match = np.zeros(alone.owner.size)
            found.append(StationaryPoints(rows[alone.owner], (*alone.points, match), alone.start))
        return found


def induction_action(model: Model, estimator: Estimator) -> TwoLayers:
    """Return the action of an induction head.

    Raises
    ------
    InputError
        For the posterior, and for scores without a theory in their layer.
    """
    if estimator == "posterior":
        raise InputError("estimator", estimator, "has no theory for induction yet: use map")
    assert isinstance(model.task, Induction)
    second, first = model.score, model.task.first
    if not isinstance(second, Softmax | TemperatureSoftmax):
        what = "has no theory in the second layer of an induction head: softmax or temperature there, "
        raise InputError("score", second.name, what + "and any of the softmax family in the first")
    kind = MixedMap if model.task.weight else InductionMap
    return kind(_first_price(second if first is None else first), own=first is not None)


def _first_price(score: Score) -> Price:
    return GapPrice() if isinstance(score, Softmax | TemperatureSoftmax) else SmoothPrice(score)
