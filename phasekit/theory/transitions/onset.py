"""Transitions of a symmetric action: the onset at which the origin loses stability, and the crossover to copying."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.action.generated import thresholds
from phasekit.theory.minima import minima_of

_LOG_RANGE = 40.0  # half the range of ln P that is searched around ln(κV/σ_w²)
_SCAN = 120  # values of P between the onset and the end of the search for the crossover
_SCAN_RANGE = 1e3  # the search ends at this multiple of the leading form of P₂, or of P₁ if that is larger
_SMOOTH_ENOUGH = 1e-8  # of ln P: where the global minimum changes, there is no slope and the bracket can only be halved
_BESIDE = 1e-6
_NEAR_ONSET = np.array([1e-5, 1e-3])  # relative distances from P₁ between which the growth exponent is measured


def symmetric_transitions(action: Action, p: Parameters) -> dict[str, Array]:
    """Locate and describe the transitions of every model; ``p`` is flat and its P is ignored.

    Returns
    -------
    dict of arrays, one row per model, NaN where a quantity doesn't exist
        ``P1``: onset, where the lowest Hessian eigenvalue of the origin changes sign;
        ``P2``: where g²/q = 1/2 on the global branch (NaN if it is larger from the onset on, or stays smaller);
        ``beta``: measured exponent of ‖c‖ ∝ (P − P₁)^β just above the onset;
        ``quartic``: coefficient of the fourth power of the critical mode at P₁, in whitened units;
        ``copying_at_onset``: g²/q of the critical mode.
    """
    P1 = onset(action, p)
    above = minima_of_each(action, p, P1[:, None] * (1 + _NEAR_ONSET))
    size = np.sqrt(sum(x**2 for x in above))
    beta = np.log(size[:, 1] / size[:, 0]) / np.log(_NEAR_ONSET[1] / _NEAR_ONSET[0])
    at_onset = p.replace(P=P1)
    mode = _critical_mode(action, at_onset)
    return {
        "P1": P1,
        "P2": crossover(action, p, P1),
        "beta": beta,
        "quartic": _quartic(action, mode, at_onset),
        "copying_at_onset": action.copying_share(mode, at_onset),
    }


def smooth_transitions(action: Action, p: Parameters) -> dict[str, Array]:
    """Locate the passage to copying of an action without an onset; ``p`` is flat and its P is ignored.

    Returns
    -------
    dict of arrays, one row per model
        ``P1``: NaN; ``P2``: as for symmetric actions; ``share``: g²/q just below and above P2, which differ where the
        global minimum changes there.
    """
    weak = p.with_strength(1.0).P
    P2 = crossover(action, p, weak, _SMOOTH_ENOUGH)
    share, exists = np.full((*p.shape, 2), np.nan), np.isfinite(P2)
    for k, factor in enumerate((1 - _BESIDE, 1 + _BESIDE)):
        there = p[exists].replace(P=factor * P2[exists])
        share[exists, k] = action.copying_share(global_minimum(action, there), there)
    return {"P1": np.full(p.shape, np.nan), "P2": P2, "share": share}


def onset(action: Action, p: Parameters) -> Array:
    """Return the P at which the lowest Hessian eigenvalue of the origin changes sign."""

    def lowest(log_P: Array, p: Parameters) -> Array:
        origin = tuple(np.zeros(log_P.shape) for _ in action.coordinates)
        return action.curvatures(origin, p.replace(P=np.exp(log_P)))[..., 0]

    centre = np.log(p.with_strength(1.0).P)
    return np.exp(solve.root(lowest, centre - _LOG_RANGE, centre + _LOG_RANGE, p))


def crossover(action: Action, p: Parameters, P1: Array, relative: float | None = None) -> Array:
    """Return the P at which g²/q of the global branch passes 1/2; NaN if it never does from ``P1``, the onset, on.

    ``relative``: how well ln P is wanted (rounding if None).
    """

    def excess(log_P: Array, p: Parameters) -> Array:
        there = p.replace(P=np.exp(log_P)).ravel()
        share = action.copying_share(global_minimum(action, there), there)
        return share.reshape(log_P.shape) - 0.5

    last = _SCAN_RANGE * np.maximum(P1, thresholds.copying_leading(p.V, p.L, p.sigma_w, p.sigma_g, p.kappa))
    nodes = np.linspace(np.log(P1 * (1 + 1e-6)), np.log(last), _SCAN, axis=-1)
    share = excess(nodes, p.expand())
    crosses = (share[:, :-1] < 0) & (share[:, 1:] >= 0)
    rows = np.flatnonzero(crosses.any(axis=1))
    k = crosses[rows].argmax(axis=1)
    result = np.full(p.shape, np.nan)
    result[rows] = np.exp(solve.root(excess, nodes[rows, k], nodes[rows, k + 1], p[rows], relative=relative))
    return result


def global_minimum(action: Action, p: Parameters) -> Point:
    """Return the minimum of lowest action of every model, in whitened coordinates; ``p`` must be flat.

    Raises
    ------
    ArithmeticError
        If no minimum was found for some model.
    """
    owner, z, _ = minima_of(action, p)
    lost = int((np.bincount(owner, minlength=p.shape[0]) == 0).sum())
    if lost:
        raise ArithmeticError(f"{lost} of {p.shape[0]} models have no minimum that was found")
    order = np.lexsort((action.jet(z, p[owner]).value, owner))
    first: NDArray[np.int64] = order[np.searchsorted(owner[order], np.arange(p.shape[0]))]
    return tuple(x[first] for x in z)


def minima_of_each(action: Action, p: Parameters, P: Array) -> Point:
    """Return the global minimum of every model (rows) at every value of P in its row."""
    flat = p.expand().replace(P=P).ravel()
    return tuple(x.reshape(P.shape) for x in global_minimum(action, flat))


def _critical_mode(action: Action, p: Parameters) -> Point:
    """Return the unit vector along which the origin is softest, in whitened coordinates."""
    origin = tuple(np.zeros(p.shape) for _ in action.coordinates)
    _, vectors = np.linalg.eigh(action.jet(origin, p).hessian)
    return tuple(np.moveaxis(vectors[..., 0], -1, 0))


def _quartic(action: Action, mode: Point, p: Parameters) -> Array:
    """Return lim S(εm)/ε⁴ at the onset, where the quadratic part vanishes, from the slope 4·quartic·ε³.

    ε makes the nonlinearity t·q (or t·s₂) 1e-6: small enough for the limit, far above the rounding of the slope.
    """
    averages = action.averages(mode, p)
    t = p.strength
    epsilon = np.sqrt(1e-6 / (t * np.maximum(averages.q, averages.s2)))
    slope = action.jet(tuple(epsilon * m for m in mode), p).gradient
    return np.asarray((slope * np.stack(mode, axis=-1)).sum(-1) / (4 * epsilon**3))
