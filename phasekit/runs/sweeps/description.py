"""Sweep descriptions: TOML files in ``sims/`` that say which tasks to run.

::

    about = "P* of softmax attention against L"
    seeds = 8                            # data sets for each model: 0 … 7, or a list
    measure = "P_star"                   # what `phasekit measure` locates (optional): P1, P2, P_star, or a list
    along = "L"                          # the sizes that an exponent is fitted over (optional)
    archive = ["A"]                      # arrays that go into an archive (optional)

    [model]                              # what all tasks share
    score = "softmax"                    # or a table: {name = "ssa", n = 3.0}
    V = 8

    [axes]                               # every combination of these; axes.py says how to write them
    L = [16, 32, 64, 128, 256]
    P = "0.8..1.25 in 9 × P_star"

    [procedure]
    name = "adam"                        # its settings follow
    steps = 1000

    [preset.quick]                       # what the preset changes; same keys as above
    seeds = 3

A sweep that isn't one product of axes has parts: each changes the description as a preset does, may have presets of its
own, and adds its tasks to the sweep's::

    [[part]]
    model.score = "linear"
    axes.P = "0.5, 1, 2 × P1"

    [part.preset.quick]
    axes.P = "1 × P1"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from phasekit.describe import Description, types_of
from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures import Procedure, import_procedure
from phasekit.runs.sweeps.axes import AxisValues, parse_values
from phasekit.scores.registry import SCORES

PRESETS = ("tiny", "quick", "medium", "full")
#: A sweep has no more tasks; a larger one would take minutes to say anything at all.
MOST_TASKS = 1_000_000
Threshold = Literal["P1", "P2", "P_star"]


class SweepErrors(InputError):
    """All mistakes of a sweep description, one line each."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        ValueError.__init__(self, "; ".join(mistakes))

    def __reduce__(self) -> Any:
        return type(self), (self.mistakes,)


class _Written(BaseModel):
    """The keys that a description may have, and their rough types."""

    model_config = ConfigDict(extra="forbid", strict=True)

    about: str = ""
    seeds: int | list[int] = Field(4)
    measure: Threshold | list[Threshold] | None = None
    along: Literal["V", "L"] | None = None
    group: int | None = Field(None, ge=1)
    archive: list[str] = Field(default_factory=list)
    model: dict[str, Any] = Field(default_factory=dict)
    axes: dict[str, Any] = Field(default_factory=dict)
    procedure: dict[str, Any]
    preset: dict[str, dict[str, Any]] = Field(default_factory=dict)
    part: list[dict[str, Any]] = Field(default_factory=list)


@dataclass(frozen=True)
class Sweep:
    """A checked sweep description.

    Attributes
    ----------
    name : str
        The file's name without suffix.
    source : str
        The file, for messages.
    about : str
    preset : str or None
    model : dict
        Fields that all models share.
    axes : name to :class:`AxisValues`, or to a list of words or tables (score, inputs)
    seeds : tuple of int
    procedure : Procedure
    measure : tuple of "P1", "P2", "P_star"
        The thresholds that are to be located.
    along : "V", "L" or None
        The axis that exponents are fitted along.
    group : int or None
        Tasks in an ensemble; measured if None.
    archive : tuple of str
        The arrays of its tasks that go into an archive; ``*`` stands for any letters.
    parts : tuple of Sweep
        If there are any, the sweep's tasks are theirs.
    """

    name: str
    source: str
    about: str
    preset: str | None
    model: dict[str, Any]
    axes: dict[str, AxisValues | tuple[Any, ...]]
    seeds: tuple[int, ...]
    procedure: Procedure
    measure: tuple[str, ...] = ()
    along: str | None = None
    group: int | None = None
    archive: tuple[str, ...] = ()
    parts: tuple[Sweep, ...] = ()


