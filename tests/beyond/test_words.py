"""The contract of encodings, masks and token laws: every registered one keeps it, and so must those to come."""

import numpy as np
import pytest
import torch

from phasekit.encodings import ENCODINGS, Matrix, matrix_from
from phasekit.encodings.base import distances
from phasekit.errors import InputError
from phasekit.masks import MASKS
from phasekit.model import Model
from phasekit.tokens import TOKEN_LAWS, Given, Zipf, unigrams

FIELDS = {
    "rotary": ":2",
    "sinusoidal": ":2",
    "matrix": ":width=6:entries=" + ",".join(str(int((j - i) % 6 < 2)) for i in range(6) for j in range(6)),
    "window": ":3",
    "given": ":0.5,0.3,0.1,0.06,0.04",
}  # of those that can't be made without
V, L = 5, 6


@pytest.fixture(params=ENCODINGS.names())
def encoding(request):
    return ENCODINGS.given(request.param + FIELDS.get(request.param, ""))


@pytest.fixture(params=MASKS.names())
def mask(request):
    return MASKS.given(request.param + FIELDS.get(request.param, ""))


@pytest.fixture(params=TOKEN_LAWS.names())
def law(request):
    return TOKEN_LAWS.given(request.param + FIELDS.get(request.param, ""))


def test_an_encoding_collects_by_the_transpose_of_its_logits(encoding):
    if encoding.name == "token+position":
        pytest.skip("its networks run every sequence")
    random = torch.Generator().manual_seed(0)
    G = torch.randn(2, 3, *encoding.shape(V, L), generator=random, dtype=torch.float64)
    dH = torch.randn(2, 3, L, L, generator=random, dtype=torch.float64)
    logits, back = encoding.logits(G, L), encoding.collect(dH, L)
    assert logits.shape == (2, 3, L, L)
    assert back.shape == G.shape
    assert torch.allclose((logits * dH).sum((2, 3)), (G * back).sum((2, 3)))


def test_what_a_pattern_costs_is_the_norm_of_the_cheapest_weights(encoding):
    """A gap of 1 with zero row means costs (L − 1)/(2σ²), and a common logit 1 costs λ/(2σ²), σ the encoding's gain."""
    if encoding.basis(L) is not None:
        theta = np.random.default_rng(3).normal(size=encoding.basis(L).shape[1])
        b = encoding.basis(L) @ theta
        weights = encoding.weights(b[distances(L)], V)
        assert np.allclose(encoding.logits(torch.from_numpy(weights), L).numpy(), b[distances(L)])
        smallest = np.linalg.lstsq(encoding.basis(L), b)[0]
        assert (weights**2).sum() == pytest.approx((smallest**2).sum())
        return
    gap = np.roll(np.eye(L), 1, axis=1).T - 1 / L
    if encoding.name == "token+position":  # logits below zero share no constant
        gap = gap - gap.min()
        gap, constant = gap, gap.min()
        assert constant == 0
    sigma = float(encoding.gain(np.float64(V), np.float64(L)))
    weights = encoding.weights(gap, V)
    row_mean = gap.mean() ** 2 * L**2  # of logits that were shifted
    assert (weights**2).sum() * sigma**2 == pytest.approx(L - 1 + row_mean)
    if encoding.name != "token+position":
        ones = encoding.weights(np.ones((L, L)), V)
        assert (ones**2).sum() * sigma**2 == pytest.approx(float(encoding.pooling_cost(np.float64(V), np.float64(L))))
        logits = encoding.logits(torch.from_numpy(weights), L)
        assert np.allclose(logits.numpy(), gap)


def test_positions_that_count_see_their_target_and_themselves(mask):
    visible, counted = mask.visible(L), mask.counted(L)
    assert visible.shape == (L, L)
    assert visible.diagonal().all()
    assert counted[1:].all()
    for i in np.flatnonzero(counted):
        assert visible[i, i - 1]
    assert (mask.keys(L) == visible.sum(1)[counted]).all()
    assert mask.mean_keys(L) == pytest.approx(1 / np.mean(1 / visible.sum(1)[counted]))
    assert mask.hides == (not visible.all())


def test_a_law_is_what_its_draws_have(law):
    law.check(V, 4)
    frequencies = law.frequencies(V)
    assert frequencies.sum() == pytest.approx(1)
    assert (frequencies > 0).all()
    drawn = law.draw(np.random.default_rng(1), V, (5000, 4), np.uint8)
    assert drawn.shape == (5000, 4)
    share = np.bincount(drawn.ravel(), minlength=V) / drawn.size
    assert np.abs(share - frequencies).max() < 5 * 0.5 / np.sqrt(drawn.size)
    together = (drawn[:, 0] == drawn[:, 1]).mean()
    expected = 1 - float(law.separation(np.float64(V))) * (1 - (frequencies**2).sum())
    assert together == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(5000))


