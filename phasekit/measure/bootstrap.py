"""Error bars from data sets: resample them, locate again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from phasekit.checks import whole_number
from phasekit.measure.locate import Array, Locate, NotLocated

#: Fewer data sets say too little about how much data sets differ.
LEAST_SEEDS = 3
#: An error bar needs a threshold in at least this share of the resamples.
_LEAST_LOCATED = 0.9


@dataclass(frozen=True)
class Estimate:
    """A number measured on several data sets.

    Attributes
    ----------
    value : float
    error : float
        Standard error: the standard deviation over resamples, times √(n/(n−1)) for n data sets.
    interpolation : float
        How far the value moves with the polynomial that it is read off from, beyond what noise explains.
    interval : pair of float
        95 % interval: the value ± Student's t times its total error, for that many data sets less one. Percentiles of
        the resamples would cover the truth in 74 and 81 % of cases only, with three and four data sets.
    located : float
        Share of resamples that showed the threshold.
    """

    value: float
    error: float
    interpolation: float
    interval: tuple[float, float]
    located: float

    @property
    def total_error(self) -> float:
        """Both errors, added in quadrature."""
        return float(np.hypot(self.error, self.interpolation))


def bootstrap(P: Array, y: Array, locate: Locate, resamples: int = 500, seed: int = 0) -> Estimate:
    """Locate a threshold, and say how much it would differ on other data sets.

    Data sets, the rows of ``y``, are drawn with replacement (:func:`scipy.stats.bootstrap`): a data seed's data at
    different P are drawn together, whatever they have in common.

    Raises
    ------
    InputError
        For fewer than two resamples.
    NotLocated
        If the threshold can't be located, on these data or on a tenth of the resamples, or data sets are too few.
    """
    if len(y) < LEAST_SEEDS:
        raise NotLocated(f"an error bar needs at least {LEAST_SEEDS} data sets")
    resamples = whole_number("resamples", resamples, 2)
    value = locate(P, y)

    def again(rows: NDArray[np.int64]) -> float:
        try:
            return locate(P, y[rows])
        except NotLocated:
            return np.nan

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # resamples without a threshold are counted below
        drawn = stats.bootstrap(
            (np.arange(len(y)),), again, n_resamples=resamples, vectorized=False, method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution  # fmt: skip
    found = drawn[np.isfinite(drawn)]
    located = found.size / drawn.size
    if located < _LEAST_LOCATED:
        raise NotLocated(f"only {located:.0%} of resamples of the data sets show it")
    error = float(found.std() * np.sqrt(len(y) / (len(y) - 1)))
    interpolation = _interpolation(P, y, locate)
    return Estimate(
        value=value,
        error=error,
        interpolation=interpolation,
        interval=student_interval(value, float(np.hypot(error, interpolation)), len(y)),
        located=located,
    )


def student_interval(value: float, error: float, data_sets: int) -> tuple[float, float]:
    """Return the 95 % interval of a mean over a few data sets, whose scatter gives the standard error."""
    reach = float(stats.t.ppf(0.975, data_sets - 1)) * error
    return value - reach, value + reach


def _interpolation(P: Array, y: Array, locate: Locate) -> float:
    """Return the change with the polynomial, less the share that is noise (jackknife over data sets)."""

    def change(rows: NDArray[np.int64]) -> float:
        try:
            return locate(P, y[rows], check=True) - locate(P, y[rows])
        except NotLocated:
            return np.nan

    n = len(y)
    everyone = np.arange(n)
    without = np.array([change(np.delete(everyone, k)) for k in everyone])
    without = without[np.isfinite(without)]
    noise = without.var() * (n - 1) if without.size else 0.0
    whole = change(everyone)
    return float(np.sqrt(max(0.0, whole**2 - noise))) if np.isfinite(whole) else 0.0
