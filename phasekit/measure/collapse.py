"""Finite-size scaling: the exponents that put the curves of all sizes onto one.

``y N^-b`` against ``(x - origin) N^-a`` for sizes N. In the usual form, y = N^(ζ/ν) f((x - x_c) N^(1/ν)), a = -1/ν and
b = ζ/ν. How well curves lie on one another is measured as Houdayer and Hartmann do (Phys. Rev. B 70, 014418, 2004,
arXiv:cond-mat/0402036): S is the mean over points of the squared distance to the line through its neighbours on the
other curves, in units of its variance. S near 1 is a collapse within error bars; S ≫ 1 says that corrections to
scaling exceed them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from phasekit.errors import InputError
from phasekit.measure.bootstrap import student_interval

Array = NDArray[np.float64]

#: At least this share of the points must have neighbours on other curves: no perfect collapse of curves far apart.
_OVERLAP = 0.5
_SPREAD = (-0.25, 0.0, 0.25)
_FAR = 1e12
#: How far from the guess a may lie, and b from 0: beyond, curves are stretched until nothing is left to compare.
_REACH = (0.5, 3.0)


@dataclass(frozen=True)
class Collapse:
    """Exponents of the best collapse.

    Attributes
    ----------
    a, b : float
        Exponents of x and of y.
    a_error, b_error : float
        Standard errors over resamples of the data sets (√(n/(n−1)) included).
    a_interval, b_interval : pairs of float
        95 % intervals, by Student's t for the number of data sets (of the size with fewest).
    quality : float
        S of the best collapse.
    reference : tuple of float, or None
        a, b and S of the best collapse of other curves at the same points, with the same error bars (a theory's).
    """

    a: float
    b: float
    a_error: float
    b_error: float
    a_interval: tuple[float, float]
    b_interval: tuple[float, float]
    quality: float
    reference: tuple[float, float, float] | None = None


def quality(x: Sequence[Array], y: Sequence[Array], dy: Sequence[Array]) -> float:
    """Return Houdayer and Hartmann's S of curves that should lie on one another; infinity if they hardly overlap.

    Parameters
    ----------
    x, y, dy : one array a curve
        Points in increasing order of x, their values and standard errors.
    """
    total, compared = 0.0, 0
    for k, (own_x, own_y, own_dy) in enumerate(zip(x, y, dy, strict=True)):
        sums = np.zeros((5, own_x.size))  # of the weights, and of w x, w y, w x², w x y: of the neighbours
        for other in range(len(x)):
            if other == k or x[other].size < 2:
                continue
            right = np.clip(np.searchsorted(x[other], own_x), 1, x[other].size - 1)
            inside = (own_x >= x[other][0]) & (own_x <= x[other][-1])
            for place in (right - 1, right):
                X, Y, w = x[other][place], y[other][place], np.where(inside, dy[other][place] ** -2, 0.0)
                sums += np.stack([w, w * X, w * Y, w * X**2, w * X * Y])
        w, wx, wy, wxx, wxy = sums
        there = w > 0
        w, wx, wy, wxx, wxy = sums[:, there]
        delta = w * wxx - wx**2
        at = own_x[there]
        line = ((wxx * wy - wx * wxy) + at * (w * wxy - wx * wy)) / delta
        variance = (wxx - 2 * at * wx + at**2 * w) / delta
        total += float((((own_y[there] - line) ** 2) / (own_dy[there] ** 2 + variance)).sum())
        compared += int(there.sum())
    points = sum(curve.size for curve in x)
    return total / compared if compared >= _OVERLAP * points else np.inf


def collapse(
    sizes: Sequence[float],
    x: Sequence[Array],
    y: Sequence[Array],
    guess: float,
    *,
    origin: float = 0.0,
    fixed_b: float | None = None,
    resamples: int = 100,
    seed: int = 0,
    reference: Sequence[Array] | None = None,
) -> Collapse:
    """Find the exponents of the best collapse, with errors from resampled data sets.

    Parameters
    ----------
    sizes : N of each curve, at least three
    x : one array a curve, in any order
    y : one array a curve, shape (data sets, points)
        NaN where missing; points seen on fewer than two data sets, or without any spread, are left out.
    guess : float
        Where to begin to search for a; the search starts from several places around it.
    origin : float
        What x is counted from: the critical point of an infinite system, if x crosses one.
    fixed_b : float, optional
        Search for a only, at this b.
    resamples : int
    seed : int
    reference : one array a curve, optional
        Other values for the same points (a theory's), to be collapsed with the error bars of ``y``.

    Raises
    ------
    InputError
        For fewer than three curves, or curves that can't be put onto one another.
    """
    orders = [np.argsort(one) for one in x]
    x, y = ([values[..., order] for values, order in zip(all_, orders, strict=True)] for all_ in (x, y))
    if reference is not None:
        reference = [values[order] for values, order in zip(reference, orders, strict=True)]
    errors = [_standard_error(values) for values in y]
    usable = [np.isfinite(error) & (error > 0) for error in errors]
    kept = [k for k, there in enumerate(usable) if there.sum() > 1]
    if len(kept) < 3:
        raise InputError("collapse", len(kept), "needs at least 3 sizes with two or more points")
    values = [y[k][:, usable[k]] for k in kept]
    search = _Search(
        logs=np.log([sizes[k] for k in kept]) - np.mean(np.log([sizes[k] for k in kept])),
        x=[x[k][usable[k]] - origin for k in kept],
        dy=[errors[k][usable[k]] for k in kept],
        guess=guess,
        fixed_b=fixed_b,
    )
    (a, b), S = search.everywhere([np.nanmean(v, axis=0) for v in values])
    random = np.random.default_rng(seed)
    drawn = np.array([search.near([_resampled(v, random) for v in values], (a, b))[0] for _ in range(resamples)])
    smallest = min(len(v) for v in values)
    a_error, b_error = drawn.std(0) * np.sqrt(smallest / (smallest - 1))
    other = None
    if reference is not None:
        with contextlib.suppress(InputError):  # curves of other networks needn't overlap where these do
            (other_a, other_b), other_S = search.everywhere([reference[k][usable[k]] for k in kept])
            other = (other_a, other_b, other_S)
    of_a, of_b = (student_interval(*number, smallest) for number in ((a, float(a_error)), (b, float(b_error))))
    return Collapse(a, b, float(a_error), float(b_error), of_a, of_b, S, other)


@dataclass(frozen=True, eq=False)
class _Search:
    """Curves at the sizes exp(logs), whose heights are given to each search."""

    logs: Array
    x: Sequence[Array]
    dy: Sequence[Array]
    guess: float
    fixed_b: float | None

    def everywhere(self, y: Sequence[Array]) -> tuple[tuple[float, float], float]:
        """Return the best exponents and S, searched from several places around the guess and b = 0.

        Raises
        ------
        InputError
            If the curves don't overlap anywhere.
        """
        heights = _SPREAD if self.fixed_b is None else (0.0,)
        found = [self.near(y, (self.guess + da, (self.fixed_b or 0.0) + db)) for da, db in product(_SPREAD, heights)]
        exponents, S = min(found, key=lambda one: one[1])
        if S > 0.99 * _FAR:
            raise InputError("collapse", self.guess, "the curves don't overlap, whatever the exponents near this guess")
        return exponents, S

    def near(self, y: Sequence[Array], start: tuple[float, float]) -> tuple[tuple[float, float], float]:
        """Return the best exponents and S, searched from one place (Nelder and Mead)."""
        first = np.array(start if self.fixed_b is None else start[:1])
        options = {"initial_simplex": np.vstack([first, first + 0.05 * np.eye(first.size)]), "xatol": 1e-5}
        result = optimize.minimize(
            self._distance, first, (y,), method="Nelder-Mead", options={**options, "fatol": 1e-4}
        )
        return self._both(result.x), float(np.exp(result.fun))

    def _distance(self, exponents: Array, y: Sequence[Array]) -> float:
        a, b = self._both(exponents)
        if abs(a - self.guess) > _REACH[0] or abs(b) > _REACH[1]:
            return float(np.log(_FAR))
        scaled = zip(self.x, y, self.dy, self.logs, strict=True)
        curves = [(x * np.exp(-a * n), h * np.exp(-b * n), e * np.exp(-b * n)) for x, h, e, n in scaled]
        return float(np.log(min(_FAR, quality(*zip(*curves, strict=True)))))

    def _both(self, exponents: Array) -> tuple[float, float]:
        return float(exponents[0]), float(exponents[1]) if self.fixed_b is None else self.fixed_b


def _standard_error(y: Array) -> Array:
    """Return standard errors of means over data sets; NaN where there are fewer than two."""
    count = np.isfinite(y).sum(0)
    enough = count > 1
    error = np.full(y.shape[1], np.nan)
    error[enough] = np.nanstd(y[:, enough], axis=0, ddof=1) / np.sqrt(count[enough])
    return error


def _resampled(y: Array, random: np.random.Generator) -> Array:
    """Return means over data sets drawn with replacement; where a point has none left, over all.

    (scipy.stats.bootstrap gives one number a resample, and knows no points that are missing.)
    """
    drawn = y[random.integers(len(y), size=len(y))]
    empty = ~np.isfinite(drawn).any(0)
    drawn[:, empty] = y[:, empty]
    return np.asarray(np.nanmean(drawn, axis=0))
