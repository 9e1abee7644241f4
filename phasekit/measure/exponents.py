"""Exponents: straight lines through logarithms, with the error that error bars cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from phasekit.checks import finite_numbers
from phasekit.errors import InputError


@dataclass(frozen=True)
class PowerLaw:
    """A power law ``prefactor · x^exponent`` through measured values.

    Attributes
    ----------
    exponent, error : float
        All values count alike, so that the exponent belongs to this range of sizes and not to whichever size was
        measured best; the error is what the values' error bars make of it, and says nothing of corrections to scaling.
    prefactor : float
    chi_square : float
        Sum of squared deviations of the logarithms, in units of their errors.
    degrees : int
        Values minus 2.
    probability : float
        Of a larger ``chi_square``, if the law and the error bars are right. If it is tiny, the values don't lie on a
        power law, and the exponent is an effective one, for these sizes.
    """

    exponent: float
    error: float
    prefactor: float
    chi_square: float
    degrees: int
    probability: float


def fit_power_law(x: ArrayLike, y: ArrayLike, error: ArrayLike) -> PowerLaw:
    """Fit ``ln y = ln prefactor + exponent · ln x`` by least squares, and propagate the errors of y.

    Raises
    ------
    InputError
        For fewer than three values, equal sizes, or any number that isn't positive.
    """
    x, y, error = finite_numbers("sizes", x), finite_numbers("values", y), finite_numbers("errors", error)
    if not x.shape == y.shape == error.shape or x.ndim != 1:
        raise InputError("exponent", [x.shape, y.shape, error.shape], "needs a value and an error for each size")
    if x.size < 3 or len(set(x.tolist())) < 2:
        raise InputError("exponent", x.tolist(), "needs at least 3 sizes, not all of them equal")
    for name, values in (("sizes", x), ("values", y), ("errors", error)):
        if not (values > 0).all():
            raise InputError(name, values.tolist(), "must all be above 0")
    line = stats.linregress(np.log(x), np.log(y))
    from_middle = np.log(x) - np.log(x).mean()
    chi_square = float((((np.log(y) - line.intercept - line.slope * np.log(x)) / (error / y)) ** 2).sum())
    return PowerLaw(
        exponent=float(line.slope),
        error=float(np.sqrt((from_middle**2 * (error / y) ** 2).sum()) / (from_middle**2).sum()),
        prefactor=float(np.exp(line.intercept)),
        chi_square=chi_square,
        degrees=x.size - 2,
        probability=float(stats.chi2.sf(chi_square, x.size - 2)),
    )
