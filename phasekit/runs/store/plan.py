"""Plans: which tasks were asked for, and which of them form an ensemble.

Networks that share an ensemble share its products of matrices, and their last digits depend on who else is in it. So
the members of an ensemble are decided once, written down before work begins, and kept: a resumed sweep computes the
same ensembles again, to the last bit. Tasks that are added later form ensembles of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from phasekit.errors import InputError
from phasekit.files import atomic
from phasekit.runs.store.claims import claim
from phasekit.runs.store.records import BrokenRecord, read_record
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.canonical import hash_of, identify, state_point

_NAME = re.compile(r"[0-9]{4,}\.json")


class Group(BaseModel):
    """Tasks that are computed as one ensemble.

    Attributes
    ----------
    tasks : ids, in the order in which they stand in the ensemble
    seconds : how long the ensemble should take on one worker; 0 if that wasn't measured
    threads : that it is fastest with; None if that wasn't measured
    """

    model_config = ConfigDict(frozen=True)

    tasks: tuple[str, ...]
    seconds: float = 0.0
    threads: int | None = None

    @cached_property
    def id(self) -> str:
        """Return the name of the ensemble: a hash of its tasks."""
        return identify({"tasks": self.tasks})


class About(BaseModel):
    """What the sweep of a plan is about.

    Attributes
    ----------
    about : its description
    measure, along : see :class:`phasekit.runs.sweeps.description.Sweep`
    procedure : what ``describe`` of the procedure returned
    calibration : the sizes of ensembles that were measured
    """

    about: str = ""
    measure: tuple[str, ...] = ()
    along: str | None = None
    procedure: dict[str, Any] = Field(default_factory=dict, validation_alias=AliasChoices("procedure", "estimator"))
    calibration: list[dict[str, Any]] = Field(default_factory=list)


class Plan(BaseModel):
    """What one ``phasekit run`` asked for.

    Attributes
    ----------
    sweep : str
        Name of the sweep.
    preset : str or None
    tasks : ids of all its tasks
    groups : ensembles of those tasks that no earlier plan holds
    parameters : parameters of the tasks in ``groups``, by id
    about : About
    number : int
        Of the file that the plan is in.
    """

    model_config = ConfigDict(frozen=True)

    format: Literal["phasekit plan 1"] = "phasekit plan 1"
    sweep: str
    preset: str | None
    tasks: tuple[str, ...]
    groups: tuple[Group, ...]
    parameters: dict[str, dict[str, Any]]
    about: About
    number: int = Field(default=0, exclude=True)

    @model_validator(mode="after")
    def _complete(self) -> Plan:
        for task in (task for group in self.groups for task in group.tasks):
            if task not in self.parameters:
                raise ValueError(f"the parameters of task {task} are missing")
            if hash_of(state_point(self.parameters[task])) != task:
                raise ValueError(f"the parameters of task {task} are those of another")
        return self

    @property
    def name(self) -> str:
        """The sweep and its preset, NAME:PRESET."""
        return f"{self.sweep}:{self.preset}"


def read_plans(store: Store) -> list[Plan]:
    """Return all plans of a store, oldest first.

    Raises
    ------
    InputError
        For a plan that was damaged, or is something else.
    """
    plans = []
    for path in _files(store):
        try:
            plans.append(_read(path))
        except BrokenRecord as broken:
            why = f"{broken}; `phasekit repair` sets it aside, and the next run plans anew what isn't finished"
            raise InputError("plan", path.name, why) from None
    return plans


def damaged_plans(store: Store) -> dict[str, str]:
    """Return the places of plans that aren't what was written, and the reasons."""
    found = {}
    for path in _files(store):
        try:
            _read(path)
        except BrokenRecord as broken:
            found[f"{path.parent.name}/{path.name}"] = str(broken)
    return found


def latest_plans(store: Store, sweep: str | None = None) -> list[Plan]:
    """Return the last plans of one sweep, NAME or NAME:PRESET, or of all sweeps of a store.

    Raises
    ------
    InputError
        If the store doesn't know the sweep, and as :func:`read_plans`.
    """
    latest = {plan.name: plan for plan in read_plans(store)}
    chosen = [plan for name, plan in latest.items() if sweep in (None, name, plan.sweep)]
    if sweep is not None and not chosen:
        raise InputError("sweep", sweep, f"not in this store; it has {', '.join(latest) or 'none'}")
    return chosen


def _files(store: Store) -> list[Path]:
    return sorted(filter(lambda path: _NAME.fullmatch(path.name), store.plans.iterdir()), key=_number)


def _number(path: Path) -> int:
    return int(path.stem)


def _read(path: Path) -> Plan:
    try:
        return Plan(**{**read_record(path), "number": _number(path)})
    except (BrokenRecord, FileNotFoundError) as error:
        raise BrokenRecord(f"is damaged ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BrokenRecord(f"is damaged ({f'{where}: ' if where else ''}{first['msg']})") from None


def add_plan(store: Store, plan: Plan, known: Sequence[Plan]) -> bool:
    """Write a plan, unless another runner has written one since ``known`` was read; return whether it was written.

    A lock keeps two runners from planning the same tasks at once; where a file system knows no locks, they may.
    """
    number = 1 + max((one.number for one in known), default=-1)
    with claim(store.claims / ".plan") as mine:
        if not mine or any(_number(path) >= number for path in _files(store)):
            return False
        with atomic(store.plans / f"{number:04d}.json") as temporary:
            temporary.write_text(plan.model_dump_json())
        return True


def chunks(tasks: Sequence[str], size: int, seconds: float = 0.0, threads: int | None = None) -> list[Group]:
    """Cut tasks into groups of nearly equal size, none above ``size``; a task takes ``seconds`` on ``threads``."""
    count = -(-len(tasks) // size)
    edges = [round(k * len(tasks) / count) for k in range(count + 1)] if count else [0]
    groups = [tuple(tasks[a:b]) for a, b in pairwise(edges)]
    return [Group(tasks=members, seconds=seconds * len(members), threads=threads) for members in groups]
