"""Transitions and endpoints of the posterior, against an older commit in the same run.

``python -m benchmarks.posterior OLD`` takes a checkout of the older commit (``git worktree add OLD 2976e9c``). Every
contender runs in a process of its own, old and new in turn; compared is processor time without imports. Both print what
they found, with the error that they state.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._timing import verdict

ROUNDS, TARGET = 3, 15.0
_FIND = """
import json, time
import torch, scipy.stats, scipy.optimize
from phasekit.model import Model
from phasekit.theory.transitions import Family, critical_endpoint, find_transitions

find_transitions(Model(V=8, L=16))
begun = time.process_time()
{statement}
print(json.dumps([time.process_time() - begun, *found]))
"""
_TRANSITIONS = (
    "t = find_transitions(Model(V=8, L=64, score={score}), 'posterior'); "
    "found = t.threshold('P_star'), t.evidence['P_star_error']"
)
CASES = {
    "P* of softmax, L = 64": _TRANSITIONS.format(score="'softmax'"),
    "P* of SSA n = 4, L = 64": _TRANSITIONS.format(score="dict(name='ssa', n=4.0, b=1.0)"),
    "endpoint of SSA in n, L = 64": (
        "e = critical_endpoint(Model(V=8, L=64, score=dict(name='ssa', n=2.0, b=1.0)), Family('n', (1.2, 4.0)), "
        "'posterior'); found = float(e['n']), 1e-3 * float(e['n'])"
    ),
}


def main(old: str | None = None) -> None:
    """Print one line per case; without an older checkout the new times alone."""
    here = Path(__file__).parents[1]
    places = {"new": here} if old is None else {"old": Path(old), "new": here}
    for name, statement in CASES.items():
        runs = [{which: _run(place, statement) for which, place in places.items()} for _ in range(ROUNDS)]
        for which in places:
            seconds, value, error = (statistics.median(run[which][k] for run in runs) for k in range(3))
            print(f"{name}, {which}: {seconds:.2f} s of processor time, {value:.6g} ± {error:.2g}")
        if old is not None:
            ratio = statistics.median(run["old"][0] / run["new"][0] for run in runs)
            verdict(f"{name}, times faster", ratio, TARGET)


def _run(place: Path, statement: str) -> list[Any]:
    environment = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
    script = _FIND.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
