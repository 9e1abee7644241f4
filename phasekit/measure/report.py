"""Everything that a store's networks say about thresholds and exponents, beside the theory at the same sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from phasekit.errors import InputError
from phasekit.measure.bootstrap import Estimate, bootstrap
from phasekit.measure.collapse import Collapse, collapse
from phasekit.measure.exponents import PowerLaw, fit_power_law
from phasekit.measure.locate import Array, NotLocated
from phasekit.measure.observables import QUANTITIES, Curve, Quantity, curves_of
from phasekit.measure.predict import onset_of_the_data, predicted, predicted_curve
from phasekit.model import Model
from phasekit.runs.store.plan import Plan, latest_plans
from phasekit.runs.store.store import BrokenTask, Finished, Store


@dataclass(frozen=True)
class Size:
    """A threshold at one size.

    Attributes
    ----------
    model : Model, without P
    size : float
        V or L, whichever exponents are fitted along (L if neither).
    measured : Estimate or None
    reason : str
        Why nothing was measured, if so.
    theory : float
        The threshold that theory predicts for this model, on infinitely many sequences; NaN if there is none.
    own_data : Estimate or None
        For P1: the onset of the data sets that networks were trained on.
    """

    model: Model
    size: float
    measured: Estimate | None
    reason: str
    theory: float
    own_data: Estimate | None = None


@dataclass(frozen=True)
class Measurement:
    """One threshold of one sweep, at all sizes.

    Attributes
    ----------
    sweep, preset : of the sweep
    quantity : "P1", "P2" or "P_star"
    along : "V", "L" or None
    meaning : how the threshold is located, in words
    data_sets : for each P
    sizes : in increasing order
    exponent : d ln P/d ln size of the measured thresholds, or None for fewer than three sizes
    predicted : the same fit to the theory's thresholds at these sizes
    own_data : the same fit to the onsets of the data (P1)
    collapse : exponents that put the networks' curves onto one, without locating anything
    missing : tasks of the sweep that aren't in the store
    broken : ids and reasons of results that couldn't be read
    """

    sweep: str
    preset: str | None
    quantity: str
    along: str | None
    meaning: str
    data_sets: int
    sizes: tuple[Size, ...]
    exponent: PowerLaw | None
    predicted: PowerLaw | None
    own_data: PowerLaw | None
    collapse: Collapse | None
    missing: int
    broken: dict[str, str]


def measure_store(
    store: Store,
    sweep: str | None = None,
    *,
    resamples: int = 500,
    collapse_resamples: int = 50,
    own_data: bool = True,
) -> list[Measurement]:
    """Locate the thresholds that a store's sweeps ask for (``measure`` and ``along`` in their descriptions).

    Parameters
    ----------
    store : Store
    sweep : str, optional
        NAME or NAME:PRESET; all sweeps of the store by default.
    resamples, collapse_resamples : int
        Resamples of the data sets for the errors of thresholds, and of the exponents of collapses (0: no collapse).
    own_data : bool
        Whether to compute the onsets of the data sets.

    Raises
    ------
    InputError
        If nothing in the store is to be measured.
    """
    chosen = latest_plans(store, sweep)
    wanted = [plan for plan in chosen if plan.about.measure]
    if not wanted:
        name = sweep or ", ".join(plan.sweep for plan in chosen) or None
        raise InputError("sweep", name, "doesn't say what to measure (measure = … in its file)")
    found = []
    for plan in wanted:
        tasks, broken = _read(store, plan)
        for quantity in (QUANTITIES[name] for name in plan.about.measure):
            for curves in _families(curves_of(tasks, quantity), plan.about.along):
                one = _measure(curves, quantity, plan.about.along, resamples, collapse_resamples, own_data)
                missing = len(plan.tasks) - len(tasks) - len(broken)
                found.append(replace(one, sweep=plan.sweep, preset=plan.preset, missing=missing, broken=broken))
    return found


def _read(store: Store, plan: Plan) -> tuple[list[Finished], dict[str, str]]:
    tasks, broken = [], {}
    for name in sorted(store.names() & set(plan.tasks)):
        try:
            tasks.append(store.load(name))
        except BrokenTask as reason:
            broken[name] = str(reason)
    if not tasks:
        raise InputError("store", str(store.path), f"holds no finished task of {plan.sweep}")
    return tasks, broken


def _families(curves: Sequence[Curve], along: str | None) -> list[list[Curve]]:
    """Sort curves into those that differ along one axis only; each model is a family if there is no axis."""
    families: dict[Model, list[Curve]] = {}
    for curve in curves:
        families.setdefault(curve.model if along is None else curve.model.at(**{along: 2}), []).append(curve)
    return list(families.values())


def _measure(
    curves: Sequence[Curve],
    quantity: Quantity,
    along: str | None,
    resamples: int,
    collapse_resamples: int,
    own_data: bool,
) -> Measurement:
    sizes = tuple(_size(curve, quantity, along or "L", resamples, own_data) for curve in curves)
    located = [size for size in sizes if size.measured is not None]
    errors = [_relative_error(size) for size in located]
    law = _fit(located, lambda size: _value(size.measured), errors) if along else None
    return Measurement(
        sweep="",
        preset=None,
        quantity=quantity.name,
        along=along,
        meaning=quantity.meaning,
        data_sets=max(curve.seeds.size for curve in curves),
        sizes=sizes,
        exponent=law,
        predicted=_fit(located, lambda size: size.theory, errors) if along else None,
        own_data=_fit(located, lambda size: _value(size.own_data), errors) if along and own_data else None,
        collapse=_collapse(curves, sizes, quantity, law, collapse_resamples),
        missing=0,
        broken={},
    )


def _size(curve: Curve, quantity: Quantity, along: str, resamples: int, own_data: bool) -> Size:
    measured, reason, own = None, "", None
    try:
        measured = bootstrap(curve.P, curve.y, quantity.locate, resamples)
    except NotLocated as why:
        reason = str(why)
    if own_data and quantity.name == "P1":
        try:
            own = onset_of_the_data(curve, resamples)
        except NotLocated as why:
            reason = reason or f"the data's onset: {why}"
    theory = predicted(curve.model, quantity.name, curve.predicted)
    return Size(curve.model, float(getattr(curve.model, along)), measured, reason, theory, own)


def _value(estimate: Estimate | None) -> float:
    return np.nan if estimate is None else estimate.value


def _relative_error(size: Size) -> float:
    assert size.measured is not None
    return size.measured.total_error / size.measured.value


def _fit(sizes: Sequence[Size], value: Callable[[Size], float], errors: Sequence[float]) -> PowerLaw | None:
    """Fit a power law to one column, with the measured thresholds' errors; None if the column isn't full."""
    y = np.array([value(size) for size in sizes])
    if len(sizes) < 3 or not np.isfinite(y).all() or not min(errors) > 0:
        return None
    return fit_power_law([size.size for size in sizes], y, y * np.asarray(errors))


def _collapse(
    curves: Sequence[Curve], sizes: Sequence[Size], quantity: Quantity, law: PowerLaw | None, resamples: int
) -> Collapse | None:
    if law is None or resamples < 1:
        return None
    near = [_near(curve, size, quantity) for curve, size in zip(curves, sizes, strict=True)]
    kept = [k for k, (P, _) in enumerate(near) if P.size > 1]
    try:
        return collapse(
            [sizes[k].size for k in kept],
            [near[k][0] for k in kept],
            [near[k][1] for k in kept],
            law.exponent,
            resamples=resamples,
            reference=[predicted_curve(curves[k].model, near[k][0], quantity) for k in kept],
        )
    except InputError:  # too few sizes, or curves too short to overlap
        return None


def _near(curve: Curve, size: Size, quantity: Quantity) -> tuple[Array, Array]:
    """Return the part of a curve that its threshold was located from."""
    if size.measured is None:
        return np.empty(0), np.empty((len(curve.y), 0))
    near = quantity.window(curve.P, curve.y, size.measured.value)
    return curve.P[near], curve.y[:, near]
