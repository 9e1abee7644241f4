"""From a sweep's axes to its tasks."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

from phasekit.errors import InputError
from phasekit.model import INTEGER_AXES, Model
from phasekit.runs.sweeps.axes import AxisValues
from phasekit.runs.sweeps.description import Sweep, SweepErrors
from phasekit.runs.sweeps.task import Task


def expand(sweep: Sweep) -> list[Task]:
    """Return all tasks of a sweep: every combination of its axes, on every data seed.

    V, L and P are rounded to whole numbers; models that coincide then are taken once. The order is that of the axes
    as written, seeds last; it is the same in every run.

    Raises
    ------
    SweepErrors
        If a model is out of range, its threshold doesn't exist, or the procedure can't do it.
    """
    if sweep.parts:
        return list({task.id: task for part in sweep.parts for task in expand(part)}.values())
    models: dict[Model, None] = {}
    mistakes: dict[str, None] = {}
    others = {name: values for name, values in sweep.axes.items() if name != "P"}
    for combination in product(*(_values(values) for values in others.values())):
        chosen = dict(zip(others, combination, strict=True))
        fields = {**sweep.model, **{name: _rounded(name, value) for name, value in chosen.items()}}
        try:
            for model in _with_P(fields, sweep.axes.get("P")):
                sweep.procedure.check(model)
                models.setdefault(model)
        except InputError as error:
            where = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            field = f"{sweep.source}: {error.field}{f' (at {where})' if where else ''}"
            mistakes.setdefault(str(InputError(field, error.value, error.allowed)))
    if mistakes:
        raise SweepErrors(list(mistakes))
    return [Task(model, seed, sweep.procedure) for model in models for seed in sweep.seeds]


def _values(values: AxisValues | tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(values.resolve(_no_threshold)) if isinstance(values, AxisValues) else values


def _rounded(name: str, value: Any) -> Any:
    return round(value) if name in INTEGER_AXES else value


def _with_P(fields: dict[str, Any], axis: AxisValues | tuple[Any, ...] | None) -> list[Model]:
    if axis is None:
        return [Model(**fields)]
    assert isinstance(axis, AxisValues)
    values = axis.resolve(lambda name: threshold(Model(**{**fields, "P": None}), name))
    return [Model(**{**fields, "P": float(max(1, round(value)))}) for value in values]


def _no_threshold(name: str) -> float:
    raise InputError("axis", name, "only P can be multiples of a threshold")


@cache
def threshold(model: Model, name: str) -> float:
    """Return the threshold that the theory of the map estimator predicts for a model: P1, P2, P_star or P_x.

    Of several names joined by "or", the first one counts that the model has.

    Raises
    ------
    InputError
        If the model has no such transition.
    """
    from phasekit.theory.transitions import find_transitions

    found = find_transitions(model, "map")
    value = next((P for P in map(found.threshold, name.split(" or ")) if P is not None), None)
    if value is None:
        raise InputError("axes.P", name, f"{model.score.name} attention with V = {model.V}, L = {model.L} has none")
    return value