def load_sweep(path: str | Path, preset: str | None = None) -> Sweep:
    """Read and check a sweep description.

    Raises
    ------
    SweepErrors
        With one line for every mistake: the file, the line or key, the value, and what is allowed.
    InputError
        If the file can't be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("sweep", str(path), f"can't be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SweepErrors([f"{path}: not TOML: {error}"]) from None
    return read_sweep(written, name=Path(path).stem, source=str(path), preset=preset)


def read_sweep(written: Mapping[str, Any], *, name: str, source: str, preset: str | None = None) -> Sweep:
    """Check a description that was read from TOML; see :func:`load_sweep`."""
    mistakes: list[str] = []
    written = _renamed(written, source)
    raw = _rough(written, source)
    for known in raw.preset:
        if known not in PRESETS:
            mistakes.append(str(InputError(f"{source}: preset", known, f"must be one of {', '.join(PRESETS)}")))
    if preset is not None:
        if preset not in PRESETS:
            raise InputError("preset", preset, f"must be one of {', '.join(PRESETS)}")
        raw = _rough(_merge(written, raw.preset.get(preset, {})), source)

    def checked(function: Any, key: str, *arguments: Any) -> Any:
        """Call a function; note an InputError under its key, and return None then."""
        try:
            return function(*arguments)
        except InputError as error:
            where = ".".join(filter(None, (key, error.field.removeprefix(key).removeprefix("."))))
            mistakes.append(str(InputError(f"{source}: {where}", error.value, error.allowed)))
            return None

    if raw.part:
        return _of_parts(raw, name, source, preset)
    for key, table in (("model", raw.model), ("axes", raw.axes)):
        checked(_import_scores, f"{key}.score", table.get("score"))
    procedure = checked(import_procedure, "procedure", raw.procedure)
    kind = Model if procedure is None else procedure.takes
    axes = {axis: checked(_axis, f"axes.{axis}", kind, axis, values) for axis, values in raw.axes.items()}
    fixed = {key: checked(_fixed, f"model.{key}", kind, key, value) for key, value in raw.model.items()}
    seeds = checked(_seeds, "seeds", raw.seeds)
    both = sorted(set(raw.model) & set(raw.axes))
    mistakes += [
        str(InputError(f"{source}: model.{key}", raw.model[key], f"is an axis too (axes.{key}); leave one out"))
        for key in both
    ]
    measure = tuple(raw.measure) if isinstance(raw.measure, list) else (raw.measure,) if raw.measure else ()
    if raw.along is not None and not measure:
        mistakes.append(str(InputError(f"{source}: along", raw.along, "goes with measure, which is missing")))
    if raw.along is not None and raw.along not in raw.axes:
        mistakes.append(str(InputError(f"{source}: along", raw.along, f"must be an axis: {', '.join(raw.axes)}")))
    model = {key: fixed.get(key, value) for key, value in raw.model.items()}
    if isinstance(model.get("P"), AxisValues) and not both:  # a multiple of a threshold is an axis of one value
        axes["P"] = model.pop("P")
    if None not in (*axes.values(), *fixed.values()) and not both:
        checked(_first_model, "model", kind, model, axes)
    if mistakes:
        raise SweepErrors(mistakes)
    kept = tuple(raw.archive)
    return Sweep(name, source, raw.about, preset, model, axes, seeds, procedure, measure, raw.along, raw.group, kept)


def _of_parts(raw: _Written, name: str, source: str, preset: str | None) -> Sweep:
    """Return the sweep whose tasks are those of its parts; what it says itself are defaults for them."""
    shared = raw.model_dump(exclude={"part", "preset"}, exclude_unset=True)
    parts: list[Sweep] = []
    mistakes: list[str] = []
    for number, part in enumerate(raw.part, 1):
        try:
            merged = _merge(shared, _renamed(part, f"{source}: part {number}"))
            parts.append(read_sweep(merged, name=name, source=f"{source}: part {number}", preset=preset))
        except SweepErrors as error:
            mistakes += error.mistakes
    if mistakes:
        raise SweepErrors(mistakes)
    return replace(parts[0], source=source, about=raw.about, model=raw.model, axes={}, parts=tuple(parts))


def _renamed(written: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the description with ``procedure`` for ``estimator``, as files called it before; in presets too."""
    if {"procedure", "estimator"} <= written.keys():
        raise SweepErrors([f"{source}: estimator: is an old name of procedure, which is given too; leave one out"])
    renamed = {"procedure" if key == "estimator" else key: value for key, value in written.items()}
    presets = renamed.get("preset")
    if isinstance(presets, Mapping):
        renamed["preset"] = {
            name: _renamed(changes, f"{source}: preset.{name}") if isinstance(changes, Mapping) else changes
            for name, changes in presets.items()
        }
    return renamed


