"""Transitions of a whole grid of models, as arrays and as a labelled dataset."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from phasekit.describe import columns_of
from phasekit.errors import InputError
from phasekit.model import Estimator, Grid, Model, Parameters, given_models
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import Array
from phasekit.theory.long_names import with_long_names
from phasekit.theory.transitions.course import course_of

if TYPE_CHECKING:
    import xarray as xr

#: Second dimension of the quantities that come in pairs.
_PAIRS = {"spinodals": "end", "layer2_spinodals": "end"}


def locate(action: Action, p: Parameters) -> dict[str, Array]:
    """Return the transitions of flat parameters (their P is ignored) as arrays with one row per model.

    Which quantities there are is said by :meth:`phasekit.theory.transitions.course.Course.locate` of the action's
    course.
    """
    return course_of(action).locate(action, p)


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


def transition_table(models: Model | Grid, estimator: Estimator = "map") -> xr.Dataset:
    """Locate the transitions of every model of a grid.

    Parameters
    ----------
    models : Grid, or one Model
        Any axes except P; one model gives 0-d variables.

    Returns
    -------
    xarray.Dataset
        The quantities of :func:`locate`, labelled by the grid's axes; pairs have a second dimension, ``end``
        (lower, upper spinodal) or ``branch`` (low, high). NaN where a model has no such transition, and in models
        that are marked as ``failed``: their search failed.

    Raises
    ------
    InputError
        If P is an axis, or there is no theory for the score and estimator.
    """
    models = given_models(models)
    import xarray as xr  # takes longer than all else that one model's transitions need

    base, axes = (models, {}) if isinstance(models, Model) else (models.base, models.axes)
    action = action_for(base, estimator)
    parameters = parameters_without_P(models)
    located = locate(action, parameters.ravel())
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
