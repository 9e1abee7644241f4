"""Scaling laws of the thresholds: local exponents, their limits, and which law describes the data.

The thresholds are computed, not measured, so an exponent's uncertainty isn't statistical: it is how much the local
exponent still drifts. Over a window it is quoted as the local exponent averaged over the last decade, with its change
from the decade before, and with the limit to which such changes lead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from phasekit.checks import number_array
from phasekit.errors import InputError
from phasekit.model import Estimator, Grid, Model, given_model
from phasekit.theory.action.base import Array
from phasekit.theory.closed_forms import closed_forms_of
from phasekit.theory.long_names import with_long_names
from phasekit.theory.transitions import THRESHOLDS, transition_table
from phasekit.theory.transitions.table import parameters_without_P


@dataclass(frozen=True)
class Exponent:
    """An exponent d ln P/d ln x.

    Attributes
    ----------
    value : over the last decade
    drift : its change from the decade before; no error bar: the limit may lie several drifts away
    limit : where the exponents of the last three decades lead if their changes go on to shrink by the same factor, as
        with a power of x as correction; None with less than three decades, or if the factor is above a half: with
        logarithms as corrections it comes close to 1
    first, last : local exponents at both ends of the axis
    """

    value: float
    drift: float
    limit: float | None
    first: float
    last: float

    def __str__(self) -> str:
        return f"{self.value:.3f} (drift {self.drift:.3f})"


@dataclass(frozen=True)
class LawFit:
    """A one-parameter family of laws held against the thresholds.

    Attributes
    ----------
    law : name of the law
    prefactor : factor that fits the law best (geometric mean of the ratio); 1 is exact for closed forms
    exponent : fitted exponent for the pure power law, else None
    rms : root-mean-square deviation of ln P from the fitted law
    worst : largest deviation of ln P
    missing : at how many of the thresholds the law has no value (closed forms end before the jump does); deviations are
        those at the others
    """

    law: str
    prefactor: float
    exponent: float | None
    rms: float
    worst: float
    missing: int


def scaling_law(model: Model, quantity: str, axis: str, values: ArrayLike, estimator: Estimator = "map") -> xr.Dataset:
    """Compute a threshold along one axis, with local exponents and the closed forms beside it.

    Parameters
    ----------
    model : Model
        Everything but the axis; P plays no role.
    quantity : "P1", "P2" (linear attention), "P_star" (jump of a normalised score) or "P_x" (its smooth crossover)
    axis : "L" or "V" (or sigma_w, sigma_g, kappa)
    values : at least 5 increasing values of the axis

    Returns
    -------
    xarray.Dataset
        Along the axis: the quantity (NaN where the transition doesn't exist), whether the search for it ``failed``,
        ``local_exponent``, and one variable ``closed_*`` per closed form (map estimator only).

    Raises
    ------
    InputError
        For an unknown quantity, one that the score doesn't have, or fewer than 5 values.
    """
    forms = closed_forms_of(quantity, given_model(model).score, model.task)
    grid = Grid(model, {axis: np.sort(number_array(axis, values))})
    if grid.shape[0] < 5:
        raise InputError(axis, grid.axes[axis].tolist(), "a scaling law needs at least 5 values")
    table = transition_table(grid, estimator)
    if quantity not in table:
        known = ", ".join(name for name in THRESHOLDS if name in table) or "none"
        raise InputError("threshold", quantity, f"score {model.score.name} has no such transition; it has {known}")
    parameters = parameters_without_P(grid)
    dataset = table[[quantity, "failed"]]
    dataset["local_exponent"] = (axis, local_exponent(grid.axes[axis], table[quantity].to_numpy()))
    for name, form in forms.items() if estimator == "map" else ():  # the closed forms are those of the map action
        dataset[f"closed_{name}"] = (axis, np.broadcast_to(form(parameters), grid.shape))
    return with_long_names(dataset.assign_attrs(quantity=quantity, axis=axis))


def local_exponent(x: Array, y: Array) -> Array:
    """Return d ln y/d ln x at every point, by second-order differences; NaN next to missing points."""
    return np.asarray(np.gradient(np.log(y), np.log(x), edge_order=2))


def exponent(dataset: xr.Dataset) -> Exponent:
    """Return the exponent of a scaling law over the last decade of its axis, with its drift and limit.

    Raises
    ------
    InputError
        If the thresholds that exist span less than two decades.
    """
    x, y = _existing(dataset)
    if x.size < 5 or x[-1] < 99 * x[0]:
        span = "nothing" if x.size == 0 else f"{x[0]:g} to {x[-1]:g}"
        raise InputError(str(dataset.attrs["axis"]), span, "an exponent with its drift needs at least two decades")
    decades = 3 if x[-1] >= 999 * x[0] else 2
    edges = np.log(x[-1]) - np.log(10) * np.arange(decades + 1)
    log_y = np.interp(edges, np.log(x), np.log(y))
    slopes = (log_y[:-1] - log_y[1:]) / np.log(10)  # the last decade first
    local = local_exponent(x, y)
    return Exponent(
        float(slopes[0]), float(abs(slopes[0] - slopes[1])), _limit(slopes), float(local[0]), float(local[-1])
    )


def _limit(slopes: Array) -> float | None:
    """Return the limit of slopes, last first, whose changes shrink as a geometric series."""
    if slopes.size < 3:
        return None
    change, before = slopes[0] - slopes[1], slopes[1] - slopes[2]
    shrinks = before != 0 and 0 <= change / before < 0.5
    return float(slopes[0] + change**2 / (before - change)) if shrinks else None


def compare_laws(dataset: xr.Dataset) -> list[LawFit]:
    """Hold every closed form and a pure power law against the thresholds, best first (each with a free prefactor).

    Laws that have no value at some threshold come last: on fewer points, a law deviates less.
    """
    x, y = _existing(dataset)
    exists = np.isfinite(dataset[dataset.attrs["quantity"]].to_numpy())
    fits = []
    for name in dataset.data_vars:
        if str(name).startswith("closed_"):
            form = dataset[name].to_numpy()[exists]
            fits.append(_fit(str(name).removeprefix("closed_"), np.log(y / form), None))
    slope, _ = np.polyfit(np.log(x), np.log(y), 1)
    fits.append(_fit("power law", np.log(y) - slope * np.log(x), float(slope)))
    return sorted(fits, key=lambda fit: (fit.missing > 0, fit.rms))


def _fit(law: str, log_ratio: Array, slope: float | None) -> LawFit:
    usable = log_ratio[np.isfinite(log_ratio)]
    missing = log_ratio.size - usable.size
    if usable.size == 0:
        return LawFit(law, float("nan"), slope, float("inf"), float("inf"), missing)
    rest = np.abs(usable - usable.mean())
    rms, worst = float(np.sqrt(np.mean(rest**2))), float(rest.max())
    return LawFit(law, float(np.exp(usable.mean())), slope, rms, worst, missing)


def _existing(dataset: xr.Dataset) -> tuple[Array, Array]:
    """Return axis and thresholds where the transition exists."""
    x, y = dataset[dataset.attrs["axis"]].to_numpy(), dataset[dataset.attrs["quantity"]].to_numpy()
    exists = np.isfinite(y)
    return x[exists], y[exists]
