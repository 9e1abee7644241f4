"""Any normalised score, map estimator: one raised logit a row (docs/theory.md, section 6).

A row that gives weight α to its copy entry and the same weight to each other entry is described by one number, the log
odds δ = ln[(L−1) α/(1−α)] of the copy entry against any other one. The action is *data* plus *price*: the data part
Φ(δ) is that of softmax attention, whatever the score; scores differ in what it costs to reach δ (:mod:`.price`). What
the task is decides on the data part alone.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import token_data
from phasekit.theory.action.base import Array, Averages, Jet, Mask, Point, Profile, Profiled, share
from phasekit.theory.action.generated import softmax_map
from phasekit.theory.action.generated import two_level as generated
from phasekit.theory.action.price import Price

#: Half the range of ln t that is searched.
_LOG_RANGE = 150.0


class Data(NamedTuple):
    """Φ(δ) and its first two derivatives."""

    value: Array
    slope: Array
    curvature: Array


class DataPart(Protocol):
    """What the data of a task say about the log odds δ of the right key."""

    def jet(self, delta: Array, p: Parameters) -> Data:
        """Return Φ(δ) with its derivatives."""

    def force(self, delta: Array, t: Array, p: Parameters) -> tuple[Array, Array]:
        """Return −Φ'(δ) for data of strength t, and d ln(−Φ')/d ln t, which is positive."""

    def loss(self, delta: Array, p: Parameters) -> Array:
        """Return the loss at the best readout."""


class CopyData:
    """The copy task: independent tokens (docs/theory.md, section 2), of any law (docs/beyond.md)."""

    def jet(self, delta: Array, p: Parameters) -> Data:
        if not p.setting.tokens.uniform:
            return Data(*token_data.jet(delta, p))
        return Data(*generated.data_jet(delta, p.P, p.V, p.L, p.sigma_w, p.kappa))

    def force(self, delta: Array, t: Array, p: Parameters) -> tuple[Array, Array]:
        if not p.setting.tokens.uniform:
            return token_data.force(delta, t, p)
        return generated.data_force(delta, t, p.V, p.L, p.sigma_w)

    def loss(self, delta: Array, p: Parameters) -> Array:
        if not p.setting.tokens.uniform:
            return token_data.loss(delta, p)
        return softmax_map.loss(delta, p.P, p.V, p.L, p.sigma_w, p.sigma_g, p.kappa)


class TwoLevelMap(Profiled):
    """S = Φ(δ) + what δ costs.

    Parameters
    ----------
    price : Price
    data : DataPart, optional
        That of the task; copying if left out.
    """

    order_parameters: ClassVar[tuple[str, str]] = ("a1", "aG")
    course: ClassVar[str] = "folds"
    cells: ClassVar[int] = 128

    def __init__(self, price: Price, data: DataPart | None = None) -> None:
        self.price, self.data = price, data or CopyData()
        self.coordinates = price.coordinates

    def physical(self, z: Point, p: Parameters) -> Point:
        return self.price.physical(z, p)

    def jet(self, z: Point, p: Parameters) -> Jet:
        state = self.price.state(z, p)
        data, k = self.data.jet(state.delta, p), len(state.z)
        cost = sum(x**2 for x in state.z) / 2
        gradient = [data.slope * first + x for first, x in zip(state.first, state.z, strict=True)]
        pairs = zip(state.second, *np.triu_indices(k), strict=True)
        hessian = [
            data.curvature * state.first[i] * state.first[j] + data.slope * second + (i == j) for second, i, j in pairs
        ]
        return Jet.of(data.value + cost, gradient, hessian)

    def loss(self, z: Point, p: Parameters) -> Array:
        return self.data.loss(self.price.state(z, p).delta, p)

    def averages(self, z: Point, p: Parameters) -> Averages:
        return Averages(*softmax_map.averages(self.price.state(z, p).delta, p.L))

    def copying_share(self, z: Point, p: Parameters) -> Array:
        return share(self.averages(z, p))

    def unstructured(self, p: Parameters) -> tuple[Array, Array]:
        """Return action and loss of the state in which every entry has the same weight, at no cost."""
        zero = np.zeros(p.shape)
        return self.data.jet(zero, p).value, self.data.loss(zero, p)

    def rests(self, p: Parameters) -> Mask:
        """Return in which models that state is stationary at every P: even attention tells nothing there.

        So it is where the tokens of a sequence are different and there are no others (docs/beyond.md).
        """
        apart = p.setting.tokens.separation(p.V) > 1
        return np.asarray(apart & (p.V == p.L)) & np.ones(p.shape, dtype=bool)

    def path(self, p: Parameters, cells: int) -> Array:
        return self.price.path(p, cells)

    def profile(self, u: Array, p: Parameters) -> Profile:
        """Return the cheapest states at ``u``, and dS/dδ along them."""
        place = self.price.place(u, p)
        pull, _ = self.data.force(place.delta, p.strength, p)
        return Profile(place.point, place.force - pull)

    def balancing_strength(self, u: Array, p: Parameters) -> Array:
        """Return the t at which the data's force, which grows with t at every δ, is that of the prior."""
        place = self.price.place(u, p)

        def excess(log_t: Array) -> tuple[Array, Array]:
            pull, steepness = self.data.force(place.delta, np.exp(log_t), p)
            with np.errstate(divide="ignore"):  # odds so large that the pull underflows: no data balance the price
                return np.log(pull / place.force), steepness

        edge = np.full(np.shape(place.delta), _LOG_RANGE)
        return np.asarray(np.exp(solve.newton(excess, -edge, edge, np.zeros(np.shape(place.delta)))))