def test_sums_over_a_law_s_levels_are_sums_over_the_vocabulary(law):
    frequency, count = law.levels(V)
    assert count.sum() == pytest.approx(V)
    assert count @ frequency**3 == pytest.approx((law.frequencies(V) ** 3).sum())


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 4.0, 7.0])
@pytest.mark.parametrize("size", [3, 64, 65, 1000, 4097, 100_000])
def test_a_large_vocabulary_is_summed_at_few_ranks(exponent, size):
    frequency, count = Zipf(exponent=exponent).levels(size)
    every = Zipf(exponent=exponent).frequencies(size)
    for ridge in (1e-9, 1e-4, 10.0):
        for power in (2, 3):
            wanted = (every**power / (0.3 * every + ridge) ** 2).sum()
            assert count @ (frequency**power / (0.3 * frequency + ridge) ** 2) == pytest.approx(wanted, rel=1e-12)
    assert len(frequency) < 300 or exponent > 4


def test_words_of_the_command_line():
    assert TOKEN_LAWS.given("zipf:1.5") == TOKEN_LAWS.given("zipf:exponent=1.5") == Zipf(exponent=1.5)
    assert MASKS.given("window:8").width == 8
    assert Model(V=8, L=16, encoding="token+position") == Model(V=8, L=16, inputs="token+position")
    assert Model(V=8, L=16, encoding="one-hot").describe() == Model(V=8, L=16).describe()
    assert "encoding" not in Model(V=8, L=16, mask="none", tokens="uniform").describe()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"mask": "window:0"}, "mask window: width = '0': must be a whole number of at least 2"),
        ({"mask": "window"}, "mask window: width = None: missing"),
        ({"mask": "diagonal"}, "mask = 'diagonal': unknown; choose from causal, none, window"),
        ({"mask": None}, "mask = None: must be one of causal, none, window"),
        ({"tokens": "given:1.0000000001,1e-12"}, "tokens given: frequency = .*between 0 and 1"),
        ({"tokens": "given:0.5,0.4"}, "tokens given: frequency = .*of sum 1, not 0.9"),
        ({"tokens": "given:0.5,0.5"}, "V = 8: must be the number of given frequencies, 2"),
        ({"tokens": "uniform:replacement=false"}, "V = 8: 16 different tokens need a vocabulary of at least 16"),
        ({"tokens": "zipf:-1"}, "tokens zipf: exponent = '-1': must be a finite number of at least 0"),
        ({"tokens": "zipf:1:2"}, "tokens = 'zipf:1:2': must be written name"),
        (
            {"encoding": "matrix:width=2:entries=1,2,3"},
            r"encoding matrix: entries = '3 numbers': must be L · width = 16",
        ),
        ({"encoding": "matrix:width=1:entries=0,0"}, "encoding matrix: entries = .*aren't all zero"),
        ({"encoding": "relative", "inputs": "token.position"}, "inputs = "),
        ({"encoding": "relative", "inputs": "token+position"}, "inputs = 'token.position': the encoding is relative"),
    ],
)
def test_bad_words_are_refused_in_one_line(fields, line):
    with pytest.raises(InputError, match=line) as refused:
        Model(V=8, L=16, **fields)
    assert "\n" not in str(refused.value)


def test_frequencies_of_a_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b a c a b d\n")
    assert unigrams(path) == Given(frequency=(3 / 7, 2 / 7, 1 / 7, 1 / 7))
    assert unigrams(path, 2) == Given(frequency=(0.6, 0.4))
    with pytest.raises(InputError, match="has 4 different words, and 5 are needed"):
        unigrams(path, 5)
    with pytest.raises(InputError, match=r"can't be read as text \(FileNotFoundError\)"):
        unigrams(tmp_path / "none.txt")


def test_positions_from_a_file(tmp_path):
    path = tmp_path / "positions.txt"
    path.write_text("1 0\n0 1\n\n-1 2e-1\n")
    assert matrix_from(path) == Matrix(width=2, entries=(1, 0, 0, 1, -1, 0.2))
    for text, line in ("1 2\n3\n", "equally many"), ("a b\n", r"as numbers \(ValueError\)"), ("", "equally many"):
        path.write_text(text)
        with pytest.raises(InputError, match=line):
            matrix_from(path)
    with pytest.raises(InputError, match="FileNotFoundError"):
        matrix_from(tmp_path / "none.txt")


def test_what_knows_neither_masks_nor_encodings_refuses_them():
    from phasekit.samplers import SGLD, sample
    from phasekit.theory.corrections.sampling_force import sparsemax_on_drawn_data

    with pytest.raises(InputError, match="mask = 'causal': minibatches know no masks"):
        sample(Model(V=4, L=8, P=20, mask="causal"), SGLD(step=1e-3, batch=4), draws=2, members=1)
    with pytest.raises(InputError, match="tokens = 'zipf': the sampling force"):
        sparsemax_on_drawn_data(Model(V=4, L=8, P=20, score="sparsemax", tokens="zipf"))


def test_closed_forms_are_those_of_the_encoding_or_none():
    from phasekit.theory.scaling import scaling_law

    L = [64, 128, 256, 512, 1024]
    relative = scaling_law(Model(V=8, L=8, encoding="relative"), "P_star", "L", L)
    assert relative.closed_self_consistent.values == pytest.approx(relative.P_star.values, rel=0.35)
    zipf = scaling_law(Model(V=8, L=8, tokens="zipf"), "P_star", "L", L)
    assert not [name for name in zipf.data_vars if str(name).startswith("closed_")]
