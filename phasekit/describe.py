"""What models, scores, samplers and procedures have in common: they are frozen, checked descriptions.

A description is a pydantic object whose fields are all that can be said about a thing. Two with equal fields are equal,
hash alike, and can be written down (:meth:`Description.describe`) and read back. A :class:`Registry` finds the classes
of one family by name. ``tests/test_describe.py`` holds every described thing to this.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import isabstract
from types import NoneType
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from phasekit.checks import bounds, in_full
from phasekit.errors import InputError


class Description(BaseModel):
    """Base of everything that describes. A subclass declares fields, and what errors and records need to know.

    Attributes
    ----------
    rules : mapping of field to str
        What a field may be, in words for the user. Without an entry the words follow from the field's type and range.
    added : tuple of str
        Fields that came later than the first stored results. :meth:`describe` leaves them out while they stand at
        their default, so that the identities of older results don't change. Their defaults may never change.
    registry : Registry, optional
        Set by the :class:`Registry` of the family; descriptions then begin with a name.

    Raises
    ------
    InputError
        One line that names the field, the value and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    rules: ClassVar[Mapping[str, str]] = {}
    added: ClassVar[tuple[str, ...]] = ()
    registry: ClassVar[Registry[Any] | None] = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self._refusal(error.errors()[0]) from None

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, given: Any, about: ValidationInfo) -> Any:
        """Take NumPy's numbers as Python's, and no truth value, bytes or masked number as a number."""
        if isinstance(given, np.generic | np.ndarray) and given.ndim == 0 and not np.ma.is_masked(given):
            given = given.item()
        types = types_of(cls.model_fields[str(about.field_name)])
        if {int, float} & types and bool not in types and isinstance(given, bool | bytes | bytearray | np.ndarray):
            raise ValueError
        return _whole(given) if isinstance(given, str) and int in types and not {float, str} & types else given

    @classmethod
    def in_errors(cls, field: str) -> str:
        """Return what errors call a field."""
        return field

    @classmethod
    def rule(cls, field: str) -> str | None:
        """Return what a field may be, in words; None where only pydantic can say it."""
        return cls.rules.get(field) or _rule(cls.model_fields[field])

    def at(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated again."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show the fields that don't stand at their defaults."""
        for name, value in super().__repr_args__():
            if name is None or value != type(self).model_fields[name].default:
                yield name, value

    def describe(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, from which the same description can be built again."""
        head = {} if self.registry is None else {"name": self.registry.name_of(type(self))}
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        left_out = {name for name in self.added if fields[name] == type(self).model_fields[name].default}
        return {**head, **{name: _told(value) for name, value in fields.items() if name not in left_out}}

    @classmethod
    def _refusal(cls, found: Any) -> InputError:
        """Return the one line about the first thing that pydantic refused."""
        cause = found.get("ctx", {}).get("error")
        if isinstance(cause, InputError):  # a field's own check, or a description inside this one, has said it
            return (
                InputError(cls.in_errors(cause.field), cause.value, cause.allowed)
                if cause.field in (cls.model_fields)
                else cause
            )
        field = str(found["loc"][0]) if found["loc"] else "fields"
        if found["type"] == "extra_forbidden":
            known = ", ".join(cls.model_fields) or "none"
            return InputError(cls.in_errors(field), found["input"], f"unknown; fields are {known}")
        rule = (cls.rule(field) if field in cls.model_fields else None) or _in_words(found)
        if found["type"] == "missing":
            return InputError(cls.in_errors(field), None, f"missing: {rule}")
        return InputError(cls.in_errors(field), found["input"], rule)


D = TypeVar("D", bound=Description)


class Registry(Generic[D]):
    """The classes of one family of descriptions, by name.

    Parameters
    ----------
    word : str
        What one of them is called in errors ("score").
    base : type
        The class that all derive from.
    elsewhere : mapping of name to "module:Class", optional
        Classes of this package that are imported when they are asked for.
    """

    def __init__(self, word: str, base: type[D], elsewhere: Mapping[str, str] | None = None) -> None:
        self.word, self.base = word, base
        self._elsewhere = dict(elsewhere or {})
        self._known: dict[str, type[D]] = {}
        base.registry = self

    def register(self, kind: type[D]) -> type[D]:
        """Make a class known by its ``name``; usable as a decorator.

        Raises
        ------
        InputError
            If it has no name, or another class has it.
        """
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or not name or set(name) & set(":,= "):
            raise InputError(f"{self.word} name", name, "must be a word without blanks and any of : , =")
        if self._known.setdefault(name, kind) is not kind:
            raise InputError(self.word, name, "is registered already")
        return kind

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({*self._known, *self._elsewhere})

    def types(self) -> dict[str, type[D]]:
        """Return all classes by name, sorted."""
        return {name: self.find(name) for name in self.names()}

    def name_of(self, kind: type[D]) -> str:
        """Return the name by which :meth:`find` gives the class: its own if registered, else ``module:Class``."""
        name = str(getattr(kind, "name", ""))
        known = self._known.get(name) is kind or self._elsewhere.get(name) == _path(kind)
        return name if known else _path(kind)

    def find(self, name: Any) -> type[D]:
        """Return the class of that name. ``module:Class`` is found where that module was imported already.

        A name may come from a file that somebody else wrote, so nothing is imported here.

        Raises
        ------
        InputError
            For an unknown name, or one of something else.
        """
        if isinstance(name, str) and name in self._known:
            return self._known[name]
        if isinstance(name, str) and name in self._elsewhere:
            return self.import_named(self._elsewhere[name])
        module, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
        if not colon:
            raise InputError(self.word, name, f"unknown; choose from {', '.join(self.names())}, or module:Class")
        if module not in sys.modules:
            raise InputError(self.word, name, f"its module isn't loaded; import {module} first")
        kind: Any = sys.modules[module]
        for part in attribute.split("."):
            kind = getattr(kind, part, None)
        if not (isinstance(kind, type) and issubclass(kind, self.base) and not isabstract(kind)):
            what = f"must be a class derived from {self.base.__name__}, with all its methods"
            raise InputError(self.word, name, what)
        return kind

    def import_named(self, name: Any) -> type[D]:
        """Return the class of that name, and import its module for ``module:Class``: for what the user wrote only.

        Raises
        ------
        InputError
            If it can't be imported, and as :meth:`find`.
        """
        module, colon, _ = name.partition(":") if isinstance(name, str) else ("", "", "")
        if colon and name not in self._known:
            try:
                import_module(module)
            except Exception as error:  # whatever the user's module raises
                raise InputError(self.word, name, f"can't be imported ({type(error).__name__}: {error})") from None
        return self.find(name)

    def build(self, description: Any, **fields: Any) -> D:
        """Return the thing that a name, or the mapping of :meth:`Description.describe`, describes.

        Raises
        ------
        InputError
            For an unknown name or field, or a value out of range.
        """
        if isinstance(description, self.base):
            return description.at(**fields) if fields else description
        if isinstance(description, Mapping):
            fields = {**{str(key): value for key, value in description.items()}, **fields}
            description = fields.pop("name", None)
        return self.find(description)(**fields)

    def given(self, value: Any) -> D:
        """Return what :meth:`build` builds, or :meth:`parse` reads where it is text.

        Raises
        ------
        InputError
            As they do, and for None.
        """
        if value is None:
            raise InputError(self.word, None, f"must be one of {', '.join(self.names())}")
        return self.parse(value) if isinstance(value, str) else self.build(value)

    def parse(self, text: str) -> D:
        """Read ``name``, ``name:field=value:field=value`` or ``name:value``, the value of the first field.

        Raises
        ------
        InputError
            If a field isn't written so or is given twice, and as :meth:`build`.
        """
        name, *words = split_outside(text, ":")
        kind = self.find(name)
        if len(words) == 1 and "=" not in words[0] and kind.model_fields:
            words = [f"{next(iter(kind.model_fields))}={words[0]}"]
        return kind(**fields_in(self.word, text, words))


def preset_in(what: str, presets: Mapping[str, D], given: Any, default: str) -> D:
    """Return a preset, changed if asked: ``NAME``, ``NAME:field=value``, ``{preset = NAME, field = value}``.

    Parameters
    ----------
    what : str
        For errors.
    presets : mapping of name to Description
    given : the description itself, a name or a mapping
    default : str
        The preset of a mapping that names none.

    Raises
    ------
    InputError
        For an unknown name or field, or a value out of range.
    """
    if isinstance(given, type(presets[default])):
        return given
    fields = dict(given) if isinstance(given, Mapping) else {"preset": given}
    name = fields.pop("preset", default)
    if isinstance(name, str) and ":" in name:
        name, *words = name.split(":")
        fields |= fields_in(what, name, words)
    if not isinstance(name, str) or name not in presets:
        raise InputError(what, name, f"must be one of {', '.join(presets)}")
    return presets[name].at(**fields)


def fields_in(what: str, text: str, words: Iterable[str], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return fields and values written ``field=value``, and those that are given beside them.

    Parameters
    ----------
    what, text : str
        For errors.

    Raises
    ------
    InputError
        If one isn't written so or is given twice.
    """
    beside = given or {}
    fields = dict(beside)
    for word in words:
        field, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise InputError(what, text, "must be written name or name:parameter=value:parameter=value")
        if field in fields:
            again = f", and {field} = {beside[field]} is given beside it" if field in beside else " twice"
            raise InputError(what, text, f"gives {field}{again}; leave one of them out")
        fields[field] = value
    return fields


def split_outside(text: str, marks: str) -> list[str]:
    """Split a text at each of the characters ``marks`` that stands in no brackets; strip the parts of blanks."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character in marks and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def in_line(described: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """Return a description as it is written on the command line, all numbers in full: ``ssa:n=2:b=1``.

    Lists are joined by +; described things inside have their own fields in brackets: ``softmax+ssa(n=2,b=1)``.
    """
    return ":".join([described["name"], *_fields_in_line(described, without)])


def _fields_in_line(described: Mapping[str, Any], without: Sequence[str] = ()) -> list[str]:
    fields = {name: value for name, value in described.items() if value is not None and name not in ("name", *without)}
    return [f"{name}={_value_in_line(value)}" for name, value in fields.items()]


def _value_in_line(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_value_in_line, value))
    if isinstance(value, Mapping):
        fields = ",".join(_fields_in_line(value))
        return f"{value['name']}({fields})" if fields else str(value["name"])
    return in_full(value) if isinstance(value, float | int) and not isinstance(value, bool) else str(value)


def columns_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description as columns: a described thing inside it gives its name, and its fields with a prefix."""
    columns: dict[str, Any] = {}
    for field_name, value in described.items():
        if isinstance(value, Mapping) and "name" in value:
            inner = {f"{field_name}_{name}": _cell(entry) for name, entry in value.items() if name != "name"}
            columns = {field_name: value["name"], **inner, **columns}
        else:
            columns[field_name] = _cell(value)
    return columns


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)


def _path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def types_of(field: FieldInfo) -> set[Any]:
    """Return the types that a field's annotation allows."""
    return set(get_args(field.annotation)) or {field.annotation}


def _whole(word: str) -> str:
    """Return a word for a whole number without its exponent or point: 1e3 is 1000, 8.0 is 8."""
    number = float(word) if re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", word.strip(), re.IGNORECASE) else 0.5
    return str(int(number)) if number.is_integer() and abs(number) <= 2**53 else word


def _rule(field: FieldInfo) -> str | None:
    """Say in words what a field may be, from its annotation and range."""
    types = types_of(field)
    if types <= {int, float, NoneType}:
        limits = {
            word: getattr(limit, mark)
            for limit in field.metadata
            for mark, word in (("gt", "above"), ("ge", "least"), ("lt", "below"), ("le", "most"))
            if hasattr(limit, mark)
        }
        number = "a finite number" if float in types else "a whole number"
        return f"must be {number}{bounds(**limits)}{', or None' if NoneType in types else ''}"
    if types == {bool}:
        return "must be true or false"
    if all(isinstance(word, str) for word in types):
        return f"must be one of {', '.join(get_args(field.annotation))}"
    return None


#: What pydantic refuses inside of lists and the like, by its name for it.
_KINDS = {
    **dict.fromkeys(("tuple_type", "list_type", "too_short"), "must be a list with at least one entry"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a finite number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "must be a mapping of names to values"),
    "string_type": "must be a word",
}


def _in_words(found: Any) -> str:
    """Return pydantic's words about a value, as close to ours as they come."""
    if found["type"] in _KINDS:
        return _KINDS[found["type"]]
    cause = found.get("ctx", {}).get("error")
    text = str(cause) if cause is not None else str(found["msg"])
    return text.replace("Input should be", "must be").replace("Field required", "must be given") or "isn't allowed"


def _told(value: Any) -> Any:
    """Return a field's value as plain JSON."""
    if isinstance(value, Description):
        return value.describe()
    if isinstance(value, Mapping):
        return {str(key): _told(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_told(entry) for entry in value]
    return value
