import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.heads.moments import one_hot, pair_counts
from phasekit.model import Model
from phasekit.streams import stream
from phasekit.tasks.copy import Dataset, draw_dataset

MODEL = Model(V=5, L=4, P=1000)


def test_tokens_are_uniform_and_independent():
    P = 200_000
    tokens = draw_dataset(MODEL.at(P=P), 3).tokens
    assert tokens.shape == (P, 4)
    frequencies = np.stack([np.bincount(column, minlength=5) for column in tokens.T]) / P
    assert np.abs(frequencies - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / P)
    pairs = np.bincount(tokens[:, 0].astype(int) * 5 + tokens[:, 1], minlength=25) / P
    assert np.abs(pairs - 0.04).max() < 5 * np.sqrt(0.04 * 0.96 / P)


def test_a_data_set_belongs_to_its_seed_and_task():
    tokens = draw_dataset(MODEL, 0).tokens
    same = [MODEL, MODEL.at(score="linear"), MODEL.at(kappa=3), MODEL.at(inputs="token+position")]
    assert all(np.array_equal(draw_dataset(model, 0).tokens, tokens) for model in same)
    assert not np.array_equal(draw_dataset(MODEL, 1).tokens, tokens)
    assert not np.array_equal(draw_dataset(MODEL.at(P=1001), 0).tokens[:1000], tokens)


def test_large_vocabularies_fit():
    assert draw_dataset(Model(V=256, L=2, P=5000), 0).tokens.max() == 255
    assert draw_dataset(Model(V=300, L=2, P=5000), 0).tokens.max() > 255


@pytest.mark.parametrize("side", ["V", "L"])
def test_a_head_that_fits_nowhere_is_refused_before_its_data_are_drawn(side):
    with pytest.raises(InputError, match=rf"^{side} = 1000000000: .*memory"):
        draw_dataset(MODEL.at(**{side: 10**9}), 0)


@pytest.mark.parametrize("P", [None, 10.5])
def test_networks_need_a_whole_number_of_sequences(P):
    with pytest.raises(InputError, match=r"^P = .*whole number"):
        draw_dataset(MODEL.at(P=P), 0)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(InputError, match=r"^data seed = "):
        draw_dataset(MODEL, seed)


def test_streams_differ_in_purpose_and_key():
    draws = [stream(*key).random() for key in (("a", 0), ("b", 0), ("a", 1), ("a", 0, 0), ("a", 0, 1), ("a", 1, 0))]
    assert len(set(draws)) == len(draws)
    assert stream("a", 0).random() == draws[0]


def test_pair_counts_count_pairs(monkeypatch):
    monkeypatch.setattr("phasekit.heads.moments._CHUNK_NUMBERS", 100)
    tokens = draw_dataset(MODEL.at(P=37), 0).tokens
    expected = np.zeros((4, 4, 5, 5))
    for sequence in tokens:
        for j in range(4):
            for k in range(4):
                expected[j, k, sequence[j], sequence[k]] += 1
    assert np.array_equal(pair_counts(tokens, 5).numpy(), expected)


def test_pair_counts_are_exact_for_many_sequences():
    """All sequences alike: every count is P, and a count in float32 would stop at 2^24."""
    P = 2**24 + 3
    tokens = np.zeros((P, 2), dtype=np.uint8)
    assert pair_counts(tokens, 2)[:, :, 0, 0].flatten().tolist() == [P] * 4
    dataset = Dataset(Model(V=2, L=2, P=P), tokens, 0)
    with pytest.raises(InputError, match=r"^P = .*float64"):
        build_energy([dataset], dtype="float32", device="cpu", path="moments")


def test_one_hot():
    tokens = draw_dataset(MODEL.at(P=3), 0).tokens
    assert torch.equal(one_hot(tokens, 5, "cpu", torch.float64).argmax(-1), torch.from_numpy(tokens.astype("int64")))
    assert one_hot(tokens, 5, "cpu", torch.float64).sum() == 12
