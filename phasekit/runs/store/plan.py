"""Plans: which tasks were asked for, and which of them form an ensemble.

Networks that share an ensemble share its products of matrices, and their last digits depend on who else is in it. So
the members of an ensemble are decided once, written down before work begins, and kept: a resumed sweep computes the
same ensembles again, to the last bit. Tasks that are added later form ensembles of their own.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from phasekit.errors import InputError
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.canonical import identify

_FORMAT = "phasekit plan 1"


@dataclass(frozen=True)
class Group:
    """Tasks that are computed as one ensemble.

    Attributes
    ----------
    tasks : ids, in the order in which they stand in the ensemble
    seconds : how long the ensemble should take on one worker; 0 if that wasn't measured
    """

    tasks: tuple[str, ...]
    seconds: float = 0.0

    @cached_property
    def id(self) -> str:
        """Return the name of the ensemble: a hash of its tasks."""
        return identify({"tasks": self.tasks})


@dataclass(frozen=True)
class Plan:
    """What one ``phasekit run`` asked for.

    Attributes
    ----------
    sweep : str
        Name of the sweep.
    preset : str or None
    tasks : ids of all its tasks
    groups : ensembles of those tasks that no earlier plan holds
    parameters : parameters of the tasks in ``groups``, by id
    about : plain JSON values: what the sweep is about, what it measures, what calibration found
    """

    sweep: str
    preset: str | None
    tasks: tuple[str, ...]
    groups: tuple[Group, ...]
    parameters: dict[str, dict[str, Any]]
    about: dict[str, Any]


def read_plans(store: Store) -> list[Plan]:
    """Return all plans of a store, oldest first.

    Raises
    ------
    InputError
        For a plan that was damaged, or is something else.
    """
    return [_read(path) for path in sorted(store.plans.glob("[0-9]*.json"))]


def _read(path: Path) -> Plan:
    try:
        written = json.loads(path.read_text())
        if written.pop("format") != _FORMAT:
            raise ValueError(f"not a {_FORMAT!r} file")
        groups = tuple(Group(tuple(group["tasks"]), group["seconds"]) for group in written.pop("groups"))
        return Plan(**{**written, "tasks": tuple(written["tasks"]), "groups": groups})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"is damaged ({error}); delete it from {path.parent}, and the next run plans anew what isn't finished"
        raise InputError("plan", path.name, why) from None


def add_plan(store: Store, plan: Plan, number: int) -> bool:
    """Write a plan under its number; return False if another runner has taken the number first."""
    target = store.plans / f"{number:04d}.json"
    temporary = store.plans / f".{uuid.uuid4().hex}"
    groups = [{"tasks": group.tasks, "seconds": group.seconds} for group in plan.groups]
    try:
        with temporary.open("w") as file:
            file.write(json.dumps({"format": _FORMAT, **vars(plan), "groups": groups}))
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, target)  # unlike a move, fails if the target is there
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def chunks(tasks: Sequence[str], size: int, seconds: float = 0.0) -> list[Group]:
    """Cut tasks into groups of nearly equal size, none above ``size``; a task takes ``seconds``."""
    count = -(-len(tasks) // size)
    edges = [round(k * len(tasks) / count) for k in range(count + 1)] if count else [0]
    return [Group(tuple(tasks[a:b]), seconds * (b - a)) for a, b in pairwise(edges)]
