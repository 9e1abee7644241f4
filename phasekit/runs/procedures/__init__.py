"""Procedures by name. A name with a colon, ``package.module:Class``, is imported: anybody can bring their own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from phasekit.errors import InputError
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Stopped, Workplace

_ROOMS = {
    "adam": "phasekit.runs.procedures.adam:AdamNetworks",
    "hmc": "phasekit.runs.procedures.sampled:HMCNetworks",
    "langevin": "phasekit.runs.procedures.sampled:LangevinNetworks",
    "sgld": "phasekit.runs.procedures.sampled:SGLDNetworks",
    "theory": "phasekit.runs.procedures.theory:TheoryMinima",
}


def get_procedure(description: Mapping[str, Any]) -> Procedure:
    """Return the procedure that a table ``{name = …, settings…}`` describes.

    Raises
    ------
    InputError
        For an unknown name or setting, or a description that another version of the procedure wrote.
    """
    settings = dict(description)
    name = settings.pop("name", None)
    kind = _import(name)
    version = settings.pop("version", kind.version)
    if version != kind.version:
        raise InputError("procedure.version", version, f"this version of phasekit has version {kind.version} of {name}")
    return kind(**settings)


def _import(name: Any) -> type[Procedure]:
    room = _ROOMS.get(name, name) if isinstance(name, str) else ""
    module, colon, attribute = room.partition(":")
    if not colon:
        raise InputError("name", name, f"must be one of {', '.join(_ROOMS)}, or MODULE:CLASS")
    try:
        kind = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError("name", name, f"can't be imported ({error})") from None
    if not (isinstance(kind, type) and issubclass(kind, Procedure)):
        raise InputError("name", name, "must be a class derived from phasekit.runs.procedures.Procedure")
    return kind


__all__ = ["Case", "Outcome", "Procedure", "Stopped", "Workplace", "get_procedure"]
