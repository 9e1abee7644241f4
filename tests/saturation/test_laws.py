"""Exact laws: the limit under magnification, the exponent of its approach, the crossover gap, the reference slopes."""

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from phasekit.errors import InputError
from phasekit.saturation import crossover_gap, get_theorem, limit_weights, saturation_exponent
from phasekit.saturation.reading import one_hot_share
from phasekit.saturation.slopes import SLOPES, fit_slopes
from phasekit.saturation.theorems import THEOREMS
from phasekit.scores import SSA

ROWS = [
    ([2, 1, -1], 0.0),
    ([2, 2, -1], 0.0),
    ([-1, -2, -3], 0.0),
    ([0, 0, -3], 0.0),
    ([0, 0, 0], 0.0),
    ([2, 0, -1], 1.5),
    ([0, -1, -2], 1.5),
    ([2, -1, -3], 3.0),
]


@pytest.mark.parametrize(("row", "exponent"), ROWS)
def test_limit_and_exponent_are_those_of_the_score(row, exponent):
    # The score at enormous logits, in float64: its weights have converged to 1e-6 and its mass has a slope.
    def weights(scale):
        return SSA(n=1.5, b=0.8).rows(torch.tensor([row], dtype=torch.float64) * scale)[0].numpy()

    np.testing.assert_allclose(weights(1e9), limit_weights(row, 1.5), atol=2e-8)
    assert saturation_exponent(row, 1.5) == exponent
    off_winner = [np.sort(weights(scale))[:-1].sum() for scale in (1e4, 1e6)]
    assert -np.diff(np.log(off_winner))[0] / np.log(100) == pytest.approx(exponent, abs=2e-4)


def test_laws_take_arrays():
    rows = np.array([[2.0, 1.0], [2.0, -1.0]])
    np.testing.assert_array_equal(limit_weights(rows, 1.0), [[2 / 3, 1 / 3], [1, 0]])
    np.testing.assert_array_equal(limit_weights(rows[0], [1.0, 2.0]), [[2 / 3, 1 / 3], [0.8, 0.2]])
    np.testing.assert_array_equal(saturation_exponent(rows, 2.0), [0, 4])
    np.testing.assert_array_equal(limit_weights([1e300, 1e300], 5.0), [0.5, 0.5])
    np.testing.assert_array_equal(limit_weights([-1e-300, -1e300], 5.0), [1.0, 0.0])


@pytest.mark.parametrize(("z", "n"), [([], 1.5), ([1, np.nan], 1.5), ([1, 2], 0.0), (3.0, 1.5)])
def test_laws_refuse_nonsense(z, n):
    with pytest.raises(InputError):
        limit_weights(z, n)
    with pytest.raises(InputError):
        saturation_exponent(z, n)


def test_a_single_key_has_no_exponent():
    with pytest.raises(InputError, match="at least 2 keys"):
        saturation_exponent([1.0], 1.5)


@pytest.mark.parametrize(
    ("row", "n", "exponent"),
    [
        ([10, 0.004], 5, 0),  # a second positive logit keeps a mass of 1e-17, below the rounding of the winner's weight
        ([2, 1], 54, 0),
        ([1, 1e-11], 1.5, 0),
        ([1e300, 1e-300], 2, 0),
        ([-0.004, -10], 5, 0),
        ([0, 0, -1], 60, 0),
        ([1e-300, 0, -1e300], 40, 40),
        ([0, -1e-300], 40, 40),
        ([1e-300, -1e300], 40, 80),
    ],
)
def test_the_saturation_exponent_is_decided_by_signs(row, n, exponent):
    assert saturation_exponent(row, n) == exponent


def test_a_crossover_gap_beyond_float64_is_refused():
    assert crossover_gap(1e-10, 1e300) == pytest.approx(6.742632976522e-8, rel=1e-12)
    for n, b in ((1e200, 1e200), (2.0, 1e308)):
        with pytest.raises(InputError, match="beyond float64"):
            crossover_gap(n, b)


