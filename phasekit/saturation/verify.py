"""Verify theorems: random search over the whole domain, then an adversary; every verdict is proven (see ``judge``)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phasekit.checks import whole_number
from phasekit.errors import InputError
from phasekit.saturation.domain import count
from phasekit.saturation.judge import Verdict, judge
from phasekit.saturation.sampling import draw
from phasekit.saturation.theorem import Side, Theorem
from phasekit.show import Shown, Table

#: Starts and steps of the adversary, for each side of a theorem and each row length.
STARTS, STEPS = 64, 80
MOST_TRIALS = 10**12
_CHUNK_ENTRIES = 100_000  # rows × keys in memory at once

#: Called with the theorem that is being verified, and the share of its work that is done.
Progress = Callable[[Theorem, float], None]


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What the search found about one side of a theorem.

    Attributes
    ----------
    theorem : Theorem
    side : "lower", "upper" or "identity"
    random, adversary : Verdict
        At random rows, and at the points that the adversary handed in.
    """

    theorem: Theorem
    side: Side
    random: Verdict
    adversary: Verdict

    @property
    def kept(self) -> bool:
        """Whether the bound was kept at every point."""
        return self.random.kept and self.adversary.kept

    def table(self) -> Table:
        """Return the rows that were judged, and how close any came to breaking the bound."""
        title = (
            f"{self.theorem.name}, {self.side} bound: {'kept' if self.kept else 'NOT KEPT'} (slack: ln(quantity/bound))"
        )
        rows = [
            (name, one.rows, f"{one.worst:.3g}", one.violated, one.undecided)
            for name, one in (("random rows", self.random), ("adversary", self.adversary))
        ]
        return Table(title, ["", "rows", "worst slack", "violated", "undecided"], rows, [self.theorem.title])

    @property
    def worst(self) -> Verdict:
        """The verdict with the smaller slack."""
        return min(self.random, self.adversary, key=lambda verdict: verdict.worst)


def verify(
    theorems: Sequence[Theorem],
    trials: int,
    seed: int = 0,
    *,
    starts: int = STARTS,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> list[Verification]:
    """Verify theorems at random rows and at points that an adversary finds.

    Parameters
    ----------
    theorems : sequence of Theorem
    trials : int
        Random rows over all theorems together, shared equally. Each is judged on every side of its theorem.
    seed : int
        Every theorem draws from a stream of its own, (seed, name): its rows don't depend on the other theorems.
    starts, steps : int
        Of the adversary; no starts, no adversary.
    progress : callable, optional

    Returns
    -------
    list of Verification
        One for each side of each theorem, in order.

    Raises
    ------
    InputError
        If there are fewer trials than theorems, or too many; a negative seed; or a theorem whose hypotheses hold almost
        nowhere.
    """
    trials, seed = whole_number("trials", trials), whole_number("seed", seed)
    if not theorems or trials < len(theorems):
        raise InputError("trials", trials, f"must be at least {max(len(theorems), 1)}, one for each theorem")
    if trials > MOST_TRIALS:
        raise InputError("trials", trials, f"must be at most {MOST_TRIALS:,} (months of computing)")
    if seed < 0:
        raise InputError("seed", seed, "must not be negative")
    shares = np.diff(np.linspace(0, trials, len(theorems) + 1).round().astype(int))
    found = []
    for theorem, share in zip(theorems, shares, strict=True):
        found += _verify(theorem, int(share), seed, starts, steps, progress or (lambda theorem, share: None))
    return found


def _verify(
    theorem: Theorem, trials: int, seed: int, starts: int, steps: int, progress: Progress
) -> list[Verification]:
    rng = np.random.default_rng([seed, zlib.crc32(theorem.name.encode())])
    found = [Verification(theorem, side, Verdict(theorem, side), Verdict(theorem, side)) for side in theorem.sides]
    for keys, rows in theorem.domain.row_lengths(trials).items():
        chunk = max(1, _CHUNK_ENTRIES // keys)
        for start in range(0, rows, chunk):
            inputs = draw(theorem, rng, min(chunk, rows - start), keys)
            for side in found:
                judge(side.random, inputs)
            progress(theorem, 0.5 * found[0].random.rows / trials)
    if starts:
        _attack(found, rng, starts, steps, progress)
    return found


def _attack(
    found: Sequence[Verification], rng: np.random.Generator, starts: int, steps: int, progress: Progress
) -> None:
    from phasekit.saturation.adversary import attack  # needs torch

    for number, side in enumerate(found, 1):
        for inputs in attack(side.theorem, side.side, rng, starts, steps):
            if count(inputs):
                judge(side.adversary, inputs)
        progress(side.theorem, 0.5 + 0.5 * number / len(found))
