"""The one description of task, head and data that theory, networks and figures share."""

from phasekit.model.model import (
    AXES,
    INTEGER_AXES,
    RANGES,
    Estimator,
    Grid,
    Inputs,
    Model,
    Parameters,
    axes_of,
)

__all__ = ["AXES", "INTEGER_AXES", "RANGES", "Estimator", "Grid", "Inputs", "Model", "Parameters", "axes_of"]
