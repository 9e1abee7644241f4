"""What is followed against P to find each threshold, from networks' numbers alone.

==========  ==========================================================================================================
``P1``      ``t s²`` with ``t = P σ_w²/(κV)`` and the mean row sum s (docs/theory.md, section 4): 0 below the onset.
            Without copying, stationarity of the action says ``1 + t s² = P/P₁``: a straight line.
``P2``      ``ln[(g²/q) / (1 − g²/q)]``: 0 where half of the squared norm of the attention matrix copies.
``P_star``  energy of the copying branch minus that of the uniform branch, on the same data: 0 where both are equally
            low. Only data sets on which networks from the two ends stayed in different minima have one.
==========  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.measure.locate import Locate, around, crossing, growing, onset
from phasekit.model import Model
from phasekit.runs.store.collect import fates
from phasekit.runs.store.store import Finished

Array = NDArray[np.float64]
Values = Mapping[str, NDArray[Any]]

#: Two networks are in different minima if their copy order parameters differ by more than this …
_DIFFERENT = 0.01
#: … and by more than this share of the largest difference between the two ends that the curve shows.
_SHARE = 0.25
#: Below this t q, an attention matrix is what Adam has left of its start.
_NO_PATTERN = 1e-6


@dataclass(frozen=True, eq=False)
class Curve:
    """An observable of one model against P, on several data sets.

    Attributes
    ----------
    model : Model, without P
    P : array, shape (values of P,)
    seeds : array, shape (data sets,)
    y : array, shape (data sets, values of P)
        NaN where networks failed, didn't converge, or (for ``P_star``) didn't show two minima.
    predicted : name to P
        Thresholds that the values of P were chosen as multiples of, as the tasks' records have them.
    """

    model: Model
    P: Array
    seeds: NDArray[np.int64]
    y: Array
    predicted: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Quantity:
    """A threshold that networks' data can show.

    Attributes
    ----------
    name : "P1", "P2" or "P_star"
    observe : from a model with P and the networks' values on one data set to y
    locate : see :mod:`phasekit.measure.locate`
    window : from P, y and the threshold to which values of P have to do with it
    needs : names of values that ``observe`` takes
    meaning : how it is located, in words
    """

    name: str
    observe: Callable[[Model, Values], float]
    locate: Locate
    window: Callable[[Array, Array, float], NDArray[np.bool_]]
    needs: tuple[str, ...]
    meaning: str


def curves_of(tasks: Sequence[Finished], quantity: Quantity) -> list[Curve]:
    """Return one curve for each model (whatever its P) among finished tasks, in the order of their sizes.

    Raises
    ------
    InputError
        If the tasks' estimator doesn't give what the quantity is seen by.
    """
    kinds: dict[Model, dict[tuple[float, int], Values]] = {}
    predicted: dict[Model, dict[str, float]] = {}
    for task in tasks:
        for name in quantity.needs:
            if name not in task.values:
                raise InputError("measure", quantity.name, f"needs networks' {name}, which these tasks don't give")
        model = Model(**task.parameters["model"])
        assert model.P is not None
        kind = model.at(P=None)
        kinds.setdefault(kind, {})[model.P, task.parameters["data_seed"]] = task.values
        if multiple := task.record.get("multiple"):
            predicted.setdefault(kind, {})[multiple["threshold"]] = multiple["threshold_value"]
    found = [
        replace(_curve(model, values, quantity), predicted=predicted.get(model, {})) for model, values in kinds.items()
    ]
    return sorted(found, key=lambda curve: (curve.model.V, curve.model.L, curve.model.kappa))


def _curve(model: Model, values: dict[tuple[float, int], Values], quantity: Quantity) -> Curve:
    P, seeds = (np.unique(labels) for labels in zip(*values, strict=True))
    y = np.full((seeds.size, P.size), np.nan)
    gap = np.zeros_like(y)
    for (at, seed), networks in values.items():
        place = int(np.searchsorted(seeds, seed)), int(np.searchsorted(P, at))
        y[place] = quantity.observe(model.at(P=at), networks)
        if quantity.name == "P_star":
            gap[place] = order_gap(networks)
    if quantity.name == "P_star":
        y[gap <= max(_DIFFERENT, _SHARE * gap.max())] = np.nan
    return Curve(model, P.astype(float), seeds.astype(int), y)


def pooling(model: Model, networks: Values) -> float:
    """Return t s², averaged over the networks at the lowest minimum."""
    return _t(model) * _kept(networks, networks["s"] ** 2)


def copying(model: Model, networks: Values) -> float:
    """Return ln[share/(1 − share)] of the copying share g²/q, averaged over the networks at the lowest minimum.

    NaN where these have no pattern whose share could be told (below the onset).
    """
    if not _t(model) * _kept(networks, networks["q"]) > _NO_PATTERN:
        return np.nan
    share = _kept(networks, networks["g"] ** 2 / np.where(networks["q"] > 0, networks["q"], np.nan))
    return float(np.log(share / (1 - share))) if 0 < share < 1 else np.nan


def advantage(model: Model, networks: Values) -> float:
    """Return the lowest energy from the copying end minus the lowest from the uniform end."""
    return _lowest(networks, "copy")[0] - _lowest(networks, "uniform")[0]


def _t(model: Model) -> float:
    """Return t = P σ_w²/(κV): how far the data have overcome the prior of the readout."""
    return float(model.parameters().strength)


def order_gap(networks: Values) -> float:
    """Return how much the copy order parameter differs between the two ends; 0 if one of them has no network."""
    gap = _lowest(networks, "copy")[1] - _lowest(networks, "uniform")[1]
    return float(np.nan_to_num(gap))


def _lowest(networks: Values, start: str) -> tuple[float, float]:
    """Return energy and copy order parameter of the lowest converged network from a start, NaN if there is none."""
    usable = (networks["start"] == start) & networks["converged"].astype(bool)
    if not usable.any():
        return np.nan, np.nan
    best = int(np.flatnonzero(usable)[networks["U"][usable].argmin()])
    return float(networks["U"][best]), float(networks["aG" if "aG" in networks else "alpha2"][best])


def _kept(networks: Values, numbers: NDArray[Any]) -> float:
    kept = fates(dict(networks))["fate"] == "kept"
    return float(numbers[kept].mean()) if kept.any() else np.nan


_COMMON = ("U", "converged", "failed")
QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity("P1", pooling, onset, growing, (*_COMMON, "s"), "onset of t s²"),
        Quantity("P2", copying, crossing, around, (*_COMMON, "g", "q"), "g²/q = 1/2"),
        Quantity("P_star", advantage, crossing, around, (*_COMMON, "start"), "equal energies of both branches"),
    )
}
