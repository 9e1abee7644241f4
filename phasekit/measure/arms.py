"""Networks that differ in one thing, tested on the same prompts: means, paired differences, and what they can't show.

An arm's errors form a table: a row for each seed of training, a column for each prompt (or item) of the test. Seeds and
prompts are both drawn from more than were looked at, so both are resampled, independently of each other (the pigeonhole
bootstrap: A. Owen, Annals of Applied Statistics 1, 386 (2007)). Arms of the same seed began with the same weights and
saw the same batches, and all arms were tested on the same prompts, so that differences are taken cell by cell.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.measure.bootstrap import student_interval

Array = NDArray[np.float64]
T = TypeVar("T")

#: Share of wrong claims that a family of comparisons may make at all.
LEVEL = 0.05
#: Probability with which a difference that is called detectable is found.
POWER = 0.8


@dataclass(frozen=True)
class Mean:
    """A mean over seeds and prompts.

    Attributes
    ----------
    value, error : float
        The standard error is that of the bootstrap, times √(s/(s−1)) for s seeds.
    interval : pair of float
        95 %: Student's, with s − 1 degrees of freedom. NaN with a single seed, which tells nothing about seeds.
    seeds, prompts : int
    """

    value: float
    error: float
    interval: tuple[float, float]
    seeds: int
    prompts: int


@dataclass(frozen=True)
class Difference:
    """An arm against the reference.

    Attributes
    ----------
    arm : str
    mean : Mean
        Of the arm's errors less the reference's, cell by cell.
    p : float
        Of Student's test that the difference is 0.
    corrected : float
        p times what Holm's correction asks for among all arms compared.
    resolvable : float
        The smallest difference that these seeds and prompts could have shown, at the strictest step of the correction.
    detectable : float
        The true difference that experiments like this one show with a probability of 80 %, at that step.
    """

    arm: str
    mean: Mean
    p: float
    corrected: float
    resolvable: float
    detectable: float

    @property
    def verdict(self) -> str:
        """ "lower", "higher", or "no difference that these seeds can show"."""
        if not self.corrected < LEVEL:
            return "no difference that these seeds can show"
        return "lower" if self.mean.value < 0 else "higher"


def mean_over_seeds(errors: ArrayLike, resamples: int | None = 2000, seed: int = 0) -> Mean:
    """Return the mean of errors (seeds, prompts) with its interval over both.

    Parameters
    ----------
    errors : array, shape (seeds, prompts)
    resamples : int, optional
        None: the limit of infinitely many, in closed form.
    seed : int

    Raises
    ------
    InputError
        If it is no table of finite numbers: a network that gave NaN has no mean error.
    """
    table = _table("errors", errors)
    seeds, prompts = table.shape
    value = float(table.mean())
    if seeds < 2:
        return Mean(value, float("nan"), (float("nan"), float("nan")), seeds, prompts)
    spread = _spread(table) if resamples is None else _resampled(table, resamples, seed)
    error = float(spread * np.sqrt(seeds / (seeds - 1)))
    return Mean(value, error, student_interval(value, error, seeds), seeds, prompts)


def _resampled(table: Array, resamples: int, seed: int) -> float:
    draws = np.random.default_rng(seed)
    of_seeds, of_prompts = (_weights(draws, resamples, count) for count in table.shape)
    return float(np.einsum("rp,rp->r", of_seeds @ table, of_prompts).std())


def _spread(table: Array) -> float:
    """Return the standard deviation of the mean of drawn rows and columns.

    Shares of rows w and of columns v are independent, Cov w = (1 − 11ᵀ/s)/s² for s rows and likewise for v, so that
    Var wᵀXv is a sum of squares: of row means, of column means, and of what neither explains.
    """
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    rest = table - rows - columns + table.mean()
    return float(np.sqrt(rows.var() / rows.size + columns.var() / columns.size + rest.var() / rest.size))


def compare_arms(errors: Mapping[str, ArrayLike], reference: str, resamples: int | None = 2000) -> list[Difference]:
    """Compare every arm with a reference, with Holm's correction for their number.

    Parameters
    ----------
    errors : mapping of arm to array, shape (seeds, prompts)
        The same seeds and prompts in the same order for all.
    reference : str
    resamples : int, optional
        As in :func:`mean_over_seeds`.

    Raises
    ------
    InputError
        If the reference is missing, shapes differ, there is a single seed, or errors aren't finite.
    """
    return compare_tests({"": errors}, reference, resamples)[""]


def compare_tests(
    tests: Mapping[T, Mapping[str, ArrayLike]], reference: str, resamples: int | None = None
) -> dict[T, list[Difference]]:
    """Compare every arm with a reference in each of several tests; Holm's correction is for all of them together.

    Parameters
    ----------
    tests : mapping of test to what :func:`compare_arms` takes
        Tests may have different numbers of prompts.
    reference, resamples
        As in :func:`compare_arms`.

    Raises
    ------
    InputError
        As :func:`compare_arms`.
    """
    found: dict[T, dict[str, Mean]] = {}
    for test, errors in tests.items():
        if reference not in errors:
            raise InputError("reference", reference, f"must be one of {', '.join(errors)}")
        base = _table(reference, errors[reference])
        if len(base) < 2:
            raise InputError("seeds", len(base), "must be at least 2: one seed tells nothing about seeds")
        found[test] = {}
        for arm, given in errors.items():
            table = _table(arm, given)
            if table.shape != base.shape:
                raise InputError(arm, table.shape, f"must have the reference's seeds and prompts, {base.shape}")
            if arm != reference:
                found[test][arm] = mean_over_seeds(table - base, resamples)
    family = [mean for means in found.values() for mean in means.values()]
    p = np.array([_p_value(mean, mean.seeds - 1) for mean in family])
    corrected = iter(zip(p, holm(p), strict=True))
    return {test: [_judged(arm, mean, *next(corrected), len(family)) for arm, mean in means.items()]
            for test, means in found.items()}  # fmt: skip


def _judged(arm: str, mean: Mean, p: float, corrected: float, family: int) -> Difference:
    reach, seen = _reaches(mean.seeds - 1, family)
    return Difference(arm, mean, float(p), float(corrected), reach * mean.error, seen * mean.error)


@functools.cache
def _reaches(degrees: int, family: int) -> tuple[float, float]:
    """Return what a difference must be, in standard errors, to be claimed, and to be claimed with the wanted power."""
    reach = float(stats.t.ppf(1 - LEVEL / (2 * family), degrees))

    def missed(true: float) -> float:
        return float(stats.nct.cdf(reach, degrees, true)) - (1 - POWER)

    enough = reach  # far beyond what is enough, SciPy's distribution is NaN
    while missed(enough) > 0:
        enough *= 1.25
    return reach, float(optimize.brentq(missed, 0, enough))


def share_interval(right: ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of the share of items (1, ½ or 0 each) that a single network gets right.

    It is Wilson's, over items alone: it says nothing about other seeds. Unlike a standard error it isn't 0 where all
    items are right. (E. B. Wilson, J. Am. Stat. Assoc. 22, 209 (1927).)
    """
    values = np.asarray(right, dtype=float)
    share, z = values.mean(), stats.norm.ppf(0.975)
    shrunk = (share + z**2 / (2 * values.size)) / (1 + z**2 / values.size)
    reach = z / (1 + z**2 / values.size) * np.sqrt(share * (1 - share) / values.size + (z / (2 * values.size)) ** 2)
    return float(shrunk - reach), float(shrunk + reach)


