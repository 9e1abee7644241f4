"""The one description of task, head and data that theory, networks and figures share."""

from phasekit.model.given import given_grid, given_list, given_model, given_models
from phasekit.model.grid import Grid, axes_of
from phasekit.model.model import Model
from phasekit.model.parameters import AXES, INTEGER_AXES, RANGES, Estimator, Inputs, Parameters, Setting

__all__ = [
    "AXES",
    "INTEGER_AXES",
    "RANGES",
    "Estimator",
    "Grid",
    "Inputs",
    "Model",
    "Parameters",
    "Setting",
    "axes_of",
    "given_grid",
    "given_list",
    "given_model",
    "given_models",
]
