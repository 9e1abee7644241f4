"""Batches by number: what they hold, what is masked, and that nothing but number and seed decides."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.language.batches import Blocks, Masking, Order, Sentences, framed
from phasekit.language.corpus import Documents
from phasekit.language.tokenizer import BEGIN, END, MASK, PAD, SPECIAL
from phasekit.streams import stream


@pytest.fixture
def documents():
    draw = stream("documents", 0)
    rows = [draw.integers(5, 300, draw.integers(1, 12)) for _ in range(40)]
    return Documents(np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)]))


def test_sentences_are_framed_padded_and_predict_the_next_token(documents):
    chosen = np.array([3, 0, 7])
    batch = Sentences(documents, 20).batch(chosen)
    for row, k in enumerate(chosen):
        words = [BEGIN, *documents[k].tolist(), END]
        assert batch.inputs[row].tolist() == words + [PAD] * (batch.inputs.shape[1] - len(words))
        assert batch.visible[row].sum() == len(words)
        assert batch.targets[row][batch.counts[row]].tolist() == words[1:]
        assert batch.inputs[row][batch.counts[row]].tolist() == words[:-1]


@pytest.mark.parametrize("length", [2, 7, 16])
def test_blocks_are_the_documents_one_behind_the_other(documents, length):
    stream_of_tokens = [t for k in range(len(documents)) for t in (BEGIN, *documents[k].tolist(), END)]
    blocks = Blocks(documents, length)
    assert len(blocks) == len(stream_of_tokens) // length
    batch = blocks.batch(np.arange(len(blocks)))
    assert batch.inputs.flatten().tolist() == stream_of_tokens[: len(blocks) * length]
    assert batch.counts.sum() == len(blocks) * (length - 1)
    assert (batch.targets[:, :-1] == batch.inputs[:, 1:]).all()


def test_what_does_not_fit_is_refused(documents):
    with pytest.raises(InputError, match="the longest document has"):
        Sentences(documents, documents.longest + 1)
    with pytest.raises(InputError, match="too few for one block"):
        Blocks(documents, 10_000)


def test_an_epoch_shows_every_example_once_in_an_order_of_its_own():
    order = Order(examples=37, batch=5, seed=3)
    seen = np.concatenate([order(number) for number in range(37 * 2 // 5 + 1)])
    first, second = seen[:37], seen[37:74]
    assert sorted(first) == sorted(second) == list(range(37))
    assert first.tolist() != second.tolist() != list(range(37))
    assert order(5).tolist() == Order(37, 5, 3)(5).tolist() != Order(37, 5, 4)(5).tolist()


def test_the_given_order_is_that_of_the_text():
    order = Order(examples=7, batch=3, seed=0, kind="given")
    assert np.concatenate([order(k) for k in range(5)]).tolist() == [k % 7 for k in range(15)]


def test_a_batch_may_be_larger_than_the_text():
    assert sorted(Order(examples=3, batch=7, seed=0)(0)) == [0, 0, 0, 1, 1, 2, 2] or len(Order(3, 7, 0)(0)) == 7


def masked(share=0.15, random=0.1, kept=0.0, rows=4000, vocabulary=1000):
    draw = stream("sentences to mask", 0)
    batch = framed([draw.integers(5, vocabulary, draw.integers(1, 30)) for _ in range(rows)])
    return batch, Masking(share=share, random=random, kept=kept).apply(batch, vocabulary, stream("masks", 1))


def test_masked_tokens_are_those_asked_for_and_only_they_count():
    batch, found = masked(share=0.15, random=0.2, kept=0.3)
    own = batch.visible & (batch.inputs >= len(SPECIAL))
    assert not (found.counts & ~own).any(), "neither <s> nor padding is masked"
    assert (found.targets == batch.inputs).all()
    assert (found.inputs == batch.inputs)[~found.counts].all()
    assert found.counts.any(axis=1).all(), "every sentence has something to guess"
    long = own.sum(axis=1) >= 20  # in short ones, at least one raises the share
    share, tokens = found.counts[long].sum() / own[long].sum(), own[long].sum()
    assert abs(share - 0.15) < 4 * np.sqrt(0.15 * 0.85 / tokens) + 0.85**20
    instead, count = found.inputs[found.counts], found.counts.sum()
    for seen, wanted in ((instead == MASK, 0.5), (instead == batch.inputs[found.counts], 0.3 + 0.2 / 995)):
        assert abs(seen.mean() - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / count)
    assert instead.min() >= MASK


def test_without_noise_all_masked_tokens_are_hidden():
    _, found = masked(random=0.0, kept=0.0)
    assert (found.inputs[found.counts] == MASK).all()


def test_digests_tell_batches_apart(documents):
    sentences = Sentences(documents, 20)
    assert sentences.batch(np.array([1, 2])).digest == sentences.batch(np.array([1, 2])).digest
    assert sentences.batch(np.array([1, 2])).digest != sentences.batch(np.array([2, 1])).digest