def holm(p: ArrayLike) -> Array:
    """Return p-values corrected for their number: S. Holm, Scand. J. Statist. 6, 65 (1979)."""
    given = np.asarray(p, dtype=float)
    order = given.argsort()
    steps = np.maximum.accumulate(given[order] * np.arange(given.size, 0, -1))
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(steps, 1)
    return corrected


def rank_correlation(x: ArrayLike, y: ArrayLike) -> Mean:
    """Return Spearman's correlation over prompts, the mean over seeds with its interval; x and y are (seeds, prompts).

    Seeds in which one of the two is the same for all prompts have no correlation and are left out; NaN if none is left.
    """
    pairs = list(zip(_table("x", x), _table("y", y), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        each = np.array([stats.spearmanr(*pair).statistic for pair in pairs])
    told = each[np.isfinite(each)]
    prompts = len(pairs[0][0])
    if told.size < 2:
        value = float(told[0]) if told.size else float("nan")
        return Mean(value, float("nan"), (float("nan"), float("nan")), told.size, prompts)
    error = float(told.std(ddof=1) / np.sqrt(told.size))
    return Mean(float(told.mean()), error, student_interval(float(told.mean()), error, told.size), told.size, prompts)


def _weights(draws: np.random.Generator, resamples: int, count: int) -> Array:
    """Return how often each of so many things is drawn, as shares (resamples, count)."""
    resamples = whole_number("resamples", resamples, 2)
    return np.asarray(draws.multinomial(count, np.full(count, 1 / count), size=resamples) / count)


def _p_value(mean: Mean, degrees: int) -> float:
    if mean.error == 0:
        return 1.0 if mean.value == 0 else 0.0
    return float(2 * stats.t.sf(abs(mean.value) / mean.error, degrees))


def _table(name: str, values: ArrayLike) -> Array:
    table = np.asarray(values, dtype=float)
    if table.ndim != 2 or table.size == 0:
        raise InputError(name, table.shape, "must be a table of seeds and prompts")
    if not np.isfinite(table).all():
        raise InputError(name, float(table[~np.isfinite(table)][0]), "errors must be finite numbers")
    return table
