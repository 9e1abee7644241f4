"""One task of a sweep: networks (or theory) for one model and one data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict, cast

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Procedure, get_procedure
from phasekit.runs.sweeps.canonical import canonical, hash_of, state_point

#: Part of every id: raise it when the same parameters no longer mean the same task. Procedures have their own.
SCHEMA = 1
#: What procedures were called when the first stores were written; another word would change every id.
_PROCEDURE = "estimator"


class Parameters(TypedDict):
    """A task as plain JSON values in canonical form: what its id is the hash of.

    Attributes
    ----------
    schema : :data:`SCHEMA`
    model : what ``describe`` of the model returned
    data_seed : int
    estimator : name, version and settings of the procedure
    """

    schema: int
    model: dict[str, Any]
    data_seed: int
    estimator: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a task depends on, and nothing else: its id is the hash of it.

    Attributes
    ----------
    model : Model, with P
    data_seed : int
        Names the data set; see :func:`phasekit.heads.draw_dataset`.
    procedure : Procedure
        What is done, with all its settings.
    """

    model: Model
    data_seed: int
    procedure: Procedure

    @cached_property
    def parameters(self) -> Parameters:
        """Return the parameters in canonical form; :meth:`from_parameters` takes them back."""
        described = {
            "schema": SCHEMA,
            "model": self.model.describe(),
            "data_seed": self.data_seed,
            _PROCEDURE: self.procedure.describe(),
        }
        return canonical(described)  # type: ignore[no-any-return]

    @cached_property
    def state_point(self) -> bytes:
        """Return the parameters as signac hashes and stores them."""
        return state_point(self.parameters)

    @cached_property
    def id(self) -> str:
        """Return the id: the hash of the state point, and the name of the task's directory in a store."""
        return hash_of(self.state_point)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Task:
        """Return the task with these parameters.

        Raises
        ------
        InputError
            For parameters of another schema, or that describe no task.
        """
        parameters = check_parameters(parameters)
        return cls(Model(**parameters["model"]), parameters["data_seed"], get_procedure(parameters["estimator"]))


def check_parameters(found: Mapping[str, Any]) -> Parameters:
    """Return what was read as a task's parameters, if it has their form.

    Raises
    ------
    InputError
        With field "schema" if another version of phasekit wrote them.
    """
    if found.get("schema") != SCHEMA:
        raise InputError("schema", found.get("schema"), f"this version of phasekit reads tasks of schema {SCHEMA}")
    for name, kind in (("model", dict), ("data_seed", int), (_PROCEDURE, dict)):
        if not isinstance(found.get(name), kind):
            raise InputError(name, found.get(name), "is not what a task has there")
    if not isinstance(found[_PROCEDURE].get("name"), str):
        raise InputError(_PROCEDURE, found[_PROCEDURE], "has no name")
    return cast(Parameters, found)
