"""The error of thresholds: how large it is, and how much work is done for the one that was asked for.

Thresholds of the posterior of normalised scores come from averages over rows, which are integrated, or drawn. Their
error is known by two resolutions: at P*, averages of a much finer quadrature at both minima (or the scatter of
independent groups of drawn rows) say how far equal actions lie from where they were found; a crossover, whose place is
a derivative, is found twice. Work begins coarse and gets finer for those models whose error is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from phasekit.checks import real_number
from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action import Action, PoolingVector
from phasekit.theory.action.base import Array, Fluctuating, Posterior
from phasekit.theory.action.row_averages import ROW_ERROR
from phasekit.theory.transitions.course import course_of

R = TypeVar("R")

#: Rows' errors: the coarsest, how many times a threshold's it is expected to be allowed, and the finest.
_COARSEST, _TIMES, _FINEST = 1e-3, 10.0, 1e-9
#: A next attempt is this much finer at least and at most, and aims at this share of what was asked for.
_FINER, _MUCH_FINER, _AIM = 10.0, 1e3, 0.5
#: Relative error of thresholds that are roots of equations without averages over rows.
_ROOTS = 1e-8


def check_error(action: Action, error: float | None) -> float | None:
    """Return the relative error that is asked for.

    Raises
    ------
    InputError
        If it isn't between 0 and 1, or the action's thresholds have none that could be chosen.
    """
    if error is None:
        return None
    error = real_number("error", error, above=0.0, most=1.0)
    if not isinstance(action, Posterior):
        raise InputError("error", error, "thresholds of the map estimator are exact to rounding; leave it out")
    if isinstance(action, PoolingVector):
        raise InputError("error", error, "isn't known for this approximate theory (token+position inputs)")
    return error


def locate(action: Action, p: Parameters, error: float | None = None) -> dict[str, Array]:
    """Return the transitions of flat parameters (their P is ignored) as arrays with one row per model.

    Which quantities there are is said by :meth:`phasekit.theory.transitions.course.Course.locate` of the action's
    course. With an ``error``, thresholds have one at most so large, relative, and it is stated as ``NAME_error``; where
    it can't be reached the model is marked as ``failed``.
    """
    course = course_of(action)
    if error is None:
        return course.locate(action, p)
    if isinstance(action, Fluctuating):
        return _within(action, p, error)
    found = course.locate(action, p)
    return found | {f"{threshold.name}_error": _ROOTS * found[threshold.name] for threshold in course.thresholds}


def _within(action: Action, p: Parameters, error: float) -> dict[str, Array]:
    """Locate thresholds with coarse averages first, and again with finer ones where that isn't enough."""
    assert isinstance(action, Fluctuating)
    rows = np.arange(p.shape[0])
    fineness = np.full(p.shape, min(_COARSEST, _TIMES * error))
    whole: dict[str, Any] = {}
    before = np.full(p.shape, np.nan)  # smooth crossovers, one resolution earlier
    while rows.size:
        now = fineness[rows].min()
        found = at_first_that_can(partial(_with_rows, action, p[rows]), float(now))
        found["P_x_error"] = np.abs(found["P_x"] - before[rows])
        before[rows] = found["P_x"]
        met, stated = _met(found, error)
        found["failed"] = found["failed"] | ~met
        for name, values in found.items():
            whole.setdefault(name, np.full((*p.shape, *values.shape[1:]), np.nan, values.dtype))[rows] = values
        again = ~met & (now > _FINEST)
        finer = np.clip(_AIM * error / np.where(stated > 0, stated, np.inf), 1 / _MUCH_FINER, 1 / _FINER)
        rows, fineness[rows] = rows[again], np.maximum(now * finer, _FINEST)
    lost = whole["failed"].astype(bool)
    whole["failed"] = lost
    for name in ("P_star", "P_x", "spinodals"):
        if name in whole:
            whole[name][lost] = np.nan
    return whole


def _with_rows(action: Fluctuating, p: Parameters, error: float) -> dict[str, Array]:
    return course_of(action).locate(action.with_error(error), p)


def at_first_that_can(function: Callable[[float], R], error: float) -> R:
    """Return a function of rows' error; where rows can't be averaged so coarsely, of the usual one."""
    try:
        return function(error)
    except InputError:
        if error <= ROW_ERROR:
            raise
        return function(ROW_ERROR)


def _met(found: dict[str, Array], error: float) -> tuple[Any, Array]:
    """Return which models have thresholds with an error that is small enough, and the relative errors."""
    stated = np.full(found["failed"].shape, np.nan)
    for name in ("P_star", "P_x"):
        exists = np.isfinite(found[name])
        stated[exists] = (found[f"{name}_error"] / found[name])[exists] if f"{name}_error" in found else np.nan
    return stated <= error, stated
