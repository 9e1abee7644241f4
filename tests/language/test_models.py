"""Models of every shape: their parameters, their beginnings, what they may see, and the way to a folder and back."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.language.models import build, load, parameter_count, registered_as, save
from phasekit.language.shapes import SHAPES, Shape, get_shape
from phasekit.language.tokenizer import train_tokenizer, wrapped
from phasekit.scores import get_score, learned_values
from tests.language.texts import sentences

#: Tokens, parameters with softmax. The last of each family is the published size.
COUNTS = {
    "decoder-1m": (4096, 1_313_024),
    "decoder-5m": (8192, 5_642_752),
    "decoder-114m": (50_256, 114_132_480),
    "gpt2-1m": (4096, 1_334_016),
    "gpt2-5m": (8192, 5_322_240),
    "gpt2": (50_257, 124_439_808),
    "babyberta-1m": (4096, 1_347_072),
    "babyberta-5m": (8192, 6_154_496),
    "babyberta": (8192, 8_523_776),
}
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "language.md").read_text("utf-8")
FAMILIES = {
    family: Shape(family=family, layers=2, heads=4, width=32, hidden=48, longest=40)
    for family in ("nemotron", "gpt2", "babyberta")
}
VOCABULARY = 300


def tokens(rows=3, length=17, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(5, VOCABULARY, (rows, length)))


def logits(model, given):
    with torch.no_grad():
        return model.eval()(input_ids=given, attention_mask=torch.ones_like(given)).logits


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_counted_exactly(name):
    vocabulary, wanted = COUNTS[name]
    with torch.device("meta"):
        found = {
            learned: parameter_count(build(SHAPES[name], vocabulary, get_score("ssa"), learned=learned))
            for learned in ("head", "layer", "no")
        }
    shape = SHAPES[name]
    assert found["no"] == wanted
    assert f"{wanted:_}".replace("_", " ") in PAGE, "the page says so, too"
    assert found["head"] - wanted == 2 * shape.heads * shape.layers
    assert found["layer"] - wanted == 2 * shape.layers


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("score", ["ssa", "temperature", "sparsemax"])
def test_arms_begin_with_the_same_weights(family, score):
    own, other = (build(FAMILIES[family], VOCABULARY, get_score(name), seed=3) for name in ("softmax", score))
    names = {name for name, _ in own.named_parameters()}
    assert names == {name for name, _ in other.named_parameters() if "score_norm" not in name}
    others = dict(other.named_parameters())
    assert all(torch.equal(value, others[name]) for name, value in own.named_parameters())
    again = build(FAMILIES[family], VOCABULARY, get_score("softmax"), seed=4)
    assert not torch.equal(next(own.parameters()), next(again.parameters()))


def test_building_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    build(FAMILIES["gpt2"], VOCABULARY)
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize("family", ["nemotron", "gpt2"])
@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_decoders_do_not_see_the_future(family, score):
    model = build(FAMILIES[family], VOCABULARY, get_score(score), dtype=torch.float64)
    given = tokens()
    changed = given.clone()
    changed[:, 9:] = tokens(seed=1)[:, 9:]
    before, after = logits(model, given), logits(model, changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert (before[:, 9:] - after[:, 9:]).abs().amax() > 1e-3


def test_encoders_see_both_sides():
    model = build(FAMILIES["babyberta"], VOCABULARY, get_score("ssa"), dtype=torch.float64)
    changed = tokens()
    changed[:, -1] = 7
    assert (logits(model, tokens())[:, 0] - logits(model, changed)[:, 0]).abs().amax() > 1e-6


@pytest.mark.parametrize("family", ["nemotron", "gpt2"])
@pytest.mark.parametrize("score", ["softmax", "ssa"])
def test_generation_with_a_cache_is_generation_without(family, score):
    model = build(FAMILIES[family], VOCABULARY, get_score(score), dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # so that what comes next depends on what came before
    given = tokens(2, 6)
    keyword = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    mask = torch.ones_like(given)
    with_cache, without = (
        model.generate(input_ids=given, attention_mask=mask, use_cache=cached, **keyword) for cached in (True, False)
    )
    assert with_cache.tolist() == without.tolist()
    assert len(set(with_cache[0].tolist())) > 3


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("learned", ["head", "layer", "no"])
def test_a_model_comes_back_from_its_folder(tmp_path, family, learned):
    tokenizer = wrapped(train_tokenizer(sentences(200), VOCABULARY))
    model = build(FAMILIES[family], len(tokenizer), get_score("ssa:n=2.5"), learned=learned, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "score_norm" in name:
                parameter.add_(0.3)
    save(tmp_path, model, tokenizer)
    found = load(tmp_path)
    assert found.kind == FAMILIES[family].kind
    # not to the bit: weights that were read lie elsewhere in memory, and sums are done in another order
    assert (logits(found.model, tokens()) - logits(model, tokens())).abs().amax() < 1e-13
    own = learned_values(model)
    assert len(own) == (0 if learned == "no" else 2)
    for values, again in zip(own.values(), learned_values(found.model).values(), strict=True):
        assert all(torch.equal(values[name], again[name]) for name in values)
    assert found.tokenizer("the cat .")["input_ids"] == tokenizer("the cat .")["input_ids"]


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    save(tmp_path, build(FAMILIES["gpt2"], 280), wrapped(train_tokenizer(sentences(300), 320)))
    with pytest.raises(InputError, match="more tokens than the model's 280"):
        load(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="can't be read") as caught:
        load(tmp_path / "nothing")
    assert "\n" not in str(caught.value)


def test_names_of_scores_stand_for_one_score_each():
    names = {
        registered_as(get_score(score), learned)
        for score in ("ssa", "ssa:n=2", "softmax")
        for learned in ("head", "layer", "no")
    }
    assert len(names) == 9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("decoder-2m", "must be one of"),
        ("decoder-1m:heads=3", "must divide width"),
        ("gpt2-1m:key_heads=2", "has a key for each query"),
        ("decoder-5m:key_heads=3", "must divide heads"),
        ({"preset": "decoder-1m", "dropout": 0.1}, "must be 0"),
        ({"preset": "decoder-1m", "width": 8, "heads": 4}, "4 must divide width/heads"),
        ({"preset": "decoder-1m", "depth": 8}, "unknown"),
    ],
)
def test_shapes_that_can_not_be_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        get_shape(given)


def test_a_shape_is_read_as_it_was_written():
    for shape in SHAPES.values():
        assert get_shape(shape.describe()) == shape
    assert get_shape("babyberta-1m:layers=2:longest=32") == SHAPES["babyberta-1m"].at(layers=2, longest=32)
