"""In-context tasks: one description each, found by name (docs/in_context.md)."""

from phasekit.tasks.in_context.base import NO_SHIFT, TASKS, Prompts, Shift, Task, build_task, parse_shift
from phasekit.tasks.in_context.quantifiers import Every, EveryOrSome, Some
from phasekit.tasks.in_context.regression import (
    LinearFunctions,
    LinearRegression,
    NetworkRegression,
    SparseRegression,
    TreeRegression,
)
from phasekit.tasks.in_context.sequences import Copy, Induction

__all__ = [
    "NO_SHIFT",
    "TASKS",
    "Copy",
    "Every",
    "EveryOrSome",
    "Induction",
    "LinearFunctions",
    "LinearRegression",
    "NetworkRegression",
    "Prompts",
    "Shift",
    "Some",
    "SparseRegression",
    "Task",
    "TreeRegression",
    "build_task",
    "parse_shift",
]
