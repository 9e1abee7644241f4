"""Descents to minima in several coordinates, for many models and starts at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory.action.base import Array

#: Real numbers, or complex ones that carry a derivative.
Numbers = NDArray[Any]
#: A function of points (..., k) and parameters.
OfPoints = Callable[[Numbers, Parameters], Numbers]

#: Complex step: derivatives are exact to rounding however small it is.
STEP = 1e-100
#: Steps at most, how often one is cut to a quarter, and the slope, relative to the curvature, at which a descent ends.
_STEPS, _HALVINGS, _NEAR = 200, 8, 1e-9
#: Smallest curvature that a step trusts; two ends this close (relative) are one minimum.
_FLAT, _SAME = 1e-3, 1e-3


def descend(x: Array, p: Parameters, value: OfPoints, gradient: OfPoints, longest: OfPoints) -> Array:
    """Follow Newton's method downhill, with the Hessian's absolute eigenvalues, as long as the value falls.

    Parameters
    ----------
    x : array, shape (points, k)
    p : Parameters
        Flat, one for each point.
    value, gradient : functions of points; the gradient takes complex points
    longest : function that returns how far a step from a point may lead, in each coordinate
    """
    x = x.copy()
    height = value(x, p)
    active = np.flatnonzero(np.isfinite(height))
    for _ in range(_STEPS):
        if active.size == 0:
            break
        here, there = x[active], p[active]
        slope = gradient(here, there)
        eigenvalues, vectors = np.linalg.eigh(hessian(gradient, here, there))
        size = np.abs(eigenvalues)
        along = np.einsum("...ji,...j->...i", vectors, slope) / np.maximum(size, _FLAT)
        step = -np.einsum("...ij,...j->...i", vectors, along)
        step = step / np.maximum(1.0, (np.abs(step) / longest(here, there)).max(-1, keepdims=True))
        moved = np.zeros(active.size, dtype=bool)
        for _ in range(_HALVINGS):
            trial = here + step
            trial_height = value(trial, there)
            better = ~moved & (trial_height < height[active])
            x[active[better]], height[active[better]] = trial[better], trial_height[better]
            moved |= better
            if moved.all():
                break
            step = step / 4
        far = np.abs(slope).max(-1) > _NEAR * np.maximum(1.0, size.max(-1))
        active = active[moved & far]
    return x


def hessian(gradient: OfPoints, x: Array, p: Parameters) -> Array:
    """Return the matrix of second derivatives, shape (..., k, k), by complex steps of the gradient."""
    matrix = by_complex_step(lambda x: gradient(x, p), x)
    return np.asarray(matrix + np.swapaxes(matrix, -1, -2)) / 2


def by_complex_step(function: Callable[[Numbers], Numbers], at: Array) -> Array:
    """Return the matrix of derivatives of a function of the last axis."""
    columns = [function(at + 1j * STEP * unit).imag / STEP for unit in np.eye(at.shape[-1])]
    return np.stack(columns, axis=-1)


def met_before(x: Array) -> NDArray[np.bool_]:
    """Return which points (..., starts, k) are those of an earlier start, or NaN."""
    distance = np.abs(x[..., :, None, :] - x[..., None, :, :]).max(-1)
    same = distance <= _SAME * (1 + np.abs(x).max(-1)[..., None])
    return np.asarray(np.tril(same, -1).any(-1) | np.isnan(x).any(-1))
