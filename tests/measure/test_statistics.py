"""Error bars, exponents and collapses against brute force."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.measure.bootstrap import bootstrap
from phasekit.measure.collapse import collapse, quality
from phasekit.measure.exponents import fit_power_law
from phasekit.measure.locate import NotLocated, crossing
from phasekit.measure.verify import (
    LARGE,
    MAGNETISATION,
    SMALL,
    TEMPERATURE,
    crossing_data,
    magnet_collapse,
    magnet_data,
    magnet_probabilities,
    magnetisations,
    onset_data,
    study,
)

P = np.array([96.0, 98, 101, 103])


def lines(own):
    """Return straight lines ln(P/own), one a data set: the crossing is the geometric mean of ``own``."""
    return np.log(P / np.asarray(own)[:, None])


def test_the_error_is_that_of_a_mean():
    own = 100 * np.exp(0.01 * np.random.default_rng(0).standard_normal(4))
    found = bootstrap(P, lines(own), crossing, resamples=3000)
    assert found.value == pytest.approx(np.exp(np.log(own).mean()), rel=1e-9)
    assert found.error == pytest.approx(found.value * np.log(own).std(ddof=1) / np.sqrt(4), rel=0.05)
    assert found.interval[0] < found.value < found.interval[1]
    assert found.located == 1
    assert found.interpolation < 1e-6


@pytest.mark.parametrize("data_sets", [3, 4, 8])
def test_the_interval_covers_the_truth_however_few_data_sets(data_sets):
    """95 % of 500 times, within three standard errors of that count (percentiles of resamples: 74 and 81 %)."""
    random, trials = np.random.default_rng(data_sets), 500
    inside = 0
    for _ in range(trials):
        found = bootstrap(P, random.standard_normal((data_sets, 1)), lambda P, y, check=False: float(y.mean()), 100)
        inside += found.interval[0] <= 0 <= found.interval[1]
    assert abs(inside / trials - 0.95) < 3 * np.sqrt(0.95 * 0.05 / trials)


def test_numbers_of_resamples():
    one, same = (bootstrap(P, lines([99, 100, 102]), crossing, resamples=n).error for n in (20, np.int64(20)))
    assert one == same
    with pytest.raises(InputError, match=r"^resamples = 1: "):
        bootstrap(P, lines([99, 100, 102]), crossing, resamples=1)


def test_curvature_shows_as_interpolation_error():
    own = 100 * np.exp(1e-4 * np.random.default_rng(0).standard_normal(6))
    at = np.array([85.0, 93, 104, 112])
    x = np.log(at / own[:, None])
    found = bootstrap(at, x + 2 * x**2 + 10 * x**3, crossing, resamples=200)
    assert abs(found.value - 100) < found.total_error < 3
    assert found.interpolation > 5 * found.error


def test_data_sets_that_are_too_few_or_do_not_agree_give_no_error_bar():
    with pytest.raises(NotLocated, match="at least 3 data sets"):
        bootstrap(P, lines([100, 101]), crossing)
    y = lines([99.0, 100, 101, 100])
    y[:2] = np.nan
    y[2, 1:] = np.nan
    with pytest.raises(NotLocated, match=r"only \d+% of resamples"):
        bootstrap(P, y, crossing, resamples=300)


def test_a_power_law():
    x = np.array([4.0, 8, 16, 32, 64])
    law = fit_power_law(x, 3 * x**1.7, 0.01 * x**1.7)
    assert (law.exponent, law.prefactor) == (pytest.approx(1.7), pytest.approx(3))
    assert (law.degrees, law.chi_square) == (3, pytest.approx(0, abs=1e-12))
    random, errors = np.random.default_rng(1), np.array([0.02, 0.01, 0.03, 0.01, 0.02])
    fits = [fit_power_law(x, x**1.7 * np.exp(errors * random.standard_normal(5)), errors * x**1.7) for _ in range(2000)]
    exponents = np.array([fit.exponent for fit in fits])
    assert exponents.std() == pytest.approx(np.mean([fit.error for fit in fits]), rel=0.06)
    assert abs(exponents.mean() - 1.7) < 4 * exponents.std() / np.sqrt(2000)


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        (([1, 2], [1, 2], [1, 1]), "exponent"),
        (([2, 2, 2], [1, 2, 3], [1, 1, 1]), "not all of them equal"),
        (([1, 2, 3], [1, 2], [1, 1, 1]), "for each size"),
        (([1, 2, 3], [1, -2, 3], [1, 1, 1]), "values = .* must all be above 0"),
        (([1, 2, 3], [1, 2, 3], [1, 0, 1]), "errors = .* must all be above 0"),
        (([1, 2, 3], [1, np.nan, 3], [1, 1, 1]), "values = .* must be finite"),
    ],
)
def test_what_is_no_power_law(numbers, named):
    with pytest.raises(InputError, match=named):
        fit_power_law(*numbers)


def by_hand(x, y, dy):
    """S of Houdayer and Hartmann, point by point, from the normal equations of weighted straight lines."""
    terms = []
    for k in range(len(x)):
        for at, value, error in zip(x[k], y[k], dy[k], strict=True):
            points = []
            for other in range(len(x)):
                for left in range(len(x[other]) - 1):
                    if other != k and x[other][left] < at <= x[other][left + 1]:
                        points += [(x[other][j], y[other][j], dy[other][j]) for j in (left, left + 1)]
            if points:
                X, Y, E = np.array(points).T
                design = np.stack([np.ones_like(X), X - at]) / E
                covariance = np.linalg.inv(design @ design.T)
                height = (covariance @ design @ (Y / E))[0]
                terms.append((value - height) ** 2 / (error**2 + covariance[0, 0]))
    return np.mean(terms)


@pytest.mark.parametrize("curves", [2, 4])
def test_the_quality_is_houdayer_and_hartmann_s(curves):
    random = np.random.default_rng(curves)
    x = [np.sort(random.uniform(0, 1, 7)) for _ in range(curves)]
    dy = [random.uniform(0.01, 0.1, 7) for _ in range(curves)]
    y = [np.sin(at) + error * random.standard_normal(7) for at, error in zip(x, dy, strict=True)]
    assert quality(x, y, dy) == pytest.approx(by_hand(x, y, dy), rel=1e-9)


def test_curves_that_hardly_overlap_are_no_collapse():
    x = [np.linspace(0, 1, 5), np.linspace(0.95, 2, 5)]
    assert quality(x, x, [np.full(5, 0.1)] * 2) == np.inf


@pytest.mark.slow
def test_a_collapse_finds_its_exponents_and_those_of_a_reference():
    random, sizes = np.random.default_rng(3), [8.0, 16, 32, 64]
    scaled = np.linspace(0.8, 1.25, 8)
    x = [scaled * size**1.5 for size in sizes]
    heights = [size**0.4 * np.log(scaled) for size in sizes]
    y = [h + 0.01 * size**0.4 * random.standard_normal((10, 8)) for h, size in zip(heights, sizes, strict=True)]
    shifted = [size**0.4 * np.log(scaled * size**0.05) for size in sizes]
    found = collapse(sizes, x, y, guess=1.4, resamples=40, reference=shifted)
    assert abs(found.a - 1.5) < 4 * found.a_error < 0.02
    assert abs(found.b - 0.4) < 4 * found.b_error < 0.1
    assert 0.5 < found.quality < 2.5
    assert found.reference[0] == pytest.approx(1.45, abs=2e-3)
    one_free = collapse(sizes, x, y, guess=1.4, fixed_b=0.4, resamples=5)
    order = random.permutation(8)  # points in any order
    mixed = collapse(sizes, [each[order] for each in x], [each[:, order] for each in y], 1.4, fixed_b=0.4, resamples=5)
    assert one_free.b == mixed.b == 0.4
    assert mixed.a == one_free.a


def test_two_curves_are_too_few():
    with pytest.raises(InputError, match="at least 3"):
        collapse([1, 2], [P, P], [lines([99, 100, 101])] * 2, 1.0)


def test_the_magnet_s_probabilities_are_those_of_all_its_states():
    spins, temperature = 8, 0.9
    states = 1 - 2 * ((np.arange(2**spins)[:, None] >> np.arange(spins)) & 1)
    m = states.mean(1)
    weights = np.exp(spins * m**2 / (2 * temperature))
    expected = [weights[np.isclose(m, value)].sum() / weights.sum() for value in magnetisations(spins)]
    np.testing.assert_allclose(magnet_probabilities(spins, np.array([temperature]))[0], expected, rtol=1e-10)
    sampled = magnet_data(spins, np.array([temperature]), np.random.default_rng(0), data_sets=100)
    exact = np.abs(magnetisations(spins)) @ expected
    assert abs(sampled.mean() - exact) < 4 * sampled.std() / 10


@pytest.mark.slow
def test_magnets_show_their_exponents_the_better_the_larger_they_are():
    small, large = (magnet_collapse(sizes, np.random.default_rng(7), 20) for sizes in (SMALL, LARGE))
    assert abs(large.a - TEMPERATURE) < 4 * large.a_error
    assert abs(large.b - MAGNETISATION) < 4 * large.b_error
    assert abs(small.a - TEMPERATURE) > 2 * abs(large.a - TEMPERATURE)


@pytest.mark.slow
def test_the_verification_study_finds_honest_errors():
    rows = {row["what"]: row for row in study(trials=8, resamples=50)}
    for name in ("onset: threshold", "onset: exponent", "crossing: threshold", "crossing: exponent"):
        row = rows[name]
        assert row["mean"] == pytest.approx(row["true"], rel=0.01)
        assert abs(row["pull"]) < 4 * max(1.0, row["spread"]) / np.sqrt(8)
        assert 0.2 < row["spread"] < 2.5
    assert rows["curves: S"]["mean"] < 2.5


def test_the_study_s_data_have_the_thresholds_that_they_claim():
    for draw, locate_rough in ((onset_data, None), (crossing_data, crossing)):
        true, at, y = draw(32.0, np.random.default_rng(0))
        if locate_rough is None:
            assert (y[:, at < 0.95 * true] == 0).all()
            assert (y[:, at > 1.05 * true] > 0).all()
        else:
            assert locate_rough(at, y) == pytest.approx(true, rel=0.02)