def _rough(written: Mapping[str, Any], source: str) -> _Written:
    try:
        return _Written(**written)
    except ValidationError as error:
        known = ", ".join(_Written.model_fields)
        lines = {}
        for found in error.errors():
            keys = [str(part) for part in found["loc"] if not _is_type(part)]
            unknown, missing = found["type"] == "extra_forbidden", found["type"] == "missing"
            rule = f"unknown; keys are {known}" if unknown else "missing" if missing else _in_words(keys[0], found)
            key = ".".join(keys[:2])
            lines[key] = str(InputError(f"{source}: {key}", None if missing else found["input"], rule))
        raise SweepErrors(list(lines.values())) from None


def _is_type(part: Any) -> bool:
    """Whether pydantic names one of several allowed types here, and no key."""
    return part == "int" or str(part).startswith(("list[", "literal["))


def _in_words(key: str, found: Any) -> str:
    if key == "seeds":
        return "must be a number of seeds, or a list of seeds"
    if key == "measure":
        return f"must be one of {', '.join(get_args(Threshold))}, or a list of them"
    return str(found["msg"]).replace("Input should be", "must be")


def _merge(written: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description with a preset's changes: tables are merged, all else is replaced.

    A preset that names another procedure replaces it with all its settings.
    """
    merged = {**written, **changes}
    for key in ("model", "axes", "procedure"):
        before, after = written.get(key), changes.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            other = key == "procedure" and after.get("name", before.get("name")) != before.get("name")
            merged[key] = dict(after) if other else {**before, **after}
    return merged


def _import_scores(written: Any) -> None:
    """Import the modules of a user's own scores, ``module:Class``, wherever they stand in a word, list or table."""
    if isinstance(written, str) and ":" in written:
        SCORES.import_named(written)
    elif isinstance(written, list | Mapping):
        for entry in written.values() if isinstance(written, Mapping) else written:
            _import_scores(entry)


def _axis(kind: type[Description], name: str, written: Any) -> AxisValues | tuple[Any, ...]:
    """Read an axis over a field of a kind of model: numbers, or words and tables."""
    if name not in kind.model_fields:
        raise InputError("", name, f"an axis must be one of {', '.join(kind.model_fields)}")
    if not _is_number(kind, name):
        values = tuple(written) if isinstance(written, list) else (written,)
        if not values:
            raise InputError("", written, "must hold at least one value")
        return values
    parsed = parse_values("", written)
    if parsed.thresholds and not (name == "P" and issubclass(kind, Model)):
        raise InputError("", written, "only P can be multiples of a threshold, and only of heads")
    return parsed


def _fixed(kind: type[Description], name: str, written: Any) -> Any:
    """Read a number that all models share; it is written like an axis of one value."""
    if not isinstance(written, str | list) or not _is_number(kind, name):
        return written
    parsed = _axis(kind, name, written)
    assert isinstance(parsed, AxisValues)
    values = parsed.resolve(lambda _: 1.0)
    if len(values) > 1:
        raise InputError("", written, f"must be one value; several belong under [axes], {name} = …")
    return parsed if parsed.thresholds else values[0]


def _is_number(kind: type[Description], name: str) -> bool:
    return name in kind.model_fields and types_of(kind.model_fields[name]) <= {int, float, NoneType}


def whole_numbers(kind: type[Description]) -> set[str]:
    """Return the fields of a kind of model that hold whole numbers."""
    return {name for name in kind.model_fields if types_of(kind.model_fields[name]) <= {int, NoneType}}


def _seeds(written: int | list[int]) -> tuple[int, ...]:
    if isinstance(written, int):
        if not 1 <= written <= MOST_TASKS:
            raise InputError("", written, f"must be at least 1 and at most {MOST_TASKS}, or a list of seeds")
        return tuple(range(written))
    if not written or min(written) < 0 or len(set(written)) != len(written):
        raise InputError("", written, "must hold at least one seed, each of at least 0, and none twice")
    return tuple(written)


def _first_model(kind: type[Description], fields: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
    """Check the shared fields with the first value of every axis."""
    for key in fields:
        if key not in kind.model_fields:
            raise InputError(key, fields[key], f"unknown; fields are {', '.join(kind.model_fields)}")
    first = {name: values.first if isinstance(values, AxisValues) else values[0] for name, values in axes.items()}
    if isinstance(axes.get("P"), AxisValues) and axes["P"].thresholds:
        first["P"] = 1.0
    elif "P" in kind.model_fields and "P" not in {**fields, **first}:
        raise InputError("P", None, "missing: give it here or as an axis")
    for name in first.keys() & (whole_numbers(kind) | {"P"}):
        first[name] = round(first[name]) or 1
    kind(**fields, **first)
