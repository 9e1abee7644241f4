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
from phasekit.theory.action.base import Array, Curved
from phasekit.theory.long_names import with_long_names
from phasekit.theory.transitions.course import course_of
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.table import model_attributes, parameters_without_P

if TYPE_CHECKING:
    import xarray as xr

#: How a number of the model moves others: value of the axis → all numbers that change.
Line = Callable[[Array], Mapping[str, Array]]
#: Relative precision of the endpoint. Rows of the posterior are sampled, so its dip is known no better than that.
_PRECISION: dict[Estimator, float] = {"map": 1e-13, "posterior": 1e-3}
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


def critical_endpoint(models: Model | Grid, family: Family, estimator: Estimator = "map") -> xr.Dataset:
    """Locate the endpoint of the first-order line of every model.

    Parameters
    ----------
    models : Model or Grid
        Everything but P and the family's axis; a grid gives a curve of endpoints.
    family : Family
    estimator : "map" or "posterior"
        To 1e-13 relative for the map estimator (checked in 40 digits), to 1e-3 for the posterior.

    Returns
    -------
    xarray.Dataset
        Along the grid's axes: the axis' value at the endpoint (by its name), ``P`` there, both order parameters,
        ``loss``, and what proves it: ``gradient`` (first derivative, whitened), ``softest`` (second), ``tilt`` (change
        of the second per unit of ln g along the curve: the third). All NaN where the passage is the same at both ends
        of the interval; and where ``failed``: the search broke down, and says nothing.

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
    action = action.near_folds()
    grid = {} if isinstance(models, Model) else models.axes
    p = parameters_without_P(models).ravel()
    low, high = (np.full(p.shape, float(end)) for end in family.between)

    def dip(x: Array, q: Parameters) -> Array:
        return StationaryCurves(action, family.at(x, q)).softest()[1]

    found = solve.root(dip, low, high, p, relative=_PRECISION[estimator])
    described = _describe(action, family, found, p)
    failed = np.isnan(dip(low, p)) | np.isnan(dip(high, p)) | (np.abs(described["softest"]) > _ZERO[estimator])
    described = {name: np.where(failed, np.nan, values) for name, values in described.items()} | {"failed": failed}
    shape = [axis.size for axis in grid.values()]
    variables = {name: (list(grid), values.reshape(shape)) for name, values in described.items()}
    attributes = {**model_attributes(models, estimator, ("P", *family.moved)), "between": list(family.between)}
    return with_long_names(xr.Dataset(variables, coords=grid).assign_attrs(attributes))


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