@pytest.mark.parametrize(("n", "b", "gap"), [(1.5, 0.8, 0.5313), (2.0, 0.8, 1.7528)])
def test_crossover_gaps_of_the_published_starts(n, b, gap):
    assert float(crossover_gap(n, b)) == pytest.approx(gap, abs=5e-5)


def test_the_crossover_gap_is_the_only_root():
    rng = np.random.default_rng(0)
    excess = np.concatenate([np.exp(rng.uniform(np.log(2e-6), 4, 300)), [2e-6, 0.0099, 0.0101]])
    n = np.exp(rng.uniform(-1, 1.6, excess.size))
    b = (1 + excess) / n
    found = crossover_gap(n, b)
    with mp.workdps(50):
        for i in range(excess.size):
            exact_n, exact_b, gap = mpf(n[i]), mpf(b[i]), mpf(found[i])

            def h(x, n=exact_n, b=exact_b):
                return n * mp.log(1 + b * x) - x

            # The root is ill-conditioned in nb − 1: float64 knows it to 1e-16/(nb − 1).
            wiggle = 1e-14 + 4e-16 / excess[i]
            assert h(gap * (1 - wiggle)) > 0 > h(gap * (1 + wiggle)), (n[i], b[i])


def test_below_nb_1_there_is_no_crossover():
    np.testing.assert_array_equal(crossover_gap([1.0, 1.5, 0.5], [1.0, 0.5, 2.0]), [0, 0, 0])
    gap = float(crossover_gap(1.0, 1 + 1e-7))
    assert gap == pytest.approx(2e-7, rel=1e-5)
    for n, b in ((0.0, 1.0), (1.0, -1.0), (np.nan, 1.0)):
        with pytest.raises(InputError):
            crossover_gap(n, b)


def test_ssa_is_sharper_below_the_crossover_gap_and_flatter_above():
    gap = float(crossover_gap(2.0, 0.8))
    for factor, sharper in ((0.01, True), (0.99, True), (1.01, False), (100.0, False)):
        row = torch.tensor([[gap * factor, 0.0, 0.0, 0.0]], dtype=torch.float64)
        assert bool(SSA(n=2.0, b=0.8).rows(row)[0, 0] > row.softmax(dim=-1)[0, 0]) is sharper


#: ssa, n = 1.5, b = 0.8: slope of ln(1 − p) against ln λ for λ = 10³ … 10⁶, and the limit of 1 − p.
REFERENCE = {
    "z = (2, 0, −1)": (-1.4999, None),
    "z = (2, −1, −3)": (-2.9997, None),
    "z = (0, −1, −2)": (-1.4998, None),
    "z = (2, 1, −1)": (0.0, 0.261204),
    "z = (−1, −2, −3)": (0.0, 0.353171),
    "z = (2, 2, −1)": (0.0, 0.5),
}


def test_reference_slopes_to_three_digits():
    found = {slope.case: slope for slope in fit_slopes([get_theorem("ssa-magnification")])}
    assert found.keys() == REFERENCE.keys()
    for case, (slope, limit) in REFERENCE.items():
        assert round(found[case].fitted, 3 if slope == 0 else 4) == slope
        assert found[case].reproduced
        if limit is None:
            assert found[case].limit is None
        else:
            assert found[case].limit == pytest.approx(limit, abs=1e-6)
            assert found[case].limit_predicted == pytest.approx(limit, abs=1e-6)


def test_every_theorem_but_the_identity_has_a_slope_and_reproduces_it():
    found = fit_slopes(THEOREMS)
    assert {slope.theorem for slope in found} == {theorem.name for theorem in THEOREMS} - {"ssa-ratios"}
    assert SLOPES.keys() == {slope.theorem for slope in found}
    assert all(slope.reproduced for slope in found)


@pytest.mark.parametrize("keys", [2, 3, 5])
def test_share_of_rows_that_become_one_hot(keys):
    rows = np.random.default_rng(1).standard_normal((40_000, keys))
    share = float((saturation_exponent(rows, 1.5) > 0).mean())
    expected = one_hot_share(keys)
    assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / len(rows))
