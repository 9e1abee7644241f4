"""Transitions of a whole grid of models, as arrays and as a labelled dataset."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from phasekit.describe import columns_of
from phasekit.errors import InputError
from phasekit.model import Estimator, Grid, Model, Parameters, given_models
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import Array
from phasekit.theory.long_names import with_long_names
from phasekit.theory.slices import map_slices, slices_of
from phasekit.theory.transitions.precision import check_error, locate

if TYPE_CHECKING:
    import xarray as xr

#: Second dimension of the quantities that come in pairs.
_PAIRS = {"spinodals": "end", "layer2_spinodals": "end"}


def parameters_without_P(models: Model | Grid) -> Parameters:
    """Return the numbers of models whose P is the unknown (it is set to 1).

    Raises
    ------
    InputError
        If P is an axis of the grid.
    """
    if isinstance(models, Model):
        return models.at(P=1.0).parameters()
    if "P" in models.axes:
        raise InputError("grid axis", "P", "is what transitions solve for; choose other axes")
    return Grid(models.base.at(P=1.0), models.axes).parameters()


def transition_table(
    models: Model | Grid, estimator: Estimator = "map", *, error: float | None = None, jobs: int = 1
) -> xr.Dataset:
    """Locate the transitions of every model of a grid.

    Parameters
    ----------
    models : Grid, or one Model
        Any axes except P; one model gives 0-d variables.
    estimator : "map" or "posterior"
    error : float, optional
        Relative error of the posterior's thresholds, at most: looser ones are found faster. They then come with
        ``NAME_error``, and models for which it can't be reached are marked as ``failed``.
    jobs : int
        Processes to share the models of the posterior out among; the numbers are the same ones.

    Returns
    -------
    xarray.Dataset
        The quantities of :func:`locate`, labelled by the grid's axes; pairs have a second dimension, ``end``
        (lower, upper spinodal) or ``branch`` (low, high). NaN where a model has no such transition, and in models
        that are marked as ``failed``: their search failed.

    Raises
    ------
    InputError
        If P is an axis, there is no theory for the score and estimator, or no such error can be asked for.
    """
    models = given_models(models)
    import xarray as xr  # takes longer than all else that one model's transitions need

    base, axes = (models, {}) if isinstance(models, Model) else (models.base, models.axes)
    action = action_for(base, estimator)
    parameters = parameters_without_P(models)
    located = _located(action, parameters.ravel(), check_error(action, error), jobs)
    shape = tuple(values.size for values in axes.values())
    variables = {}
    for name, values in located.items():
        extra = [_PAIRS.get(name, "branch")] if values.ndim == 2 else []
        variables[name] = ([*axes, *extra], values.reshape((*shape, *values.shape[1:])))
    labels = {"end": ["lower", "upper"], "branch": ["low", "high"]}
    used = {dim for dims, _ in variables.values() for dim in dims} & labels.keys()
    dataset = xr.Dataset(variables, coords={**axes, **{dim: labels[dim] for dim in sorted(used)}})
    caveat = action.caveat(parameters)
    attributes = model_attributes(models, estimator)
    return with_long_names(dataset.assign_attrs(attributes, **({"caveat": caveat} if caveat else {})))


def _located(action: Action, p: Parameters, error: float | None, jobs: int) -> dict[str, Array]:
    """Locate transitions of flat parameters, those of the posterior in slices if there is more than one process."""
    slices = slices_of(action, p, jobs)
    parts = map_slices(locate, jobs, [(action, p[members], error) for members in slices])
    places = np.argsort(np.concatenate(slices))
    return {name: np.concatenate([part[name] for part in parts])[places] for name in parts[0]}


def model_attributes(
    models: Model | Grid, estimator: Estimator, varied: Collection[str] = ("P",)
) -> dict[str, str | float]:
    """Return what models have in common, as flat attributes that netCDF can hold.

    Parameters
    ----------
    varied : names
        Numbers that they don't have in common although these are no axes of the grid: by default P, the unknown.
    """
    model, axes = (models, {}) if isinstance(models, Model) else (models.base, models.axes)
    left_out = {*axes, *varied}
    columns = columns_of({name: value for name, value in model.describe().items() if name not in left_out})
    common = {name: value for name, value in columns.items() if name.removeprefix("score_") not in left_out}
    return {**{name: value for name, value in common.items() if value is not None}, "estimator": estimator}
