"""Comparisons of arms: intervals that cover, claims that are seldom wrong, on made-up tables whose truth is known."""

import itertools

import numpy as np
import pytest
from scipy import stats

from phasekit.errors import InputError
from phasekit.measure import arms
from phasekit.measure.arms import compare_arms, compare_tests, holm, mean_over_seeds, rank_correlation, share_interval


def table(draws, seeds, prompts, of_seed, of_prompt, of_both, shift=0.0):
    return (
        shift
        + of_seed * draws.standard_normal((seeds, 1))
        + of_prompt * draws.standard_normal((1, prompts))
        + of_both * draws.standard_normal((seeds, prompts))
    )


@pytest.mark.parametrize("scales", [(1, 0.1, 0.1), (0.1, 3, 0.1), (0.1, 0.1, 3), (0.3, 3, 3)])
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_cover_the_truth(seeds, scales):
    draws = np.random.default_rng(0)
    trials, covered = 300, 0
    for _ in range(trials):
        low, high = mean_over_seeds(table(draws, seeds, 40, *scales), resamples=200).interval
        covered += low <= 0 <= high
    assert covered / trials > 0.95 - 4 * np.sqrt(0.95 * 0.05 / trials)


def test_a_resample_s_mean_is_that_of_drawn_rows_and_columns():
    """The error is the standard deviation of means over drawn seeds and prompts, here drawn one by one."""
    errors = np.random.default_rng(1).random((4, 6)) + np.arange(4)[:, None]
    draws = np.random.default_rng(2)
    means = [errors[np.ix_(draws.integers(4, size=4), draws.integers(6, size=6))].mean() for _ in range(20_000)]
    expected = np.std(means) * np.sqrt(4 / 3)
    found = mean_over_seeds(errors, resamples=20_000)
    assert found.value == pytest.approx(errors.mean())
    assert found.error == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("seeds", [2, 3])
def test_the_limit_of_infinitely_many_resamples(seeds):
    """By all possible draws of three prompts and so many seeds, each as probable as any other."""
    errors = np.random.default_rng(seeds).random((seeds, 3)) ** 3
    count = len(errors)
    rows, columns = (list(itertools.product(range(k), repeat=k)) for k in (count, 3))
    means = [errors[np.ix_(row, column)].mean() for row in rows for column in columns]
    found = mean_over_seeds(errors, resamples=None)
    assert found.error == pytest.approx(np.std(means) * np.sqrt(count / (count - 1)), rel=1e-12)


def test_wrong_claims_are_as_rare_as_said():
    draws = np.random.default_rng(3)
    trials, wrong = 200, 0
    for _ in range(trials):
        arms = {f"arm {k}": table(draws, 5, 30, 0.3, 0.0, 1) for k in range(6)}
        wrong += any(found.corrected < 0.05 for found in compare_arms(arms, "arm 0", resamples=200))
    assert wrong / trials < 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)


def test_several_tests_are_one_family():
    draws = np.random.default_rng(6)
    tests = {}
    for k in range(4):
        base = table(draws, 3, 20 + k, 0.1, 1.0, 0.5)
        tests[k] = {"base": base, "one": base + 0.1 * draws.standard_normal(base.shape) + 0.02 * k, "two": base + 0.01}
    found = compare_tests(tests, "base")
    flat = [difference for differences in found.values() for difference in differences]
    assert [difference.arm for difference in found[2]] == ["one", "two"]
    np.testing.assert_allclose([d.corrected for d in flat], holm([d.p for d in flat]))
    alone = compare_arms(tests[3], "base", resamples=None)
    assert [d.mean for d in alone] == [d.mean for d in found[3]]
    assert alone[0].resolvable < found[3][0].resolvable  # the price of more comparisons


