"""How much work a figure is given. One object goes through scripts, sweeps and tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Preset:
    """How much work a figure is given.

    Attributes
    ----------
    name : "tiny", "quick", "full" or "best"
        The preset of the sweeps in ``sims/`` that networks come from; "best" is the largest of each that is archived.
    points : int
        Points of a line of the theory.
    slow_points : int
        Points of a line of the theory whose points take a second each (under the posterior).
    processes : bool
        Whether networks are computed in worker processes. If not, in this one: starting workers takes seconds, which
        a tiny sweep doesn't.
    sims, runs : Path, optional
        The folders of sweeps and of their stores; the checkout's ``sims/`` and ``build/runs`` by default.
    scratch : bool
        Whether to compute all networks, also those that are archived; their stores are in ``build/scratch`` then.
    """

    name: str
    points: int
    slow_points: int
    processes: bool = True
    sims: Path | None = None
    runs: Path | None = None
    scratch: bool = False


#: The preset that takes the largest archived one of each sweep.
BEST = "best"

TINY = Preset("tiny", points=9, slow_points=3, processes=False)
QUICK = Preset("quick", points=49, slow_points=16)
LARGEST = Preset(BEST, points=49, slow_points=16)
FULL = Preset("full", points=145, slow_points=64)
PRESETS = {preset.name: preset for preset in (TINY, QUICK, LARGEST, FULL)}
