"""What a dry run says that a sweep costs, against the processor time that its tasks took.

For every sweep of ``sims/`` whose quick preset takes less than about two minutes. Both are processor time on one
thread, so other programs on the machine don't matter much; the table says per sweep how long measuring took, too.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from phasekit.runs.archive.start import start_of
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import load_sweep
from phasekit.runs.work.backends import LocalProcesses
from phasekit.runs.work.calibrate import cost
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep

SIMS = Path(__file__).resolve().parents[1] / "sims"
SWEEPS = (
    "linear_transition", "front", "score_crossovers", "score_narrow_jump", "induction", "score_sparsemax",
    "linear_transition_tokens", "softmax_transition", "token_position", "score_jump_scaling", "score_jumps",
    "induction_escape", "linear_scaling_L", "linear_scaling_V", "size_dependence", "table_map",
)  # fmt: skip
#: An estimate may be off by this factor.
BOUND = 2.0


def main() -> None:
    """Print a line for every sweep."""
    print(f"  {'sweep (quick)':26} {'tasks':>6} {'estimate':>9} {'took':>9} {'ratio':>6}   measuring")
    ratios = {name: _compare(name) for name in SWEEPS}
    off = [name for name, ratio in ratios.items() if not 1 / BOUND <= ratio <= BOUND]
    print(f"  off by more than {BOUND:g}: {', '.join(off) or 'none'}", flush=True)


def _compare(name: str) -> float:
    """Print a sweep's line, and return its estimate over what it took."""
    with tempfile.TemporaryDirectory(prefix="phasekit-estimate-") as folder:
        store, sweep = Store.create(Path(folder) / "store"), load_sweep(SIMS / f"{name}.toml", "quick")
        tasks = start_of(sweep, store).tasks  # thresholds are taken from the archive; the results aren't
        begun = time.process_time()
        estimate, unknown = cost(tasks, group=sweep.group)
        measuring = time.process_time() - begun
        if unknown:
            raise RuntimeError(f"{name}: {unknown[0]}")
        backend = LocalProcesses(1, 1)
        try:
            summary = run_sweep(sweep, tasks, store, backend, Silent())
        finally:
            backend.close()
        if summary.status:
            raise RuntimeError(f"{name}: {len(summary.failed)} tasks failed, {summary.missing} are missing")
        took = sum(store.load(task.id).record["processor_seconds"] for task in tasks)
    line = f"{len(tasks):6} {estimate:8.1f}s {took:8.1f}s {estimate / took:6.2f} {measuring:8.1f}s"
    print(f"  {name:26} {line}", flush=True)
    return estimate / took


if __name__ == "__main__":
    main()
