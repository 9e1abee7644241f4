"""What was measured survives a file, and two evaluations can be joined."""

import numpy as np
import pytest

from phasekit import InputError
from phasekit.language.evaluation import Evaluation, examine
from phasekit.language.likelihood import scorers
from phasekit.language.pairs import read_paradigms, score_pairs
from phasekit.language.perplexity import perplexity
from tests.language.conftest import SENTENCES


@pytest.mark.parametrize("family", ["nemotron", "roberta"])
def test_what_is_examined_is_what_the_parts_say(build, tokenizer, zorro, tmp_path, family):
    model, paradigms = build(family), read_paradigms(zorro)
    lengths = (8, 16) if family == "nemotron" else ()
    found = examine(model, tokenizer, paradigms=paradigms, texts={"a text": SENTENCES}, lengths=lengths)
    assert set(found.pairs) == set(scorers(model, tokenizer))
    for score, scorer in scorers(model, tokenizer).items():
        for paradigm in paradigms:
            np.testing.assert_array_equal(found.pairs[score][paradigm.name], score_pairs(scorer, paradigm))
        assert found.ties(score) == 0
    assert list(found.texts) == (["a text 8", "a text 16"] if lengths else ["a text"])
    for length, text in zip(lengths or (None,), found.texts.values(), strict=True):
        assert text.value == pytest.approx(perplexity(model, tokenizer, SENTENCES, length=length).value)
    found.save(tmp_path / "evaluation.npz")
    again = Evaluation.read(tmp_path / "evaluation.npz")
    assert again.arrays().keys() == found.arrays().keys()
    for name, values in found.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], values)
    for name, text in found.texts.items():
        assert again.texts[name].value == pytest.approx(text.value, rel=1e-6)
        assert again.texts[name].unit == text.unit


def test_ties_and_joining(tmp_path):
    one = Evaluation({"a": {"x": np.array([1, 0.5, 0]), "y": np.array([0.5])}})
    two = Evaluation({"a": {"y": np.array([1.0])}, "b": {"x": np.array([0.0])}})
    joined = one.joined(two)
    assert {score: list(found) for score, found in joined.pairs.items()} == {"a": ["x", "y"], "b": ["x"]}
    assert (one.ties("a"), joined.ties("a")) == (2, 1)
    np.testing.assert_array_equal(Evaluation.of(one.arrays()).pairs["a"]["x"], [1, 0.5, 0])
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    for name in ("broken.npz", "none.npz"):
        with pytest.raises(InputError, match="can't be read"):
            Evaluation.read(tmp_path / name)
