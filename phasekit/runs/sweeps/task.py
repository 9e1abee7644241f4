"""One task of a sweep: networks (or theory) for one model and one data set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Procedure, get_procedure
from phasekit.runs.sweeps.canonical import canonical, state_point

#: Part of every id: raise it when the same parameters no longer mean the same task. Procedures have their own.
SCHEMA = 1
#: What procedures were called when the first stores were written; another word would change every id.
_PROCEDURE = "estimator"


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
    def parameters(self) -> dict[str, Any]:
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
        return hashlib.md5(self.state_point, usedforsecurity=False).hexdigest()

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Task:
        """Return the task with these parameters.

        Raises
        ------
        InputError
            For parameters of another schema, or that describe no task.
        """
        if parameters.get("schema") != SCHEMA:
            raise InputError("schema", parameters.get("schema"), f"this version of phasekit reads tasks of {SCHEMA}")
        return cls(Model(**parameters["model"]), parameters["data_seed"], get_procedure(parameters[_PROCEDURE]))
