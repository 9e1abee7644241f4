"""Procedures by name. A sweep may name one of your own as ``package.module:Class``; a store never causes an import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasekit.describe import Registry
from phasekit.errors import InputError
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Stopped, Workplace

PROCEDURES: Registry[Procedure] = Registry(
    "procedure",
    Procedure,  # type: ignore[type-abstract]  # a family's base is always abstract
    {
        "adam": "phasekit.runs.procedures.adam:AdamNetworks",
        "hmc": "phasekit.runs.procedures.sampled:HMCNetworks",
        "hysteresis": "phasekit.runs.procedures.hysteresis:Hysteresis",
        "icl": "phasekit.runs.procedures.icl:InContextLearning",
        "language": "phasekit.runs.procedures.language:LanguageTraining",
        "langevin": "phasekit.runs.procedures.sampled:LangevinNetworks",
        "sgld": "phasekit.runs.procedures.sampled:SGLDNetworks",
        "theory": "phasekit.runs.procedures.theory:TheoryMinima",
        "umbrella": "phasekit.runs.procedures.umbrella:Umbrella",
    },
)


def get_procedure(description: Mapping[str, Any]) -> Procedure:
    """Return the procedure that a table ``{name = …, settings…}`` describes, without importing anybody's module.

    Raises
    ------
    InputError
        For an unknown name or setting, or a description that another version of the procedure wrote.
    """
    settings = dict(description)
    kind = PROCEDURES.find(settings.get("name"))
    version = settings.pop("version", kind.version)
    if version != kind.version:
        name = settings["name"]
        raise InputError("procedure.version", version, f"this version of phasekit has version {kind.version} of {name}")
    return PROCEDURES.build(settings)


def import_procedure(description: Mapping[str, Any]) -> Procedure:
    """Return the procedure that a user describes in a sweep; a module named there is imported.

    Raises
    ------
    InputError
        If it can't be imported, and as :func:`get_procedure`.
    """
    PROCEDURES.import_named(description.get("name"))
    return get_procedure(description)


__all__ = ["PROCEDURES", "Case", "Outcome", "Procedure", "Stopped", "Workplace", "get_procedure", "import_procedure"]
