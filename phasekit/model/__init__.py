"""The one description of task, head and data that theory, networks and figures share."""

from phasekit.model.given import given_grid, given_list, given_model, given_models
from phasekit.model.grid import Grid, axes_of
from phasekit.model.model import Model
from phasekit.model.parameters import AXES, INTEGER_AXES, RANGES, Estimator, Inputs, Parameters, Setting
from phasekit.model.task import TASKS, Copy, Induction, Task
from phasekit.model.words import in_words

__all__ = [
    "AXES",
    "INTEGER_AXES",
    "RANGES",
    "TASKS",
    "Copy",
    "Estimator",
    "Grid",
    "Induction",
    "Inputs",
    "Model",
    "Parameters",
    "Setting",
    "Task",
    "axes_of",
    "given_grid",
    "given_list",
    "given_model",
    "given_models",
    "in_words",
]
