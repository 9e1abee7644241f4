"""Files of minimal pairs, and what is right, wrong or a tie."""

import json

import numpy as np
import pytest

from phasekit import InputError
from phasekit.language.likelihood import log_likelihood, scorers
from phasekit.language.pairs import Paradigm, read_paradigms, score_pairs
from tests.language.conftest import PAIRS


def test_zorro_s_lines_and_blimp_s_objects(zorro, tmp_path):
    first, second = read_paradigms(zorro)
    assert (first.name, second.name) == ("agreement", "questions")
    assert tuple(zip(first.bad, first.good, strict=True)) == PAIRS
    assert len(second) == 3
    entries = [{"sentence_good": good, "sentence_bad": bad, "UID": "any"} for bad, good in PAIRS]
    (tmp_path / "agreement.jsonl").write_text("\n".join(map(json.dumps, entries)), "utf-8")
    assert read_paradigms(tmp_path) == (first,)
    assert read_paradigms(tmp_path / "agreement.jsonl", most=2)[0].good == first.good[:2]
    assert [found.name for found in read_paradigms(zorro, ["questions"])] == ["questions"]


def test_right_wrong_and_ties():
    paradigm = Paradigm("lengths", ("aaa", "b", "cc"), ("a", "bbb", "dd"))
    np.testing.assert_array_equal(score_pairs(lambda s: np.array([len(x) for x in s], float), paradigm), [1, 0, 0.5])


@pytest.mark.parametrize("family", ["nemotron", "roberta"])
def test_pairs_one_sentence_at_a_time(build, tokenizer, zorro, family):
    model = build(family)
    for scorer in scorers(model, tokenizer).values():
        (paradigm, _) = read_paradigms(zorro)
        alone = [float(scorer([good])[0] > scorer([bad])[0]) for bad, good in PAIRS]
        np.testing.assert_array_equal(score_pairs(scorer, paradigm), alone)
        assert 0 < np.mean(alone) < 1  # both outcomes are tested
        swapped = Paradigm("swapped", paradigm.bad, paradigm.good)
        np.testing.assert_array_equal(score_pairs(scorer, swapped), 1 - np.array(alone))


def test_the_same_sentence_ties_with_itself(build, tokenizer):
    model = build("nemotron").float()
    paradigm = Paradigm("same", tuple(good for _, good in PAIRS), tuple(good for _, good in PAIRS))
    found = score_pairs(lambda sentences: log_likelihood(model, tokenizer, sentences, batch=5), paradigm)
    np.testing.assert_array_equal(found, np.full(len(PAIRS), 0.5))


def test_mistakes_are_one_line(zorro, tmp_path):
    contents = {
        "odd": b"one .\ntwo .\nthree .\n",
        "empty": b"",
        "gap": b"one .\n\n",
        "latin": "\xe9t\xe9 .\n".encode("latin-1"),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.txt").write_bytes(content)
    (tmp_path / "keys.jsonl").write_text('{"sentence_good": "a"}\n', "utf-8")
    (tmp_path / "list.jsonl").write_text("[1]\n", "utf-8")
    (tmp_path / "none").mkdir()
    for make, words in (
        (lambda: read_paradigms(tmp_path / "odd.txt"), "has 3 lines; two make a pair"),
        (lambda: read_paradigms(tmp_path / "empty.txt"), "is empty"),
        (lambda: read_paradigms(tmp_path / "gap.txt"), "line 2 is empty"),
        (lambda: read_paradigms(tmp_path / "latin.txt"), "isn't UTF-8 (byte 0)"),
        (lambda: read_paradigms(tmp_path / "keys.jsonl"), "line 1 must have sentence_good and sentence_bad"),
        (lambda: read_paradigms(tmp_path / "list.jsonl"), "line 1 must have sentence_good and sentence_bad"),
        (lambda: read_paradigms(tmp_path / "none"), "has no files that end in .txt or .jsonl"),
        (lambda: read_paradigms(tmp_path / "nowhere"), "no such file or folder"),
        (lambda: read_paradigms(zorro, ["binding"]), "has no file of that name; it has agreement, questions"),
        (lambda: read_paradigms(zorro, most=0), "pairs = 0"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)
