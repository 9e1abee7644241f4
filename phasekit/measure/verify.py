"""Does the fitting work? Thresholds, exponents and collapses of data whose truth is known, many times over.

Four kinds of data; but for the third, none is made by the formula that is fitted:

* onset: networks of a mean-field model, ``y (1 + y/8) = P/P₁ − 1`` with ``P₁ = 3 N^1.5``, every data set with an onset
  of its own (1 %), measured at seven P;
* crossing: energies of two branches that cross at ``P* = 2 N^1.25``, with noise that grows with N;
* curves: ``y = N^b f((x − 1) N^-a)`` with noise. S is 1 where error bars are known; estimated from n data
  sets they make it (n − 1)/(n − 3) on average;
* Curie and Weiss's magnet of N spins: the mean of |m| over exactly known probabilities of all 2^N states, sampled;
  |m| = N^(−1/4) f((T − 1) N^(1/2)) at large N. As with real data there are corrections to scaling, so the exponents of
  small magnets are off by more than their errors, those of large ones by less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from phasekit.measure.bootstrap import bootstrap
from phasekit.measure.collapse import Collapse, collapse
from phasekit.measure.exponents import fit_power_law
from phasekit.measure.locate import Array, Locate, crossing, onset

COLUMNS = ("what", "true", "mean", "mean error", "pull", "spread", "68 %", "95 %")
_SIZES = (16.0, 32.0, 64.0, 128.0)
_DATA_SETS = 8
_ONSET, _CROSSING = 1.5, 1.25
_CURVES = (0.8, 0.3)
#: Spins of the magnets, and how many states of each are sampled at each temperature for one data set.
SMALL, LARGE = (128, 256, 512, 1024), (4096, 8192, 16384, 32768)
_STATES = 400
TEMPERATURE, MAGNETISATION = -0.5, -0.25


def study(trials: int = 30, seed: int = 0, resamples: int = 200) -> list[dict[str, Any]]:
    """Return a row for each thing that is measured: its true value, the estimates' mean, and how honest errors are.

    ``pull`` and ``spread`` are the mean and standard deviation of (estimate − truth)/error over the trials; ``68 %``
    and ``95 %`` are how often the truth lay within one error, and within the 95 % interval (two errors for exponents).
    """
    random = np.random.default_rng(seed)
    rows: dict[str, list[tuple[float, float, float, bool]]] = {}

    def note(what: str, true: float, estimate: float, error: float, interval: tuple[float, float]) -> None:
        rows.setdefault(what, []).append((true, estimate, error, interval[0] <= true <= interval[1]))

    for _ in range(trials):
        for name, draw, locate, exponent in (
            ("onset", onset_data, onset, _ONSET),
            ("crossing", crossing_data, crossing, _CROSSING),
        ):
            thresholds = _thresholds(draw, locate, random, resamples)
            truth, first = thresholds[0]
            note(f"{name}: threshold", truth, first.value, first.total_error, first.interval)
            values, errors = ([getattr(e, key) for _, e in thresholds] for key in ("value", "total_error"))
            law = fit_power_law(_SIZES, values, errors)
            note(f"{name}: exponent", exponent, law.exponent, law.error, _two_errors(law.exponent, law.error))
    for _ in range(max(1, trials // 5)):
        for name, (a, b), draw_collapse in (
            ("curves", _CURVES, curves_collapse),
            ("small magnets", (TEMPERATURE, MAGNETISATION), lambda *args: magnet_collapse(SMALL, *args)),
            ("large magnets", (TEMPERATURE, MAGNETISATION), lambda *args: magnet_collapse(LARGE, *args)),
        ):
            found = draw_collapse(random, resamples // 2)
            note(f"{name}: a", a, found.a, found.a_error, found.a_interval)
            note(f"{name}: b", b, found.b, found.b_error, found.b_interval)
            note(f"{name}: S", (_DATA_SETS - 1) / (_DATA_SETS - 3), found.quality, np.nan, (np.nan, np.nan))
    return [_row(what, found) for what, found in rows.items()]


def _two_errors(value: float, error: float) -> tuple[float, float]:
    return value - 2 * error, value + 2 * error


def _row(what: str, found: Sequence[tuple[float, float, float, bool]]) -> dict[str, Any]:
    true, estimate, error = (np.array([row[k] for row in found]) for k in range(3))
    pull = (estimate - true) / error
    numbers = (true[0], estimate.mean(), error.mean(), pull.mean(), pull.std())
    known = bool(np.isfinite(error).all())  # S comes without an error
    within = (float((np.abs(pull) < 1).mean()), float(np.mean([row[3] for row in found]))) if known else (np.nan,) * 2
    return dict(zip(COLUMNS, (what, *map(float, numbers), *within), strict=True))


def _thresholds(draw: Draw, locate: Locate, random: np.random.Generator, resamples: int) -> list[tuple[float, Any]]:
    found = []
    for size in _SIZES:
        true, P, y = draw(size, random)
        found.append((true, bootstrap(P, y, locate, resamples, seed=int(random.integers(2**31)))))
    return found


Draw = Callable[[float, np.random.Generator], tuple[float, Array, Array]]


def onset_data(size: float, random: np.random.Generator) -> tuple[float, Array, Array]:
    """Return the true onset, P, and y (data sets, P) of order parameters that grow from it."""
    true = 3 * size**_ONSET
    P = true * np.array([0.8, 0.9, 1.05, 1.1, 1.2, 1.3, 1.4])
    own = true * (1 + 0.01 * random.standard_normal((_DATA_SETS, 1)))
    excess = np.maximum(P / own - 1, 0.0)
    y = 4 * (np.sqrt(1 + excess / 2) - 1)
    return true, P, y * (1 + 0.005 * random.standard_normal(y.shape))


def crossing_data(size: float, random: np.random.Generator) -> tuple[float, Array, Array]:
    """Return the true crossing, P, and energy differences y (data sets, P)."""
    true = 2 * size**_CROSSING
    P = true * np.array([0.96, 0.98, 0.995, 1.015, 1.03])
    noise = random.standard_normal((_DATA_SETS, P.size)) + random.standard_normal((_DATA_SETS, 1))
    return true, P, size * (np.exp(-4 * (P / true - 1)) - 1) + 0.02 * size * noise


def curves_collapse(random: np.random.Generator, resamples: int) -> Collapse:
    """Return the collapse of noisy curves that lie on one another exactly, but for their noise."""
    a, b = _CURVES
    scaled = np.linspace(-1.0, 1.0, 9)
    x = [1 + scaled * size**a for size in _SIZES]
    heights = [size**b * (2 + scaled) for size in _SIZES]
    y = [h * (1 + 0.02 * random.standard_normal((_DATA_SETS, h.size))) for h in heights]
    return collapse(_SIZES, x, y, a + 0.1, origin=1.0, resamples=resamples)


def magnet_data(spins: int, temperatures: Array, random: np.random.Generator, data_sets: int = _DATA_SETS) -> Array:
    """Return means of |m| over sampled states of a Curie-Weiss magnet, shape (data sets, temperatures)."""
    size, m = (data_sets, _STATES), np.abs(magnetisations(spins))
    sampled = [random.choice(m, size=size, p=p).mean(1) for p in magnet_probabilities(spins, temperatures)]
    return np.stack(sampled, axis=1)


def magnetisations(spins: int) -> Array:
    """Return the values that m = (up − down)/N can have."""
    return 2 * np.arange(spins + 1) / spins - 1


def magnet_probabilities(spins: int, temperatures: Array) -> Array:
    """Return the probability of each magnetisation, proportional to (N over up) exp(N m²/(2T)): exact, at any N."""
    m, up = magnetisations(spins), np.arange(spins + 1)
    states = special.gammaln(spins + 1) - special.gammaln(up + 1) - special.gammaln(spins - up + 1)
    return np.asarray(special.softmax(states + spins * m**2 / (2 * temperatures[:, None]), axis=1))


def magnet_collapse(sizes: Sequence[int], random: np.random.Generator, resamples: int) -> Collapse:
    """Return the collapse of magnets of several sizes near their critical temperature, 1."""
    scaled = np.linspace(-1.5, 1.5, 9)
    temperatures = [1 + scaled / np.sqrt(spins) for spins in sizes]
    data = [magnet_data(spins, T, random) for spins, T in zip(sizes, temperatures, strict=True)]
    return collapse(sizes, temperatures, data, TEMPERATURE + 0.1, origin=1.0, resamples=resamples)
