"""The course of an action with a pattern at every P: all that is left to locate is the passage from pooling to copying.

The search for it serves the actions with an onset, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.model import Parameters
from phasekit.theory import solve
from phasekit.theory.action import Action
from phasekit.theory.action.base import Array, Point
from phasekit.theory.closed_forms.linear import crossover_leading
from phasekit.theory.minima import minima_of
from phasekit.theory.transitions.course import Course, Verdict, nan_to_none
from phasekit.theory.transitions.passage import Passage, Threshold, state_at

COPYING_SETS_IN = Threshold("P2", "$P_2$", "crossover to copying, where g²/q = 1/2")
_SCAN = 120  # values of P between the onset and the end of the search for the crossover
_SCAN_RANGE = 1e3  # the search ends at this multiple of the leading form of P₂, or of P₁ if that is larger
_SMOOTH_ENOUGH = 1e-8  # of ln P: where the global minimum changes, there is no slope and the bracket can only be halved
_BESIDE = 1e-6
#: The passage is a jump if g²/q changes by more between two neighbouring P.
_JUMP = 0.01


class Crossover(Course):
    """Copying takes over at P2, without an onset before it."""

    name: ClassVar[str] = "crossover"
    thresholds: ClassVar[tuple[Threshold, ...]] = (COPYING_SETS_IN,)

    def locate(self, action: Action, p: Parameters) -> dict[str, Array]:
        """Return the threshold and the states beside it.

        Returns
        -------
        dict of arrays
            ``P1``: NaN; ``P2``: where g²/q of the global minimum passes 1/2; ``share``: g²/q just below and above P2,
            which differ where the global minimum changes there; ``failed``.
        """
        P2, failed = crossover(action, p, p.with_strength(1.0).P, _SMOOTH_ENOUGH)
        share, exists = np.full((*p.shape, 2), np.nan), np.isfinite(P2)
        for k, factor in enumerate((1 - _BESIDE, 1 + _BESIDE)):
            share[exists, k] = _copying_share(action, p[exists].replace(P=factor * P2[exists]))
        failed = failed | (exists & np.isnan(share).any(axis=1))
        return {"P1": np.full(p.shape, np.nan), "P2": P2, "share": share, "failed": failed}

    def judge(self, action: Action, p: Parameters, row: Mapping[str, Array]) -> Verdict:
        why = (
            "pooling over the vocabulary is a vector, all components of which fluctuate: "
            "its mean grows without an onset"
        )
        P2 = nan_to_none(row["P2"])
        if P2 is None:
            return Verdict("none", (), {"why": why, "P2": "none found: g^2/q stays below 1/2"})
        below, above = (float(share) for share in row["share"])
        jumps = above - below > _JUMP
        words = "the global minimum changes" if jumps else "g^2/q passes 1/2 smoothly on the global branch"
        sides = [p.replace(P=np.full(p.shape, P2 * factor)) for factor in (1 - _BESIDE, 1 + _BESIDE)]
        before, after = (state_at(action, global_minimum(action, there), there) for there in sides)
        evidence = {"why": why, "P2": words, "copying_share_at_P2": [below, above]}
        passage = Passage("P2", "jump" if jumps else "crossover", P2, before, after)
        return Verdict("first" if jumps else "crossover", (passage,), evidence)

    def values(self, passages: tuple[Passage, ...]) -> dict[str, Any]:
        return {"P1": None, "P2": passages[0].P if passages else None}


def crossover(
    action: Action, p: Parameters, first: Array, relative: float | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the P at which g²/q of the global branch passes 1/2, and whether the search failed.

    Parameters
    ----------
    first : array
        Where the search begins: the onset, if there is one.
    relative : float, optional
        How well ln P is wanted (rounding if None).

    Returns
    -------
    P : NaN where g²/q never passes 1/2 from ``first`` on, and where the search failed
    failed : whether the global minimum wasn't found somewhere on the way
    """

    def excess(log_P: Array, p: Parameters) -> Array:
        there = p.replace(P=np.exp(log_P)).ravel()
        return _copying_share(action, there).reshape(log_P.shape) - 0.5

    last = _SCAN_RANGE * np.maximum(first, crossover_leading(p))
    nodes = np.linspace(np.log(first * (1 + 1e-6)), np.log(last), _SCAN, axis=-1)
    share = excess(nodes, p.expand())
    crosses = (share[:, :-1] < 0) & (share[:, 1:] >= 0)
    rows = np.flatnonzero(crosses.any(axis=1))
    k = crosses[rows].argmax(axis=1)
    result = np.full(p.shape, np.nan)
    result[rows] = np.exp(solve.root(excess, nodes[rows, k], nodes[rows, k + 1], p[rows], relative=relative))
    failed: NDArray[np.bool_] = np.array(np.isnan(share).any(axis=1))
    failed[rows] |= np.isnan(result[rows])
    return np.where(failed, np.nan, result), failed


def _copying_share(action: Action, p: Parameters) -> Array:
    """Return g²/q of the global minimum; NaN where none was found."""
    z = global_minimum(action, p)
    return np.where(np.isnan(z[0]), np.nan, action.copying_share(z, p))


def global_minimum(action: Action, p: Parameters) -> Point:
    """Return the minimum of lowest action of every model, in whitened coordinates; ``p`` must be flat.

    NaN where no minimum was found: every action has one, so that is a failure of the search.
    """
    owner, z, _ = minima_of(action, p)
    ranked = np.lexsort((action.jet(z, p[owner]).value, owner))
    models, first = np.unique(owner[ranked], return_index=True)
    result = tuple(np.full(p.shape, np.nan) for _ in z)
    for coordinate, x in zip(result, z, strict=True):
        coordinate[models] = x[ranked[first]]
    return result
