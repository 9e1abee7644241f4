"""Timings to compare: contenders take turns in one process, so that a busy machine slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def seconds_per_call(contenders: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, list[float]]:
    """Return wall-clock seconds of every contender in every round, after one warm-up each."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ratio(slow: list[float], fast: list[float]) -> float:
    """Return the median over rounds of slow / fast."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))


def verdict(name: str, value: float, bound: float, *, at_most: bool = False) -> None:
    """Print a measured ratio beside what it should be."""
    kept = value <= bound if at_most else value >= bound
    word = "at most" if at_most else "at least"
    print(f"  {name}: {value:.3g} ({word} {bound:g}: {'kept' if kept else 'MISSED'})", flush=True)
