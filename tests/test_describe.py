"""What every description keeps to: one-line errors, checked copies, plain JSON that gives it back, a registry."""

import json
import pickle
import sys
from types import ModuleType
from typing import ClassVar, Literal

import numpy as np
import pytest
from pydantic import Field, model_validator

from phasekit.describe import Description, Registry
from phasekit.encodings import ENCODINGS
from phasekit.errors import InputError
from phasekit.masks import MASKS
from phasekit.model import Induction, Model
from phasekit.runs.procedures import get_procedure
from phasekit.runs.procedures.base import Procedure
from phasekit.samplers import HMC, SGLD, Langevin
from phasekit.samplers.schedule import Decay
from phasekit.scores import Score, get_score, names
from phasekit.tasks.in_context import TASKS, Shift, build_task
from phasekit.tokens import TOKEN_LAWS
from phasekit.transformers import Curriculum, InContext, Training

TASKS_KNOWN = [*map(build_task, TASKS.names()), Shift(deviant=3.0, place=1)]
METHODS = [HMC(step=0.1), SGLD(step=1e-3), Langevin(step=0.1), SGLD(step=Decay(0.1, 0.5, 10))]
SETTINGS = {"langevin": {"step": 0.1}, "sgld": {"step": 0.1}, "hysteresis": {"step": 0.1}, "umbrella": {"step": 0.1}}
ICL = InContext(task="every", architecture="one-layer", score="ssa")
TRAINING = [ICL, ICL.architecture, Curriculum(first=3), Training()]
PROCEDURES = [get_procedure({"name": name, **SETTINGS.get(name, {})}) for name in Procedure.registry.names()]
MODELS = [Model(V=8, L=16), Model(V=8, L=16, P=100, score="ssa", key_dim=4)]
MODELS += [Model(V=16, L=8, task=task) for task in ("induction", Induction(first="ssa"))]
WORDS = ["relative", "causal", "window:8", "zipf:1.5", "given:0.5,0.25,0.25", "uniform:replacement=false"]
SETTINGS_OF_MODELS = [
    kind.given(word) for word in WORDS for kind in (ENCODINGS, MASKS, TOKEN_LAWS) if word.split(":")[0] in kind.names()
]
DESCRIBED = [
    *map(get_score, names()),
    *MODELS,
    *(model.task for model in MODELS[1:]),
    *TASKS_KNOWN,
    *TRAINING,
    *SETTINGS_OF_MODELS,
]
DESCRIBED += [Decay(0.1, 0.5, 10), *METHODS, *PROCEDURES]


@pytest.fixture(params=DESCRIBED, ids=lambda thing: f"{type(thing).__name__}")
def thing(request):
    return request.param


def read(thing, described):
    """Build the thing again, as its family does."""
    if isinstance(thing, Procedure):
        return get_procedure(described)
    return type(thing)(**described) if thing.registry is None else thing.registry.build(described)


def test_a_description_is_plain_json_that_gives_it_back(thing):
    described = json.loads(json.dumps(thing.describe(), allow_nan=False))
    again = read(thing, described)
    assert again == thing
    assert hash(again) == hash(thing)
    assert again.describe() == thing.describe()
    assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_copy_is_checked(thing):
    assert thing.at() == thing
    with pytest.raises(InputError, match="sharp_ness = 3: unknown; fields are "):
        thing.at(sharp_ness=3)


def test_numbers_refuse_what_is_no_number_in_one_line(thing):
    for name, field in type(thing).model_fields.items():
        if field.annotation in (int, float):
            for wrong in (True, b"8", 1j, float("nan"), [1.0, 2.0], "many", np.ma.masked, None):
                with pytest.raises(InputError) as refused:
                    thing.at(**{name: wrong})
                line = str(refused.value)
                assert f"{name} = " in line
                assert "must be" in line
                assert "Input should" not in line
                assert "\n" not in line


def test_refusals_are_in_our_words(thing):
    told = []
    for name in type(thing).model_fields:
        for wrong in ([], {}, "", None, [None], ["x"], {"a": 1}, object()):
            try:
                thing.at(**{name: wrong})
            except InputError as refused:
                told.append(refused.allowed)
    foreign = ("tuple", "Input should", "unable to parse", "validation", "items", "instance of")
    assert not [line for line in told if any(word in line for word in foreign)]


def test_numpy_s_numbers_become_python_s(thing):
    for name, field in type(thing).model_fields.items():
        if field.annotation in (int, float):
            kind = np.int64 if field.annotation is int else np.float64
            assert type(getattr(thing.at(**{name: kind(getattr(thing, name))}), name)) is field.annotation


