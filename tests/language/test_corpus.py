"""Texts as numbers: what is held out, what is kept on disk, and the tokenizer."""

import json

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.language.corpus import CACHE, Corpus, is_held_out, not_trained_on, prepare
from phasekit.language.tokenizer import SPECIAL, load_tokenizer, train_tokenizer, wrapped
from tests.language.texts import sentences, write


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def corpus(tmp_path, lines, **fields):
    return Corpus(text=str(write(tmp_path, "text.txt", lines)), **{"vocabulary": 300, **fields})


def decoded(prepared, documents):
    return [prepared.tokenizer.decode(documents[k]).strip() for k in range(len(documents))]


def test_every_document_is_on_one_side_and_comes_back_from_its_tokens(tmp_path):
    lines = [*sentences(400), "naïve cats – 日本 !"]
    found = prepare(corpus(tmp_path, lines, held_out=0.2))
    train, held_out = decoded(found, found.train), decoded(found, found.held_out)
    assert sorted(train + held_out) == sorted(lines)
    assert not set(train) & set(held_out), "sentences that are said twice are on one side"
    assert train == [line for line in lines if not is_held_out(line, 0.2)], "in their order"
    assert len(found.train.tokens) == found.train.starts[-1]


def test_the_share_held_out_is_that_asked_for():
    held_out = [is_held_out(f"document {k}", 0.05) for k in range(20_000)]
    assert abs(np.mean(held_out) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert not any(is_held_out(f"document {k}", 0.0) for k in range(100))


def test_a_larger_share_holds_out_what_a_smaller_one_does():
    for k in range(1000):
        assert is_held_out(f"document {k}", 0.3) or not is_held_out(f"document {k}", 0.1)


def test_models_are_examined_on_all_that_they_were_not_trained_on(tmp_path):
    lines, others = sentences(300), [f"a sentence of another text, number {k}" for k in range(50)]
    found = corpus(tmp_path, lines, held_out=0.2)
    held_out = [line for line in lines if is_held_out(line, 0.2)]
    assert not_trained_on(found, lines) == held_out
    assert not_trained_on(found, others) == others
    assert not_trained_on(found, []) == []
    mixed = [*others[:3], *lines[:40], *others[3:]]
    trained = set(decoded(prepare(found), prepare(found).train))
    assert not_trained_on(found, mixed) == [line for line in mixed if line not in trained]
    corpus(tmp_path, others, held_out=0.0)
    assert not_trained_on(found.at(held_out=0.0), others) == [], "a file that has changed is read again"


def test_what_is_held_out_does_not_shape_the_tokenizer(tmp_path):
    lines = sentences(300)
    (word,) = {word for word in ["zyzzyvazyzzyva"]}
    rare = [f"{word} number {k}" for k in range(200)]
    held = [line for line in rare if is_held_out(line, 0.5)]
    found = prepare(corpus(tmp_path, [*lines, *held], held_out=0.5, vocabulary=400))
    assert max(len(token) for token in found.tokenizer.get_vocab()) < len(word)
    whole = prepare(corpus(tmp_path, [*lines, *held], held_out=0.0, vocabulary=400))
    assert any(word in token for token in whole.tokenizer.get_vocab())


def test_a_corpus_is_prepared_once_and_again_when_its_text_changes(tmp_path, cache):
    first = prepare(corpus(tmp_path, sentences(50)))
    assert len(list(cache.iterdir())) == 1
    assert prepare(corpus(tmp_path, sentences(50))).digest == first.digest
    assert len(list(cache.iterdir())) == 1, "nothing is left behind, nothing done twice"
    second = prepare(corpus(tmp_path, sentences(60)))
    assert second.digest != first.digest
    assert len(second.train) + len(second.held_out) == 60


def test_the_same_text_gives_the_same_tokenizer():
    lines = sentences(500)
    assert train_tokenizer(lines, 350).to_str() == train_tokenizer(lines, 350).to_str()


def test_special_tokens_stand_where_models_expect_them(tmp_path):
    tokenizer = wrapped(train_tokenizer(sentences(50), 300))
    assert [tokenizer.convert_tokens_to_ids(word) for word in SPECIAL.values()] == [0, 1, 2, 3, 4]
    found = tokenizer("the cat .")["input_ids"]
    assert (found[0], found[-1]) == (0, 2)
    assert tokenizer.decode(found, skip_special_tokens=True).strip() == "the cat ."


def test_a_tokenizer_may_be_given(tmp_path):
    path = tmp_path / "tokenizer.json"
    train_tokenizer(sentences(500), 320).save(str(path))
    found = prepare(Corpus(text=str(write(tmp_path, "text.txt", sentences(20, seed=1))), tokenizer=str(path)))
    assert found.vocabulary == load_tokenizer(path).get_vocab_size() <= 320


def test_other_peoples_tokenizers_are_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="can't be read"):
        load_tokenizer(path)
    other = json.loads(train_tokenizer(sentences(50), 300).to_str())
    other["model"]["vocab"] = {word: k for k, word in enumerate(reversed(other["model"]["vocab"]))}
    other["added_tokens"] = []
    path.write_text(json.dumps(other))
    with pytest.raises(InputError, match="as tokens 0 to 4"):
        load_tokenizer(path)


@pytest.mark.parametrize(
    ("lines", "fields", "message"),
    [
        (["one word"], {"vocabulary": 100}, "must be at least 261"),
        ([], {}, "has no document"),
        (["one word"], {"held_out": 1 - 1e-12}, "nothing left to train on"),
    ],
)
def test_a_corpus_that_can_not_be_is_refused_and_leaves_nothing(tmp_path, cache, lines, fields, message):
    with pytest.raises(InputError, match=message):
        prepare(corpus(tmp_path, lines, **fields))
    assert not cache.exists() or not list(cache.iterdir())
