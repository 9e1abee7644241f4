"""A table of transitions of the posterior with one process and with two, in one run.

The wall time of both and the processor time of one are printed: on a machine that others use, two processes get what is
left. Their numbers are compared bit by bit.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from benchmarks._timing import verdict
from phasekit.model import Grid, Model
from phasekit.theory.action.row_curve import _curve
from phasekit.theory.transitions import transition_table

ROUNDS, TARGET = 3, 1.5
GRID = Grid(Model(V=8, L=64), {"L": [64, 96, 128, 192, 256, 384, 512, 768, 1024], "V": [4, 8, 16, 32]})


def main() -> None:
    """Print one line."""
    walls: dict[int, list[float]] = {1: [], 2: []}
    used, same = [], True
    for _ in range(ROUNDS):
        tables = {}
        for jobs in walls:
            _curve.cache_clear()
            begun, processor = time.perf_counter(), time.process_time()
            tables[jobs] = transition_table(GRID, "posterior", jobs=jobs)
            walls[jobs].append(time.perf_counter() - begun)
            if jobs == 1:
                used.append(time.process_time() - processor)
        same &= all(np.array_equal(tables[1][name], tables[2][name], equal_nan=True) for name in tables[1].data_vars)
    one, two = (statistics.median(walls[jobs]) for jobs in walls)
    alone = f"{one:.1f} s alone (processor time {statistics.median(used):.1f} s)"
    print(f"  {np.prod(GRID.shape)} models: {alone}, {two:.1f} s with two processes; same bits: {same}")
    verdict("wall time of one process over that of two", one / two, TARGET)