@pytest.mark.parametrize("seeds", [3, 5])
def test_a_detectable_difference_is_found_in_four_of_five_experiments(seeds):
    draws = np.random.default_rng(7)
    trials = 4000
    scatter = 0.3
    error = scatter / np.sqrt(seeds)
    # one prompt, so that the error is that of seeds alone and the power is exact
    (reference,) = compare_arms(
        {"a": np.zeros((seeds, 1)), "b": scatter * np.sqrt((seeds - 1) / seeds) * _unit(seeds)}, "a", None
    )
    assert reference.mean.error == pytest.approx(error)
    shift = reference.detectable
    claimed = 0
    for _ in range(trials):
        other = shift + scatter * draws.standard_normal((seeds, 1))
        claimed += compare_arms({"a": np.zeros((seeds, 1)), "b": other}, "a", None)[0].verdict == "higher"
    assert claimed / trials == pytest.approx(0.8, abs=4 * np.sqrt(0.8 * 0.2 / trials))


def _unit(seeds):
    """A column of mean 0 whose variance (of n, not n − 1) is 1."""
    column = np.arange(seeds, dtype=float)[:, None]
    return (column - column.mean()) / column.std()


def test_what_is_shared_cancels_in_a_difference():
    draws = np.random.default_rng(4)
    base = table(draws, 4, 50, 2.0, 2.0, 0.1)
    better, same = base - 0.5 + 0.05 * draws.standard_normal((4, 50)), base + 0.05 * draws.standard_normal((4, 50))
    one, other = compare_arms({"base": base, "better": better, "same": same}, "base")
    assert one.verdict == "lower"
    assert one.mean.value == pytest.approx(-0.5, abs=0.05)
    assert other.verdict == "no difference that these seeds can show"
    assert 0 < other.resolvable < 0.1
    identical = compare_arms({"base": base, "again": base}, "base")[0]
    assert (identical.p, identical.verdict) == (1.0, "no difference that these seeds can show")


def test_the_interval_of_a_share_is_wilson_s():
    for right in ([1] * 7 + [0] * 3, [1] * 20, [0] * 5):
        low, high = stats.binomtest(sum(right), len(right)).proportion_ci(method="wilson")
        assert share_interval(right) == pytest.approx((low, high))
    low, high = share_interval([0.5] * 10)
    assert low == pytest.approx(1 - high)


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])


def test_rank_correlations():
    draws = np.random.default_rng(5)
    x = draws.standard_normal((3, 100))
    y = np.exp(x) + 0.5 * draws.standard_normal((3, 100))
    each = [stats.spearmanr(*pair).statistic for pair in zip(x, y, strict=True)]
    found = rank_correlation(x, y)
    assert found.value == pytest.approx(np.mean(each))
    assert found.interval[0] < found.value < found.interval[1]
    assert np.isnan(rank_correlation(x, np.ones((3, 100))).value)
    assert rank_correlation(x, np.stack([y[0], y[1], np.ones(100)])).seeds == 2


def test_mistakes_are_one_line():
    good = np.ones((3, 4))
    for make, words in (
        (lambda: compare_arms({"a": good}, "b"), "reference = 'b': must be one of a"),
        (lambda: compare_arms({"a": good, "b": good[:, :2]}, "a"), "must have the reference's seeds and prompts"),
        (lambda: compare_arms({"a": good[:1], "b": good[:1]}, "a"), "one seed tells nothing about seeds"),
        (lambda: mean_over_seeds([[np.nan, 1.0], [1.0, 1.0]]), "must be finite"),
        (lambda: mean_over_seeds([1.0, 2.0]), "must be a table of seeds and prompts"),
    ):
        with pytest.raises(InputError) as refused:
            make()
        assert words in str(refused.value)
    assert np.isnan(mean_over_seeds(good[:1]).error)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 6, 9, 19])
def test_a_difference_that_is_found_in_four_of_five_is_known_for_any_number_of_seeds(degrees):
    """Against the integral over the scatter; many comparisons ask for many standard errors."""
    scatter = stats.chi(degrees, scale=degrees**-0.5)

    def found_in(reach, true):
        return scatter.expect(lambda s: stats.norm.sf(reach * s - true), epsabs=1e-10, epsrel=1e-10)

    for family in (1, 8, 23, 200):
        assert found_in(*arms._reaches(degrees, family)) == pytest.approx(0.8, abs=1e-4)
