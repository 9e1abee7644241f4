"""Judge whether a bound is kept at given points: float64 with proven errors, then intervals.

The slack of a bound (value − bound, or bound − value) is computed first in float64 together with a proven limit on its
rounding error, so that the true slack is known to lie in a range. If that range lies below 0 the bound is violated, if
it lies at or above 0 the bound is kept. If it contains 0 the slack is computed again with 80 digits, as an interval
that contains it for certain, and judged in the same way. If this interval contains 0 too, and is shorter than 1e-60,
value and bound are taken as equal, which keeps the bound. Otherwise the point counts as undecided, and verification
fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.arithmetic.balls import Ball, Balls
from phasekit.saturation.arithmetic.intervals import Intervals, digits, ends
from phasekit.saturation.domain import Inputs, count, select
from phasekit.saturation.theorem import DIGITS, Point, Side, Theorem

#: The largest difference that counts as an equality.
EQUAL = 1e-60
#: Rows per interval evaluation.
_CHUNK = 500
#: Examples of violations that a verdict keeps.
_EXAMPLES = 5


@dataclass
class Verdict:
    """What was found about one side of one theorem, accumulated over batches of points.

    Slack is value − lower or upper − value, in the units of the quantity; −|value − bound| for identities.

    Attributes
    ----------
    theorem : Theorem
    side : "lower", "upper" or "identity"
    rows : int
        Points judged.
    by_intervals : int
        Points among them that float64 left open and intervals decided.
    equal : int
        Points at which value and bound agree to 60 digits.
    undecided : int
        Points about which the intervals say nothing.
    unsettled : int
        Points of an identity that were judged in float64 only, where they agree within the rounding error.
    violated : int
    worst : float
        Smallest slack: 0 if the bound is reached, negative if it is violated.
    worst_at : inputs of that point, as plain lists
    examples : list of (slack, inputs)
        Some violations.
    """

    theorem: Theorem = field(repr=False)
    side: Side
    rows: int = 0
    by_intervals: int = 0
    equal: int = 0
    undecided: int = 0
    unsettled: int = 0
    violated: int = 0
    worst: float = np.inf
    worst_at: dict[str, list[float]] = field(default_factory=dict)
    examples: list[tuple[float, dict[str, list[float]]]] = field(default_factory=list)
    _sample: list[float] = field(default_factory=list, repr=False)

    @property
    def kept(self) -> bool:
        """Whether the bound was kept, or the identity held, at every point."""
        return self.violated == 0 and self.undecided == 0

    @property
    def tightness(self) -> float:
        """How close the bound comes to the quantity at best: e^(−worst slack), 1 if it is reached."""
        return float(np.exp(-max(self.worst, 0.0)))

    @property
    def typical(self) -> float:
        """The median of e^(−slack) over a sample of the points."""
        return float(np.exp(-np.median(self._sample))) if self._sample else np.nan

    def describe(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "rows": self.rows,
            "by_intervals": self.by_intervals,
            "equal": self.equal,
            "unsettled": self.unsettled,
            "undecided": self.undecided,
            "violated": self.violated,
            "worst_slack": self.worst,
            "examples": [{"slack": slack, "inputs": inputs} for slack, inputs in self.examples],
        }

    def add(self, inputs: Inputs, slack: NDArray[np.float64], violated: NDArray[np.bool_]) -> None:
        """Take in points whose slack is known well enough."""
        if not len(slack):
            return
        lowest = int(np.argmin(slack))
        if slack[lowest] < self.worst:
            self.worst, self.worst_at = float(slack[lowest]), _plain(inputs, lowest)
        self.violated += int(violated.sum())
        for row in np.flatnonzero(violated)[: _EXAMPLES - len(self.examples)]:
            self.examples.append((float(slack[row]), _plain(inputs, row)))
        finite = slack[np.isfinite(slack)]
        self._sample.extend(finite[:: max(1, len(finite) // 200)].tolist())


def judge(verdict: Verdict, inputs: Inputs, identity_rows: int = 20) -> None:
    """Judge one side of a theorem at points that satisfy its hypotheses, and add what is found to the verdict.

    Parameters
    ----------
    inputs : as :meth:`Theorem.inputs` returns them
    identity_rows : int
        An identity is open in float64 at every point; intervals judge this many of them.
    """
    theorem, side = verdict.theorem, verdict.side
    rows = count(inputs)
    verdict.rows += rows
    if not rows:
        return
    with np.errstate(all="ignore"):  # branches that aren't taken may be undefined
        slack, vacuous = _slack(theorem, side, inputs)
        if side == "identity":
            violated = _any(slack.lowest > 0, slack.highest < 0)
            kept = np.zeros(rows, dtype=bool)
            middle = -np.abs(slack.mid).max(axis=-1)
        else:
            violated = _any(slack.highest < 0)
            kept = ~_any(~(slack.lowest >= 0) & ~vacuous)
            middle = np.where(vacuous, np.inf, slack.mid).min(axis=-1)
    decided = violated | kept
    verdict.add(select(inputs, decided), middle[decided], violated[decided])
    open_rows = np.flatnonzero(~decided)
    if side == "identity":
        verdict.unsettled += max(len(open_rows) - identity_rows, 0)
        open_rows = open_rows[:identity_rows]
    for start in range(0, len(open_rows), _CHUNK):
        _arbitrate(verdict, select(inputs, open_rows[start : start + _CHUNK]))


def _slack(theorem: Theorem, side: Side, inputs: Inputs) -> tuple[Ball, NDArray[np.bool_]]:
    """Return the slack of all rows and keys in float64, and where the bound is exactly ∓inf, which always holds."""
    balls = Balls()
    point = Point.lifted(balls, inputs)
    value, bound = (Ball.of(number) for number in _value_and_bound(theorem, side, balls, point))
    slack = bound - value if side == "upper" else value - bound
    shape = (count(inputs), slack.mid.shape[-1])
    vacuous = (bound.mid == (np.inf if side == "upper" else -np.inf)) & (bound.rad == 0)
    return Ball(np.broadcast_to(slack.mid, shape), np.broadcast_to(slack.rad, shape)), np.broadcast_to(vacuous, shape)


def _value_and_bound(theorem: Theorem, side: Side, xp: Any, point: Point) -> tuple[Any, Any]:
    formula = theorem.bound(side)
    assert formula is not None  # sides of a theorem are those that have a bound
    return theorem.value(xp, point), formula(xp, point)


def _arbitrate(verdict: Verdict, inputs: Inputs) -> None:
    """Judge rows with intervals."""
    side = verdict.side
    verdict.by_intervals += count(inputs)
    with digits(DIGITS):
        xp = Intervals()
        value, bound = _value_and_bound(verdict.theorem, side, xp, Point.lifted(xp, inputs))
        slack = np.atleast_2d(bound - value if side == "upper" else value - bound)
        low, high = ends(slack)
    size = np.maximum(np.abs(low), np.abs(high))
    if side == "identity":
        violated = _any(low > 0, high < 0)
        kept = np.zeros(len(low), dtype=bool)
        equal = ~violated & ~_any(~(size <= EQUAL))
        middle = np.where(equal, 0.0, -size.max(axis=-1))
    else:
        violated = _any(high < 0)
        kept = ~_any(~(low >= 0))
        equal = ~violated & ~kept & ~_any(~(low >= 0) & ~(size <= EQUAL))
        middle = np.where(equal, 0.0, ((low + high) / 2).min(axis=-1))
    known = violated | kept | equal
    verdict.equal += int(equal.sum())
    verdict.undecided += int((~known).sum())
    verdict.add(select(inputs, known), middle[known], violated[known])


def _any(*entries: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return for every row whether any of its entries is True."""
    return np.asarray(np.logical_or.reduce(entries).any(axis=-1))


def _plain(inputs: Inputs, row: int) -> dict[str, list[float]]:
    return {name: values[row].tolist() for name, values in inputs.items()}
