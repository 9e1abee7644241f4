"""The course of a symmetric action: an onset, where the origin loses stability, and a crossover to copying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.crossover import COPYING_SETS_IN, crossover, global_minimum
from phasekit.theory.transitions.passage import Passage, Threshold, state_at

POOLING_SETS_IN = Threshold("P1", "$P_1$", "onset of pooling, where the origin stops being a minimum")
_LOG_RANGE = 40.0  # half the range of ln P that is searched around ln(κV/σ_w²)
_NEAR_ONSET = np.array([1e-5, 1e-3])  # relative distances from P₁ between which the growth exponent is measured
#: A jump would give beta = 0. Where both modes soften at nearly the same P (V close to L) the measured exponent can
#: exceed 1/2 at these distances, without any jump.
_SMALLEST_BETA = 0.25


class Onset(Course):
    """Pooling grows continuously from P1 on; copying takes over at P2, smoothly."""

    name: ClassVar[str] = "onset"
    thresholds: ClassVar[tuple[Threshold, ...]] = (POOLING_SETS_IN, COPYING_SETS_IN)

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the thresholds and what decides the order of the first one.

        Returns
        -------
        dict of arrays
            ``P1``: onset, where the lowest Hessian eigenvalue of the origin changes sign;
            ``P2``: where g²/q = 1/2 on the global branch (NaN if it is larger from the onset on, or stays smaller);
            ``beta``: measured exponent of ‖c‖ ∝ (P − P₁)^β just above the onset;
            ``quartic``: coefficient of the fourth power of the critical mode at P₁, in whitened units;
            ``copying_at_onset``: g²/q of the critical mode;
            ``failed``.
        """
        P1 = onset(action, p)
        P2, failed = crossover(action, p, P1)
        above = _minima_at(action, p, P1[:, None] * (1 + _NEAR_ONSET))
        size = np.sqrt(sum(x**2 for x in above))
        with np.errstate(divide="ignore", invalid="ignore"):
            beta = np.log(size[:, 1] / size[:, 0]) / np.log(_NEAR_ONSET[1] / _NEAR_ONSET[0])
        at_onset = p.replace(P=P1)
        mode = _critical_mode(action, at_onset)
        quartic = _quartic(action, mode, at_onset)
        return {
            "P1": P1,
            "P2": P2,
            "beta": beta,
            "quartic": quartic,
            "copying_at_onset": action.copying_share(mode, at_onset),
            "failed": failed | ~np.isfinite(beta) | ~np.isfinite(quartic),
        }

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        continuous = row["quartic"] > 0 and row["beta"] > _SMALLEST_BETA
        evidence: dict[str, Any] = {
            "quartic": float(row["quartic"]),
            "beta": float(row["beta"]),
            "copying_share_at_onset": float(row["copying_at_onset"]),
            "why": "the origin is unstable above P1; the quartic term along the critical mode is positive and the "
            "order parameter was measured to grow as (P - P1)^beta from 0"
            if continuous
            else "the order parameter does not grow continuously from the onset",
        }
        P1, P2 = float(row["P1"]), nan_to_none(row["P2"])
        there = p.replace(P=np.full(p.shape, P1))
        origin = state_at(action, tuple(np.zeros(p.shape) for _ in action.coordinates), there)
        passages: tuple[Passage, ...] = (Passage("P1", "onset" if continuous else "jump", P1, origin, origin),)
        if P2 is not None:
            evidence["P2"] = "crossover: g^2/q passes 1/2 smoothly on the global branch"
            there = p.replace(P=np.full(p.shape, P2))
            state = state_at(action, global_minimum(action, there), there)
            passages += (Passage("P2", "crossover", P2, state, state),)
        elif row["copying_at_onset"] >= 0.5:
            evidence["P2"] = "none: the mode that grows at P1 is copying already (g^2/q above 1/2)"
        else:
            evidence["P2"] = "none found: g^2/q stays below 1/2"
        return Verdict("second" if continuous else "first", passages, evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        found = {passage.name: passage.P for passage in passages}
        return {threshold.name: found.get(threshold.name) for threshold in self.thresholds}


def onset(action: Action, p: Parameters) -> Array:
    """Return the P at which the lowest Hessian eigenvalue of the origin changes sign."""

    def lowest(log_P: Array, p: Parameters) -> Array:
        origin = tuple(np.zeros(log_P.shape) for _ in action.coordinates)
        return action.curvatures(origin, p.replace(P=np.exp(log_P)))[..., 0]

    centre = np.log(p.with_strength(1.0).P)
    return np.exp(solve.root(lowest, centre - _LOG_RANGE, centre + _LOG_RANGE, p))


def _minima_at(action: Action, p: Parameters, P: Array) -> Point:
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
    epsilon = np.sqrt(1e-6 / (p.strength * np.maximum(averages.q, averages.s2)))
    slope = action.jet(tuple(epsilon * m for m in mode), p).gradient
    return np.asarray((slope * np.stack(mode, axis=-1)).sum(-1) / (4 * epsilon**3))
