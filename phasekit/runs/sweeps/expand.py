"""From a sweep's axes to its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.sweeps.axes import AxisValues
from phasekit.runs.sweeps.description import MOST_TASKS, Sweep, SweepErrors, whole_numbers
from phasekit.runs.sweeps.task import Multiple, Task


def expand(sweep: Sweep) -> list[Task]:
    """Return all tasks of a sweep: every combination of its axes, on every data seed.

    V, L and P are rounded to whole numbers; models that coincide then are taken once. The order is that of the axes
    as written, seeds last; it is the same in every run.

    Raises
    ------
    SweepErrors
        If there are too many tasks, a model is out of range, its threshold doesn't exist, or the procedure can't do it.
    """
    if sweep.parts:
        return list({task.id: task for part in sweep.parts for task in expand(part)}.values())
    if (count := prod(map(len, sweep.axes.values())) * len(sweep.seeds)) > MOST_TASKS:
        raise SweepErrors([str(InputError(f"{sweep.source}: tasks", count, f"must be at most {MOST_TASKS}"))])
    models: dict[Description, Multiple | None] = {}
    mistakes: dict[str, None] = {}
    others = {name: values for name, values in sweep.axes.items() if name != "P"}
    whole = whole_numbers(sweep.procedure.takes)
    for combination in product(*(_values(values) for values in others.values())):
        chosen = {name: round(x) if name in whole else x for name, x in zip(others, combination, strict=True)}
        try:
            for model, multiple in _points(sweep.procedure.takes, {**sweep.model, **chosen}, sweep.axes.get("P")):
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
    kind: type[Description], fields: dict[str, Any], axis: AxisValues | tuple[Any, ...] | None
) -> Iterator[tuple[Description, Multiple | None]]:
    """Yield a model for each value of P, rounded to a whole number, and which multiple of a threshold it was."""
    if axis is None:
        yield kind(**fields), None
        return
    assert isinstance(axis, AxisValues)
    for values, times in axis.parts:
        name, unit = (None, 1.0) if times is None else threshold(Model(**{**fields, "P": None}), times)
        for value in values:
            multiple = None if name is None else Multiple(value, name, unit)
            yield kind(**{**fields, "P": float(max(1, round(value * unit)))}), multiple


@cache
def threshold(model: Model, name: str) -> tuple[str, float]:
    """Return a threshold that theory predicts for a model: its name, and the P.

    The theory is that of the map estimator, or of the posterior for names like "posterior P1". Of several names joined
    by "or" (P1, P2, P_star, P_x), the first one counts that the model has.

    Raises
    ------
    InputError
        If the model has no such transition.
    """
    from phasekit.theory.transitions import find_transitions

    found = cache(partial(find_transitions, model))
    for one in name.split(" or "):
        words, _, bare = one.rpartition(" ")
        if (P := found("posterior" if words else "map").threshold(bare)) is not None:
            return one, P
    raise InputError("axes.P", name, f"{model.score.name} attention with V = {model.V}, L = {model.L} has none")
