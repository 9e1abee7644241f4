"""Phase diagrams: the global minimum over a grid of models, and the transition lines through it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from phasekit.files import write_netcdf
from phasekit.model import Estimator, Grid, given_grid
from phasekit.progress import Progress, Report, reported
from phasekit.theory.action import action_for
from phasekit.theory.long_names import with_long_names
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import THRESHOLDS, Family, critical_endpoint, transition_table
from phasekit.theory.transitions.precision import check_error
from phasekit.theory.transitions.table import model_attributes

#: Values of ``phase`` and what they mean.
PHASES = ("no pattern", "pooling", "copying")


def phase_diagram(
    grid: Grid, estimator: Estimator = "map", *, progress: Progress = None, error: float | None = None, jobs: int = 1
) -> xr.Dataset:
    """Compute a phase diagram.

    Parameters
    ----------
    grid : Grid
        Any axes (P, V, L, sigma_w, sigma_g, kappa); usually two, one of them P.
    estimator : "map" or "posterior"
    progress : bool or callable, optional
        Whether to show a bar; None: in a notebook only. Or what is called with (stages done, stages in all): minima,
        transition lines, and where they end.
    error : float, optional
        Relative error of the posterior's transition lines, at most (``line_NAME_error``).
    jobs : int
        Processes to share the models of the posterior out among; the numbers are the same ones.

    Returns
    -------
    xarray.Dataset
        Of the global minimum, along the grid's axes: ``action``, both order parameters, ``loss``, ``copying_share``
        (g²/q of the pattern), ``phase`` (0 no pattern: all order parameters 0; 1 pooling: copying share below 1/2;
        2 copying; −1 where no minimum was found), ``converged``.
        ``minima`` counts all local minima and ``lead`` is the action of the second one minus that of the first (NaN
        if there is just one).
        If P is an axis, the transition lines ``line_P1``, ``line_P2`` or ``line_P_star``, ``line_P_x`` and
        ``line_spinodals`` along the other axes (0-d without one), and ``lines_failed`` where the search failed. With
        one other axis, the attribute ``critical_point`` (its value, and P) where the map's line of jumps ends.

    Raises
    ------
    InputError
        If P is neither an axis nor in the base model, or there is no theory for the score and estimator.
    """
    with reported(progress, "phase diagram") as report:
        return _diagram(given_grid(grid), estimator, report or (lambda done, total: None), error, jobs)


def _diagram(grid: Grid, estimator: Estimator, report: Report, error: float | None, jobs: int) -> xr.Dataset:
    report(0, 3)
    if error is not None:
        check_error(action_for(grid.base, estimator), error)
    minima = find_minima(grid, estimator, jobs=jobs)
    report(1, 3)
    names = list(grid.axes)
    share = minima.copying_share[..., 0]
    nothing = np.all([values[..., 0] == 0 for values in minima.order_parameters.values()], axis=0)
    second = minima.action[..., 1] if minima.action.shape[-1] > 1 else np.full(grid.shape, np.nan)
    variables = {
        "action": minima.action[..., 0],
        **{name: values[..., 0] for name, values in minima.order_parameters.items()},
        "loss": minima.loss[..., 0],
        "copying_share": share,
        "phase": np.where(minima.count == 0, -1, np.where(nothing, 0, np.where(share < 0.5, 1, 2))).astype(np.int8),
        "converged": minima.converged[..., 0],
        "minima": minima.count,
        "lead": second - minima.action[..., 0],
    }
    dataset = xr.Dataset({name: (names, values) for name, values in variables.items()}, coords=grid.axes)
    dataset = dataset.assign_attrs(model_attributes(grid, estimator, varied=()), phases=", ".join(PHASES))
    if minima.caveat is not None:
        dataset = dataset.assign_attrs(caveat=minima.caveat)
    others = {name: values for name, values in grid.axes.items() if name != "P"}
    if "P" in grid.axes:
        lines = transition_table(Grid(grid.base, others) if others else grid.base, estimator, error=error, jobs=jobs)
        stated = [f"{name}_error" for name in THRESHOLDS]
        wanted = [name for name in (*THRESHOLDS, *stated, "spinodals") if name in lines]
        dataset = dataset.merge(lines[wanted].rename({name: f"line_{name}" for name in wanted}))
        dataset["lines_failed"] = lines["failed"]
        report(2, 3)
        if estimator == "map" and len(others) == 1 and _jumps_end(lines):
            ((name, values),) = others.items()
            end = critical_endpoint(grid.base, Family(name, (float(values.min()), float(values.max()))), estimator)
            dataset = dataset.assign_attrs(critical_point=[float(end[name]), float(end["P"])])
    report(3, 3)
    return with_long_names(dataset)


def _jumps_end(lines: xr.Dataset) -> bool:
    """Say whether some models jump and others pass smoothly."""
    return all(name in lines and bool(np.isfinite(lines[name]).any()) for name in ("P_star", "P_x"))


def save_dataset(dataset: xr.Dataset, path: str | Path) -> None:
    """Write a dataset as netCDF, whole or not at all.

    Raises
    ------
    InputError
        If the folder can't be written to.
    """
    write_netcdf(dataset, path)
