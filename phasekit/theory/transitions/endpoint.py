"""Where a line of first-order transitions ends: the critical point of an action, a cusp of its stationary points.

Along the curve of stationary points P(u) the softest Hessian eigenvalue dips. It dips below zero where the curve folds,
with two minima between the folds, and stays positive where the passage is smooth. In between lies the endpoint, where
the first three derivatives of S along the soft direction vanish. It is found as the root of the lowest point of that
dip in one number of the model, say n of SSA, or L.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Estimator, Grid, Model, Parameters, axes_of, given_models
from phasekit.theory import solve
from phasekit.theory.action import Action, action_for
from phasekit.theory.action.base import Array, Curved, Fluctuating
from phasekit.theory.long_names import with_long_names
from phasekit.theory.slices import map_slices, slices_of
from phasekit.theory.transitions.course import course_of
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.precision import at_first_that_can, check_error
from phasekit.theory.transitions.table import model_attributes, parameters_without_P

if TYPE_CHECKING:
    import xarray as xr

#: How a number of the model moves others: value of the axis → all numbers that change.
Line = Callable[[Array], Mapping[str, Array]]
#: Relative precision of the endpoint, unless another one is asked for.
_PRECISION: dict[Estimator, float] = {"map": 1e-13, "posterior": 1e-3}
#: Errors of rows' averages relative to that of the endpoint, the coarsest, the finest, and that of a finer computation.
_OF_ROWS, _COARSEST, _FINEST, _FINER = 1e-2, 1e-3, 1e-9, 0.03
#: How many errors of the endpoint apart its dip is looked at for how fast it changes, and at most; attempts at most.
_APART, _FURTHEST, _ATTEMPTS = 10.0, 0.02, 3
#: The softest eigenvalue at an endpoint is at most this: a root of it, and no step over 0.
_ZERO: dict[Estimator, float] = {"map": 1e-8, "posterior": 1e-2}


@dataclass(frozen=True)
class Family:
    """Models along one number of theirs, with all else fixed.

    Parameters
    ----------
    axis : str
        The number that moves: V, L, sigma_w, sigma_g, kappa, or one of the score's (n, b, T, alpha).
    between : pair of float
        Where to look for the endpoint; L and V are real numbers here.
    line : callable, optional
        Which numbers to set at a value of the axis; by default the axis alone. SSA on its way to softmax:
        ``lambda n: {"n": n, "b": 1 / n}``.
    """

    axis: str
    between: tuple[float, float]
    line: Line | None = None

    @property
    def moved(self) -> tuple[str, ...]:
        """The numbers that change along it."""
        return (self.axis,) if self.line is None else tuple(self.line(np.array(self.between)))

    def at(self, x: Array, p: Parameters) -> Parameters:
        """Return the parameters at a value of the axis."""
        return p.replace(**({self.axis: x} if self.line is None else self.line(x)))


def critical_endpoint(
    models: Model | Grid, family: Family, estimator: Estimator = "map", *, error: float | None = None, jobs: int = 1
) -> xr.Dataset:
    """Locate the endpoint of the first-order line of every model.

    Parameters
    ----------
    models : Model or Grid
        Everything but P and the family's axis; a grid gives a curve of endpoints.
    family : Family
    estimator : "map" or "posterior"
        To 1e-13 relative for the map estimator (checked in 40 digits), to 1e-3 for the posterior unless said.
    error : float, optional
        Relative error of the axis' value at the posterior's endpoints, at most.
    jobs : int
        Processes to share the models of the posterior out among; the numbers are the same ones.

    Returns
    -------
    xarray.Dataset
        Along the grid's axes: the axis' value at the endpoint (by its name), ``P`` there, both order parameters,
        ``loss``, and what proves it: ``gradient`` (first derivative, whitened), ``softest`` (second), ``tilt`` (change
        of the second per unit of ln g along the curve: the third). For the posterior also ``NAME_error`` of the axis'
        value, from the dip by finer averages there; where it is larger than asked for the search ``failed``. All NaN
        where the passage is the same at both ends of the interval; and where ``failed``: the search broke down, and
        says nothing.

    Raises
    ------
    InputError
        If the axis is none of the model's numbers, is an axis of the grid or P, the interval is empty or leads out of
        what the score allows, or the action's stationary points aren't one curve (linear attention).
    """
    models = given_models(models)
    import xarray as xr

    base = models if isinstance(models, Model) else models.base
    action = action_for(base, estimator)
    _check(base, models, family, action)
    assert isinstance(action, Curved)  # what can end
    error = check_error(action, error)
    action = action.near_folds()
    grid = {} if isinstance(models, Model) else models.axes
    p = parameters_without_P(models).ravel()
    slices = slices_of(action, p, jobs)
    parts = map_slices(_endpoints, jobs, [(action, family, p[members], estimator, error) for members in slices])
    places = np.argsort(np.concatenate(slices))
    described = {name: np.concatenate([part[name] for part in parts])[places] for name in parts[0]}
    shape = [axis.size for axis in grid.values()]
    variables = {name: (list(grid), values.reshape(shape)) for name, values in described.items()}
    attributes = {**model_attributes(models, estimator, ("P", *family.moved)), "between": list(family.between)}
    return with_long_names(xr.Dataset(variables, coords=grid).assign_attrs(attributes))


def _endpoints(
    action: Curved, family: Family, p: Parameters, estimator: Estimator, error: float | None
) -> dict[str, Array]:
    """Locate endpoints of flat parameters."""
    relative = _PRECISION[estimator] if error is None else error
    if not isinstance(action, Fluctuating):
        return _search(action, family, p, relative, _ZERO[estimator])

    def at(rows: float) -> dict[str, Array]:
        now, finer = action.with_error(rows), action.with_error(max(_FINER * rows, _FINEST))
        assert isinstance(now, Curved)
        assert isinstance(finer, Curved)
        found = _search(now, family, p, relative / 4, _ZERO[estimator])  # the rest is left to the rows
        found[f"{family.axis}_error"] = _error_of(now, finer, family, found[family.axis], p, relative)
        return found

    rows = float(np.clip(_OF_ROWS * relative, _FINEST, _COARSEST))
    if error is None:
        return at(rows)
    for _ in range(_ATTEMPTS):
        found, rows = at_first_that_can(at, rows), max(_FINER * rows, _FINEST)
        met = ~(found[f"{family.axis}_error"] > relative * found[family.axis])
        if met.all():
            break
    lost = found["failed"].astype(bool) | ~met
    return {**{key: np.where(lost, np.nan, values) for key, values in found.items()}, "failed": lost}


def _error_of(now: Curved, finer: Curved, family: Family, found: Array, p: Parameters, relative: float) -> Array:
    """Return how far from the endpoint that was found a finer computation has it, from the dip and how it changes."""
    error = np.full(p.shape, np.nan)
    rows = np.flatnonzero(np.isfinite(found))
    if rows.size:
        x, q = found[rows], p[rows]
        apart = np.minimum(_APART * relative, _FURTHEST) * x
        inward = np.where(x + apart > family.between[1], -apart, apart)
        slope = (_dip(now, family, x + inward, q) - _dip(now, family, x, q)) / inward
        error[rows] = np.abs(_dip(finer, family, x, q) / slope)
    return error


def _dip(action: Curved, family: Family, x: Array, p: Parameters) -> Array:
    """Return the smallest of the softest eigenvalue along the curve at values of the axis."""
    return StationaryCurves(action, family.at(x, p)).softest()[1]


def _search(action: Curved, family: Family, p: Parameters, relative: float, zero: float) -> dict[str, Array]:
    low, high = (np.full(p.shape, float(end)) for end in family.between)

    def dip(x: Array, q: Parameters) -> Array:
        return _dip(action, family, x, q)

    found = solve.root(dip, low, high, p, relative=relative)
    described = _describe(action, family, found, p)
    failed = np.isnan(dip(low, p)) | np.isnan(dip(high, p)) | (np.abs(described["softest"]) > zero)
    return {**{name: np.where(failed, np.nan, values) for name, values in described.items()}, "failed": failed}


def _describe(action: Curved, family: Family, found: Array, p: Parameters) -> dict[str, Array]:
    first, second = action.order_parameters
    names = (family.axis, "P", first, second, "loss", "gradient", "softest", "tilt")
    result = {name: np.full(p.shape, np.nan) for name in names}
    rows = np.flatnonzero(np.isfinite(found))
    if rows.size == 0:
        return result
    curve = StationaryCurves(action, family.at(found[rows], p[rows]))
    u, softest = curve.softest()
    there = curve.at(u, curve.p)
    z = curve.point(u, there)
    gradient = np.linalg.norm(action.jet(z, there).gradient, axis=-1)
    order = action.order(z, there)
    tilt = _tilt(curve, u)
    for name, values in zip(
        names, (found[rows], there.P, *order, action.loss(z, there), gradient, softest, tilt), strict=True
    ):
        result[name][rows] = values
    return result


def _tilt(curve: StationaryCurves, u: Array) -> Array:
    """Return d(softest eigenvalue)/d ln g along the curve, by a central difference."""
    ends = []
    for x in (u * (1 - 1e-3), u * (1 + 1e-3)):
        there = curve.at(x, curve.p)
        z = curve.point(x, there)
        ends.append((curve.action.curvatures(z, there)[..., 0], np.log(curve.action.averages(z, there).g)))
    (soft, log_g), (soft_after, log_g_after) = ends
    return np.asarray((soft_after - soft) / (log_g_after - log_g))


def _check(base: Model, models: Model | Grid, family: Family, action: Action) -> None:
    low, high = family.between
    if not course_of(action).can_end:
        raise InputError("score", base.score.name, "has no line of first-order transitions that could end")
    known = tuple(name for name in axes_of(base.score) if name != "P")
    taken = () if isinstance(models, Model) else tuple(models.axes)
    if family.axis not in known or family.axis in taken:
        free = ", ".join(name for name in known if name not in taken)
        raise InputError("axis", family.axis, f"must be one of {free}")
    if not 0 < low < high < np.inf:
        raise InputError("between", [low, high], "must be two increasing numbers above 0")
    for end in family.between:
        if family.axis in base.score.numbers:
            base.score.at(**{family.axis: float(end)})  # the score says what it refuses
        elif family.axis in ("L", "V") and end < 2:
            raise InputError(family.axis, end, "must be at least 2")
