"""What a public function was handed in place of a model: one line says what it takes."""

from __future__ import annotations

from typing import Any

from phasekit.errors import InputError
from phasekit.model.grid import Grid
from phasekit.model.model import Model


def given_model(value: Any, otherwise: str = "") -> Model:
    """Return ``value``, one model.

    Parameters
    ----------
    otherwise : str
        What to do with a grid instead.

    Raises
    ------
    InputError
        For anything else.
    """
    if isinstance(value, Model):
        return value
    hint = f"; {otherwise}" if otherwise and isinstance(value, Grid) else ""
    raise InputError("model", value, f"must be one Model(V=…, L=…, …){hint}")


def given_grid(value: Any) -> Grid:
    """Return ``value``, a grid; raise InputError for anything else."""
    if isinstance(value, Grid):
        return value
    raise InputError("grid", value, "must be a grid of models: model.grid(L=[…], …)")


def given_models(value: Any) -> Model | Grid:
    """Return ``value``, one model or a grid; raise InputError for anything else (a list of models, too)."""
    if isinstance(value, Model | Grid):
        return value
    raise InputError("models", value, "must be one Model(V=…, L=…, …) or a grid of them: model.grid(P=[…], …)")


def given_list(value: Any) -> list[Model]:
    """Return one model, or a list of models, as a list; raise InputError for anything else (a grid, too)."""
    if isinstance(value, Model):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(model, Model) for model in value):
        return list(value)
    raise InputError("models", value, "must be one Model(V=…, L=…, …) or a list of them")
