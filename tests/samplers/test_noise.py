"""Random numbers belong to purpose, key and step, and are what they claim to be."""

import zlib

import numpy as np
import pytest
import torch
from scipy import stats

from phasekit.errors import InputError
from phasekit.samplers.noise import NormalStreams, UniformStreams, Words, box_muller
from tests.samplers.checks import Z

DTYPES = (torch.float32, torch.float64)


def streams(keys, size=37, dtype=torch.float64, purpose="test"):
    return NormalStreams(purpose, keys, size, dtype, "cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_depend_on_nothing_but_key_and_step(dtype):
    keys = [(3, member) for member in range(12)]
    everyone = streams(keys, dtype=dtype)
    in_order = torch.stack([everyone.at(step).clone() for step in range(2000)])
    alone = streams(keys[5:6], dtype=dtype)
    assert torch.equal(torch.stack([alone.at(step).clone()[0] for step in range(2000)]), in_order[:, 5])
    shuffled = streams([keys[7], (8, 1), keys[0], keys[11]], dtype=dtype)
    for step in (1500, 3, 4, 1999, 0):
        found = shuffled.at(step)
        assert torch.equal(found[[0, 2, 3]], in_order[step, [7, 0, 11]])


def test_every_part_of_the_key_and_the_purpose_matters():
    numbers = [
        streams([key]).at(0).clone() for key in ((0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 2**32), (2**32, 0), (1, 2**32))
    ]
    numbers += [streams([(0, 0)], purpose="other").at(0), streams([(0, 0)]).at(1)]
    for k, a in enumerate(numbers):
        for b in numbers[:k]:
            assert not torch.isclose(a, b).any()


def test_words_are_those_of_one_generator_from_the_step_s_on():
    seed = np.random.SeedSequence([zlib.crc32(b"test"), 2, 0, 4, 0, 2])
    expected = np.random.PCG64DXSM(seed).random_raw(7 * 10).reshape(10, 7)
    words = Words("test", [(4, 2)], 7)
    for first, steps in ((6, 2), (8, 1), (0, 1), (9, 1)):
        assert np.array_equal(words.take(first, steps)[0].numpy().view(np.uint64), expected[first : first + steps])


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_normal_and_independent(dtype, seed):
    source = streams([(seed, member) for member in range(20)], size=50, dtype=dtype)
    x = torch.stack([source.at(step).clone() for step in range(100)]).double().numpy()
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-6
    n = x.size
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        variance = stats.norm.moment(2 * power) - moment**2
        assert abs((x**power).mean() - moment) < Z * np.sqrt(variance / n)
    half = x.shape[2] // 2
    pairs = {
        "step": (x[1:], x[:-1]),
        "chain": (x[:, 1:], x[:, :-1]),
        "number": (x[..., 1:], x[..., :-1]),
        "cos and sin": (x[..., :half], x[..., half:]),
    }
    for a, b in pairs.values():
        for f in (lambda v: v, np.square):  # Box-Muller's pairs share a radius: squares would show it
            a_, b_ = f(a) - f(x).mean(), f(b) - f(x).mean()
            assert abs((a_ * b_).mean()) < Z * f(x).var() / np.sqrt(a_.size)


def test_uniform_numbers(seed):
    source = UniformStreams("test", [(seed, member) for member in range(50)], 8, "cpu")
    u = torch.stack([source.at(step) for step in range(100)]).numpy()
    assert u.min() > 0
    assert u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-6
    bounds = torch.tensor([[7], [3]])
    integers = UniformStreams("test", [(seed, 0), (seed, 1)], 6000, "cpu").below(bounds, 2).numpy()
    for row, bound in zip(integers, (7, 3), strict=True):
        assert set(row) == set(range(bound))
        assert stats.chisquare(np.bincount(row)).pvalue > 1e-6


def test_extreme_bits_give_finite_numbers():
    extremes = torch.tensor([[-(2**63), 2**63 - 1, 0, -1, 2**31, -(2**31), 2**32 - 1, 1]])
    for dtype in DTYPES:
        found = torch.full((1, 16 if dtype == torch.float32 else 8), torch.nan, dtype=dtype)
        box_muller(extremes, out=found)
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("keys", [[(0, -1)], [(0, 1.5)], [(0, 2**64)], [(True, 1)], [(1, 2), (1, 2)]])
def test_keys_must_be_distinct_whole_numbers(keys):
    with pytest.raises(InputError, match="random stream"):
        streams(keys)
