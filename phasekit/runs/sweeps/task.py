"""One task of a sweep: what a procedure computes for one model and one data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NotRequired, TypedDict, cast

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Procedure, get_procedure
from phasekit.runs.sweeps.canonical import canonical, hash_of, state_point

#: Part of every id: raise it when the same parameters no longer mean the same task. Procedures have their own.
SCHEMA = 1
#: What procedures were called when the first stores were written; another word would change every id.
_PROCEDURE = "estimator"


@dataclass(frozen=True)
class Multiple:
    """P, written in a sweep as a multiple of a threshold.

    Attributes
    ----------
    multiple : float
    threshold : "P1", "P2", "P_star" or "P_x", or that of the posterior: "posterior P1"
    threshold_value : float
        What theory said it is when the sweep was expanded; that of the map estimator unless it says posterior.
    """

    multiple: float
    threshold: str
    threshold_value: float


class Parameters(TypedDict):
    """A task as plain JSON values in canonical form: what its id is the hash of.

    Attributes
    ----------
    schema : :data:`SCHEMA`
    model : what ``describe`` of the model returned
    data_seed : int
    estimator : name, version and settings of the procedure
    kind : the class of the model as "module:Class", if it isn't a head
    """

    schema: int
    model: dict[str, Any]
    data_seed: int
    estimator: dict[str, Any]
    kind: NotRequired[str]


@dataclass(frozen=True)
class Task:
    """What a task depends on: its id is the hash of it.

    Attributes
    ----------
    model : Description
        What the task is about: a :class:`phasekit.Model` with P, or whatever else the procedure takes.
    data_seed : int
        Names the data set; see :func:`phasekit.heads.draw_dataset`.
    procedure : Procedure
        What is done, with all its settings.
    multiple : Multiple, optional
        How the sweep came to the model's P. It plays no role in the id.
    """

    model: Description
    data_seed: int
    procedure: Procedure
    multiple: Multiple | None = field(default=None, compare=False)

    @property
    def head(self) -> Model:
        """The model of a task about a head."""
        assert isinstance(self.model, Model)
        return self.model

    @cached_property
    def parameters(self) -> Parameters:
        """Return the parameters in canonical form; :meth:`from_parameters` takes them back."""
        described = {
            "schema": SCHEMA,
            "model": self.model.describe(),
            "data_seed": self.data_seed,
            _PROCEDURE: self.procedure.describe(),
            **({} if isinstance(self.model, Model) else {"kind": kind_of(type(self.model))}),
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
        checked = check_parameters(parameters)
        procedure = get_procedure(checked["estimator"])
        return cls(procedure.takes(**checked["model"]), checked["data_seed"], procedure)


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


def read_model(parameters: Parameters, procedure: type[Procedure] | None) -> Description | None:
    """Return what a task is about; None if only its procedure, which this process doesn't know, could tell.

    Raises
    ------
    InputError
        If the parameters describe nothing of that kind.
    """
    if "kind" not in parameters:
        return Model(**parameters["model"])
    if procedure is None:
        return None
    if parameters["kind"] != kind_of(procedure.takes):
        raise InputError("kind", parameters["kind"], f"{procedure.__name__} takes {kind_of(procedure.takes)}")
    return procedure.takes(**parameters["model"])


def kind_of(kind: type[Description]) -> str:
    """Return how a task says what kind of model it is about, if that isn't a head."""
    return f"{kind.__module__}:{kind.__qualname__}"
