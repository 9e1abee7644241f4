"""From a sweep's axes to its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.sweeps.axes import AxisValues
from phasekit.runs.sweeps.description import MOST_TASKS, Sweep, SweepErrors, whole_numbers
from phasekit.runs.sweeps.task import Multiple, Task
from phasekit.runs.sweeps.thresholds import Thresholds


def expand(sweep: Sweep, thresholds: Thresholds | None = None) -> list[Task]:
    """Return all tasks of a sweep: every combination of its axes, on every data seed.

    V, L and P are rounded to whole numbers; models that coincide then are taken once. The order is that of the axes
    as written, seeds last; it is the same in every run. Thresholds that aren't among those given are computed, and
    added to them.

    Raises
    ------
    SweepErrors
        If there are too many tasks, a model is out of range, its threshold doesn't exist, or the procedure can't do it.
    """
    thresholds = Thresholds() if thresholds is None else thresholds
    if sweep.parts:
        return list({task.id: task for part in sweep.parts for task in expand(part, thresholds)}.values())
    if (count := prod(map(len, sweep.axes.values())) * len(sweep.seeds)) > MOST_TASKS:
        raise SweepErrors([str(InputError(f"{sweep.source}: tasks", count, f"must be at most {MOST_TASKS}"))])
    models: dict[Description, Multiple | None] = {}
    mistakes: dict[str, None] = {}
    others = {name: values for name, values in sweep.axes.items() if name != "P"}
    whole = whole_numbers(sweep.procedure.takes)
    for combination in product(*(_values(values) for values in others.values())):
        chosen = {name: round(x) if name in whole else x for name, x in zip(others, combination, strict=True)}
        try:
            fields = {**sweep.model, **chosen}
            for model, multiple in _points(sweep.procedure.takes, fields, sweep.axes.get("P"), thresholds):
                sweep.procedure.check(model)
                models.setdefault(model, multiple)
        except InputError as error:
            where = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            field = f"{sweep.source}: {error.field}{f' (at {where})' if where else ''}"
            mistakes.setdefault(str(InputError(field, error.value, error.allowed)))
    if mistakes:
        raise SweepErrors(list(mistakes))
    return [Task(model, seed, sweep.procedure, multiple) for model, multiple in models.items() for seed in sweep.seeds]


def _values(values: AxisValues | tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(values.resolve(_no_threshold)) if isinstance(values, AxisValues) else values


def _no_threshold(name: str) -> float:
    raise InputError("axis", name, "only P can be multiples of a threshold")


def _points(
    kind: type[Description],
    fields: dict[str, Any],
    axis: AxisValues | tuple[Any, ...] | None,
    thresholds: Thresholds,
) -> Iterator[tuple[Description, Multiple | None]]:
    """Yield a model for each value of P, rounded to a whole number, and which multiple of a threshold it was."""
    if axis is None:
        yield kind(**fields), None
        return
    assert isinstance(axis, AxisValues)
    for values, times in axis.parts:
        name, unit = (None, 1.0) if times is None else thresholds.find(Model(**{**fields, "P": None}), times)
        for value in values:
            multiple = None if name is None else Multiple(value, name, unit)
            yield kind(**{**fields, "P": float(max(1, round(value * unit)))}), multiple
