"""Scaling laws of the thresholds: local exponents, their limits, and which law describes the data.

The thresholds are computed, not measured, so an exponent's uncertainty isn't statistical: it is how much the local
exponent still drifts. Over a window it is quoted as the local exponent averaged over the last decade, with its change
from the decade before, and with the limit to which such changes lead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from phasekit.checks import number_array
from phasekit.errors import InputError
from phasekit.model import Estimator, Grid, Model, given_model
from phasekit.theory.action.base import Array
from phasekit.theory.closed_forms import closed_forms_of
from phasekit.theory.long_names import with_long_names
from phasekit.theory.transitions import THRESHOLDS, transition_table
from phasekit.theory.transitions.table import parameters_without_P

#: A law is held against at least so many thresholds: with fewer, those with free numbers fit whatever the thresholds.
FEWEST = 5
#: Deviations of ln P below this are rounding, here and in the thresholds.
ROUNDING = 1e-9


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
    rms : root-mean-square deviation of ln P from the fitted law; NaN, as all but ``missing``, without a rank
    worst : largest deviation of ln P
    missing : at how many of the thresholds the law has no value (closed forms end before the jump does)
    compared : number of thresholds that the fit is of: the same ones for all laws that have a rank
    rank : 1 for the smallest rms, shared by laws that differ by rounding only; None for a law with too few values
    """

    law: str
    prefactor: float
    exponent: float | None
    rms: float
    worst: float
    missing: int
    compared: int = 0
    rank: int | None = None


def scaling_law(
    model: Model,
    quantity: str,
    axis: str,
    values: ArrayLike,
    estimator: Estimator = "map",
    *,
    error: float | None = None,
    jobs: int = 1,
) -> xr.Dataset:
    """Compute a threshold along one axis, with local exponents and the closed forms beside it.

    Parameters
    ----------
    model : Model
        Everything but the axis; P plays no role.
    quantity : "P1", "P2" (linear attention), "P_star" (jump of a normalised score) or "P_x" (its smooth crossover)
    axis : "L" or "V" (or sigma_w, sigma_g, kappa)
    values : at least 5 increasing values of the axis
    estimator, error, jobs
        As :func:`phasekit.theory.transitions.transition_table` has them.

    Returns
    -------
    xarray.Dataset
        Along the axis: the quantity (NaN where the transition doesn't exist), whether the search for it ``failed``,
        ``local_exponent``, under the posterior its error if that is known (``QUANTITY_error``), and one variable
        ``closed_*`` per closed form (map estimator only).

    Raises
    ------
    InputError
        For an unknown quantity, one that the score doesn't have, or fewer than 5 values.
    """
    forms = closed_forms_of(quantity, given_model(model).score, model.task)
    if model.beyond.keys() - {"encoding"} or not model.positions.two_levels:
        forms = {}  # they know neither masks, nor token laws, nor patterns of more than two levels
    grid = Grid(model, {axis: np.sort(number_array(axis, values))})
    if grid.shape[0] < FEWEST:
        raise InputError(axis, grid.axes[axis].tolist(), f"a scaling law needs at least {FEWEST} values")
    table = transition_table(grid, estimator, error=error, jobs=jobs)
    if quantity not in table:
        known = ", ".join(name for name in THRESHOLDS if name in table) or "none"
        raise InputError("threshold", quantity, f"score {model.score.name} has no such transition; it has {known}")
    parameters = parameters_without_P(grid)
    stated = [f"{quantity}_error"] if f"{quantity}_error" in table else []
    dataset = table[[quantity, *stated, "failed"]]
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
    if x.size < FEWEST or x[-1] < 99 * x[0]:
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

    All laws are compared at the same thresholds, those at which every one of them has a value: on fewer points, a law
    deviates less. Laws that have too few values for that come last, without a rank.

    Raises
    ------
    InputError
        If the transition exists at fewer than 5 values of the axis.
    """
    x, y = _existing(dataset)
    if x.size < FEWEST:
        axis, quantity = str(dataset.attrs["axis"]), dataset.attrs["quantity"]
        of = dataset[axis].size
        raise InputError(axis, x.tolist(), f"{quantity} exists at {x.size} of {of} values; laws need at least {FEWEST}")
    exists = np.isfinite(dataset[dataset.attrs["quantity"]].to_numpy())
    forms = {"power law": np.ones(x.size)} | {
        str(name).removeprefix("closed_"): dataset[name].to_numpy()[exists]
        for name in dataset.data_vars
        if str(name).startswith("closed_")
    }
    has = {law: np.isfinite(form) & (form > 0) for law, form in forms.items()}
    compared = _comparable(has)
    common = np.all([has[law] for law in compared], axis=0)
    fits = []
    for law, form in forms.items():
        missing = int((~has[law]).sum())
        if law in compared:
            fits.append(_fit(law, np.log(x[common]), np.log(y[common] / form[common]), missing))
        else:
            fits.append(LawFit(law, np.nan, None, np.nan, np.nan, missing))
    return _ranked(fits)


def _comparable(has: dict[str, NDArray[np.bool_]]) -> list[str]:
    """Return the laws that share at least :data:`FEWEST` thresholds; those with the fewest values are left out first.

    The power law, which has a value everywhere, is among them.
    """
    laws = sorted(has, key=lambda law: int(has[law].sum()))
    while np.all([has[law] for law in laws], axis=0).sum() < FEWEST:
        laws = laws[1:]
    return laws


def _fit(law: str, log_x: Array, log_ratio: Array, missing: int) -> LawFit:
    slope = float(np.polyfit(log_x, log_ratio, 1)[0]) if law == "power law" else None
    rest = log_ratio - (slope or 0.0) * log_x
    away = np.abs(rest - rest.mean())
    rms = float(np.sqrt(np.mean(away**2)))
    return LawFit(law, float(np.exp(rest.mean())), slope, rms, float(away.max()), missing, log_x.size)


def _ranked(fits: list[LawFit]) -> list[LawFit]:
    """Return fits with their ranks, best first; deviations that differ by rounding only share a rank."""
    size = {fit.law: max(fit.rms, ROUNDING) for fit in fits if fit.compared}
    ranks = {law: 1 + sum(other < (1 - ROUNDING) * rms for other in size.values()) for law, rms in size.items()}
    ranked = [replace(fit, rank=ranks.get(fit.law)) for fit in fits]
    return sorted(ranked, key=lambda fit: (fit.rank is None, fit.rank, fit.law == "power law"))


def _existing(dataset: xr.Dataset) -> tuple[Array, Array]:
    """Return axis and thresholds where the transition exists."""
    x, y = dataset[dataset.attrs["axis"]].to_numpy(), dataset[dataset.attrs["quantity"]].to_numpy()
    exists = np.isfinite(y)
    return x[exists], y[exists]
