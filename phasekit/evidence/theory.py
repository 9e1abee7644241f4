"""What the theory says about the free energy along copying, F(aG) = −ln p(aG): to compare umbrella sampling with."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from phasekit.errors import InputError
from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.action.generated import mean_field
from phasekit.theory.action.row_posterior import RowPosterior

#: The profile begins so many standard deviations of the prior below no copying.
_BELOW = 3.0
#: Fields at which aG is looked up, to find those of evenly spread aG.
_LOOKED_UP = 24


def theory_free_energy(model: Model, points: int = 60, most: float = 0.3) -> xr.Dataset:
    """Return the posterior theory's F along aG.

    ``leading`` is the mean field's reduced action: F(g) = min over q of Φ(g, q) + L I(g, q), of order L. The law of g
    has two factors of order one besides: the density of row averages around its exponent, (det ∂²I)^½, and the width
    of q at given g, (Φ_qq + L I_qq)^−½. With C = (∂²I)⁻¹, the covariance of (g, q) over one row, they add

        ½ ln(det C Φ_qq + L C_gg)

    to F. ``F`` is the sum, comparable with sampled F(aG) within corrections of order 1/L. Both are 0 at their lowest.

    Parameters
    ----------
    model : Model
        With P; a normalised score, positional inputs.
    points : int
    most : float
        The largest aG.

    Returns
    -------
    xarray.Dataset
        Dimension ``a`` (aG, ascending): ``leading`` and ``F``.

    Raises
    ------
    InputError
        For linear attention, whose order parameters are two, and whatever the theory refuses.
    ArithmeticError
        If the theory's equations aren't solved somewhere along the profile.
    """
    action = action_for(model, "posterior")
    if not isinstance(action, RowPosterior):
        raise InputError("score", model.score.name, "a free energy along aG alone is for normalised scores")
    p = model.parameters()
    theta = _fields(action, p, points, most)
    z = (action.profile(theta, p).points[0],)
    leading = action.jet(z, p).value
    s, s2, g, q = action.averages(z, p)
    qq = np.asarray(mean_field.stiffness(s, s2, g, q, p.P, p.V, p.sigma_w, p.kappa)[5])
    row = action.row(z, p)
    F = leading + np.log((row.gg * row.qq - row.gq**2) * qq + model.L * row.gg) / 2
    a = action.order(z, p)[1]
    if not np.isfinite(F).all():
        raise ArithmeticError(f"the theory's profile didn't settle at {(~np.isfinite(F)).sum()} of {points} points")
    return xr.Dataset({"leading": ("a", leading - leading.min()), "F": ("a", F - F.min())}, {"a": a})


def _fields(action: RowPosterior, p: Parameters, points: int, most: float) -> NDArray[np.float64]:
    """Return fields θ, ascending, that give an aG which is dense where it is small, where F is narrow."""
    L = float(p.L)
    last = float(action.path(p.ravel(), 2)[0, -1])
    lowest = -_BELOW / np.sqrt(action.prior(p).gg / L) / L
    known = np.concatenate([np.linspace(lowest, 0.0, 4)[:-1], np.geomspace(last / 1e3, last, _LOOKED_UP)])
    a = action.order((action.profile(known, p).points[0],), p)[1]
    settled = np.logical_and.accumulate(np.isfinite(a))
    known, a = known[settled], a[settled]  # where rows can be averaged: far fields cut the profile short
    wanted = a[0] + (min(most, float(a[-1])) - a[0]) * np.linspace(0.0, 1.0, points) ** 2
    return np.asarray(PchipInterpolator(a, known)(wanted))
