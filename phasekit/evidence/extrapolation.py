"""Means of a biased sampler at several steps, extrapolated to zero step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasekit.checks import finite_numbers, whole_number
from phasekit.errors import InputError


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """A weighted polynomial through means at several steps.

    Attributes
    ----------
    value, error : float
        At zero step.
    slope : float
        Of the bias, per unit of step.
    chi2 : float
        Sum of squared residuals in standard errors, over ``freedom`` degrees of freedom: much more than 1 each means
        that the steps are too long for a bias of this order.
    freedom : int
    """

    value: float
    error: float
    slope: float
    chi2: float
    freedom: int


def to_zero_step(steps: ArrayLike, means: ArrayLike, errors: ArrayLike, *, order: int = 1) -> Extrapolation:
    """Fit means = value + slope · step^order + … by weighted least squares.

    Parameters
    ----------
    steps, means, errors : arrays of equal length
        At least two different steps; ``errors`` are standard errors of the means.
    order : int
        Order of the sampler's bias in its step: 1 for SGLD, 2 for BAOAB.

    Raises
    ------
    InputError
        For fewer than two steps, errors that aren't above 0, an order below 1, and what isn't a finite number.
    """
    x, y, sigma = finite_numbers("steps", steps), finite_numbers("means", means), finite_numbers("errors", errors)
    if x.ndim != 1 or x.shape != y.shape or x.shape != sigma.shape or len(set(x.tolist())) < 2:
        raise InputError("steps", x.tolist(), "must be at least two different ones, with a mean and an error each")
    if not (sigma > 0).all():
        raise InputError("errors", sigma.tolist(), "must be numbers above 0")
    powers = x ** whole_number("order", order, 1)
    (slope, value), covariance = np.polyfit(powers, y, 1, w=1 / sigma, cov="unscaled")
    chi2 = (((value + slope * powers - y) / sigma) ** 2).sum()
    return Extrapolation(float(value), float(np.sqrt(covariance[1, 1])), float(slope), float(chi2), len(x) - 2)
