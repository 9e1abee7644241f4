"""Exponents at the endpoint of a first-order line, measured on the action itself.

Mean-field theory of a cusp expects two: along the line of first-order transitions the jump closes as the square root of
the distance from the endpoint; across it, at the endpoint's own parameters, the order parameter moves as the cube root
of P − P_c. Neither is put in here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Estimator, Model
from phasekit.theory.action import action_for
from phasekit.theory.action.base import Array, Curved
from phasekit.theory.transitions.curve import StationaryCurves
from phasekit.theory.transitions.endpoint import Family, critical_endpoint
from phasekit.theory.transitions.precision import locate
from phasekit.theory.transitions.table import parameters_without_P

#: Distances beyond the endpoint, relative, at which the jump is measured; and how far the order parameter is followed.
_BEYOND = np.geomspace(1e-5, 1e-2, 7)
_STEPS = np.geomspace(3e-3, 1e-1, 7)


@dataclass(frozen=True)
class Approach:
    """How something goes to zero at the endpoint, closest first.

    Attributes
    ----------
    distance, size : arrays
        |P − P_c|, and the jump of, or the change in, the copying order parameter aG.
    exponent : d ln size/d ln distance between the two closest points
    drift : its change from the next pair of points
    """

    distance: Array
    size: Array

    @property
    def exponent(self) -> float:
        return float(self._local[0])

    @property
    def drift(self) -> float:
        return float(abs(self._local[1] - self._local[0]))

    @property
    def _local(self) -> Array:
        return np.asarray(np.diff(np.log(self.size)) / np.diff(np.log(self.distance)))


def critical_exponents(model: Model, family: Family, estimator: Estimator = "map") -> tuple[Approach, Approach]:
    """Measure how the jump closes along the first-order line, and how aG moves with P across its endpoint.

    Returns
    -------
    along : the jump of aG at P* against |P* − P_c|, a little beyond the endpoint
    across : half the distance of aG between both sides of P_c at equal steps along the curve of stationary points,
        against half the distance in P: the leading corrections of the two sides cancel

    Raises
    ------
    InputError
        As :func:`phasekit.theory.transitions.critical_endpoint`, and if there is no endpoint in the interval.
    """
    found = critical_endpoint(model, family, estimator)
    centre, P_c = float(found[family.axis]), float(found["P"])
    if found["failed"]:
        raise ArithmeticError(f"the endpoint in {family.axis} wasn't found: the search failed")
    if np.isnan(centre):
        raise InputError("between", list(family.between), "the passage is the same at both ends: no endpoint between")
    action, p = action_for(model, estimator), parameters_without_P(model).ravel()
    assert isinstance(action, Curved)  # there was an endpoint
    ends = locate(action, family.at(np.array(family.between), p[[0, 0]]))
    side = 1 if np.isfinite(ends["P_star"][1]) else -1  # where there are jumps
    beyond = centre * (1 + side * _BEYOND)
    jumps = locate(action, family.at(beyond, p[np.zeros(beyond.size, dtype=int)]))
    second = action.order_parameters[1]
    along = Approach(np.abs(jumps["P_star"] - P_c), jumps[second][:, 1] - jumps[second][:, 0])

    curve = StationaryCurves(action, family.at(np.array([centre]), p))
    u = curve.softest()[0]
    (P_above, high), (P_below, low) = (_copying(curve, u * (1 + sign * _STEPS)) for sign in (1, -1))
    return along, Approach((P_above - P_below) / 2, (high - low) / 2)


def _copying(curve: StationaryCurves, u: Array) -> tuple[Array, Array]:
    """Return P and aG at stationary points."""
    there = curve.at(u, curve.p)
    return there.P, curve.action.order(curve.point(u, there), there)[1]