def test_fields_that_came_later_are_left_out_at_their_default(thing):
    for name in thing.added:
        default = type(thing).model_fields[name].default
        assert name not in thing.at(**{name: default}).describe()


class Shape(Description):
    name: ClassVar[str]
    word: Literal["big", "small"] = "big"
    size: float = Field(1.0, gt=0, le=9)
    count: int | None = Field(None, ge=1)
    filled: bool = False
    added: ClassVar[tuple[str, ...]] = ("filled",)

    @model_validator(mode="after")
    def _big_enough(self):
        if self.word == "small" and self.size > 5:
            raise InputError("size", self.size, "must be at most 5 for small ones")
        return self


SHAPES: Registry[Shape] = Registry("shape", Shape)


@SHAPES.register
class Square(Shape):
    name: ClassVar[str] = "square"


class Round(Shape):
    name: ClassVar[str] = "round"


def test_fields_say_what_they_may_be():
    for fields, line in [
        ({"word": "huge"}, "word = 'huge': must be one of big, small"),
        ({"size": 0}, "size = 0: must be a finite number above 0 and at most 9"),
        ({"size": "x"}, "size = 'x': must be a finite number above 0 and at most 9"),
        ({"count": 0}, "count = 0: must be a whole number of at least 1, or None"),
        ({"count": 1.5}, "count = 1.5: must be a whole number of at least 1, or None"),
        ({"filled": "perhaps"}, "filled = 'perhaps': must be true or false"),
        ({"word": "small", "size": 6}, "size = 6.0: must be at most 5 for small ones"),
        ({"colour": 1}, "colour = 1: unknown; fields are word, size, count, filled"),
    ]:
        with pytest.raises(InputError) as refused:
            Square(**fields)
        assert str(refused.value) == line


def test_a_description_begins_with_its_name_and_leaves_later_fields_out():
    assert Square().describe() == {"name": "square", "word": "big", "size": 1.0, "count": None}
    assert Square(filled=True).describe()["filled"] is True


def test_a_registry_finds_classes_by_name():
    assert SHAPES.names() == ["square"]
    assert SHAPES.build("square", size=2) == Square(size=2)
    assert SHAPES.build({"name": "square", "size": 2}) == Square(size=2)
    assert SHAPES.build(Square(), size=2) == Square(size=2)
    for wrong in ("circle", None, 3, "json:dumps", "json:JSONDecoder", ":", "a:", ":a", {"size": 2}):
        with pytest.raises(InputError, match="shape = "):
            SHAPES.build(wrong)


def test_a_name_is_one_word_and_belongs_to_one_class():
    with pytest.raises(InputError, match=r"square.*registered already"):
        SHAPES.register(type("Other", (Shape,), {"name": "square"}))
    for wrong in ("", "a b", "a:b", None):
        with pytest.raises(InputError, match="shape name"):
            SHAPES.register(type("Other", (Shape,), {"name": wrong, "__annotations__": {"name": ClassVar[str]}}))


def test_a_class_of_your_own_is_found_by_its_module_but_never_imported_from_data(monkeypatch, tmp_path):
    own = ModuleType("own_shapes")
    own.Round = Round
    monkeypatch.setattr(Round, "__module__", "own_shapes")
    with pytest.raises(InputError, match="import own_shapes first"):
        SHAPES.build({"name": "own_shapes:Round"})
    monkeypatch.setitem(sys.modules, "own_shapes", own)
    described = Round(size=3).describe()
    assert described["name"] == "own_shapes:Round"
    assert SHAPES.build(described) == Round(size=3)

    (tmp_path / "marked_shapes.py").write_text("raise RuntimeError('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="isn't loaded"):
        SHAPES.find("marked_shapes:Shape")
    with pytest.raises(InputError, match=r"can't be imported \(RuntimeError: was run\)"):
        SHAPES.import_named("marked_shapes:Shape")
    with pytest.raises(InputError, match="can't be imported"):
        SHAPES.import_named("no_such_module:Shape")


def test_scores_have_the_words_of_their_fields():
    with pytest.raises(InputError, match="score ssa: n = 0: must be a finite number of at least 1"):
        get_score("ssa", n=0)
    with pytest.raises(InputError, match=r"score mixture: shares = \(0.5, 0.6\): must not be negative and must sum"):
        get_score("mixture", shares="0.5,0.6")
    assert isinstance(get_score("phasekit.scores.ssa:SSA"), Score)
