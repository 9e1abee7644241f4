"""What the runner costs: overhead of a task with joblib and with Dask, parallel efficiency, scanning a large store.

The runner is held against bare work: the same workers, each with its share of the tasks in one piece, and no store.
Both take turns in one run, so that whatever else the machine does slows them alike. Overhead is what a worker loses for
each task: ``(wall - bare wall) · workers / tasks``, workers being warm. What the disk alone takes for a result's two
files, without any runner, is printed beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks._busy import Busy
from benchmarks._cluster import dask_cluster
from benchmarks._timing import median_ratio, seconds_per_call, verdict
from phasekit.model import Model
from phasekit.runs.procedures import Workplace
from phasekit.runs.store.store import Store
from phasekit.runs.sweeps.description import Sweep
from phasekit.runs.sweeps.task import Task
from phasekit.runs.work.backends import Backend, DaskCluster, LocalProcesses
from phasekit.runs.work.progress import Silent
from phasekit.runs.work.runner import run_sweep

TASKS, OWN, GROUP = 2000, 1e-3, 50
LONG_TASKS = 8
SCANNED = 20_000
ROUNDS = 5


def main() -> None:
    """Print all four numbers beside what they should be."""
    folder = Path(tempfile.mkdtemp(prefix="phasekit-bench-"))
    try:
        disk(folder)
        local = LocalProcesses(2, 1)
        overhead("joblib", local, 1.0, folder)
        efficiency(local, folder)
        local.close()
        with dask_cluster(2) as address:
            cluster = DaskCluster(address)
            overhead("Dask", cluster, 5.0, folder)
            cluster.close()
        scan(folder)
    finally:
        shutil.rmtree(folder)


def run(backend: Backend, count: int, own: float, group: int, folder: Path) -> None:
    """Run a fresh sweep."""
    procedure = Busy(seconds=own)
    tasks = [Task(Model(V=8, L=16, P=100.0), seed, procedure) for seed in range(count)]
    sweep = Sweep("bench", "bench", "", None, {}, {}, tuple(range(count)), procedure, group=group)
    summary = run_sweep(sweep, tasks, Store.create(tempfile.mkdtemp(dir=folder)), backend, Silent())
    if summary.done != count:
        raise RuntimeError(f"{summary.done} of {count} tasks were done")


def bare(backend: Backend, count: int, own: float) -> None:
    """Do the same work on the same workers, and nothing else."""
    share = [(count // backend.workers, own)] * backend.workers
    for _ in backend.map(_work, share):
        pass


def _work(share: tuple[int, float]) -> None:
    count, own = share
    Busy(seconds=own).run([(Model(V=8, L=16, P=100.0), seed) for seed in range(count)], Workplace())


def overhead(name: str, backend: Backend, bound: float, folder: Path) -> None:
    """Print the overhead of short tasks, in processor time and in wall-clock time of a worker."""
    contenders = {"runner": lambda: run(backend, TASKS, OWN, GROUP, folder), "bare": lambda: bare(backend, TASKS, OWN)}
    spent: dict[str, list[float]] = {key: [] for key in contenders}

    def counted(key: str) -> None:
        before = processor_seconds()
        contenders[key]()
        spent[key].append(processor_seconds() - before)

    wall = seconds_per_call({key: partial(counted, key) for key in contenders}, ROUNDS)
    beyond = {what: [a - b for a, b in zip(x["runner"][-ROUNDS:], x["bare"][-ROUNDS:], strict=True)]
              for what, x in (("processor", spent), ("wall", wall))}  # fmt: skip
    processor = 1e3 * statistics.median(beyond["processor"]) / TASKS
    clock = 1e3 * statistics.median(beyond["wall"]) * backend.workers / TASKS
    title = f"{name}, {TASKS} tasks of 1 ms: ms that a task costs beyond its own"
    verdict(f"{title}, processor", processor, bound, at_most=True)
    verdict(f"{title}, wall (on an idle machine)", clock, bound, at_most=True)


def disk(folder: Path) -> None:
    """Print what a bare result costs: a directory and two files of a kilobyte, moved; and the same waited for."""
    for name, wait, count in (("", False, 1000), (", waiting for the disk", True, 100)):
        place = Path(tempfile.mkdtemp(dir=folder))
        begun = time.perf_counter()
        for k in range(count):
            (place / f".{k}").mkdir()
            for part in "ab":
                with open(place / f".{k}" / part, "wb", buffering=0) as file:
                    file.write(bytes(1024))
                    if wait:
                        os.fsync(file.fileno())
            (place / f".{k}").rename(place / f"{k}")
        seconds = (time.perf_counter() - begun) / count
        print(f"  bare directory with two files, written and moved{name}: {1e3 * seconds:.3g} ms", flush=True)


def processor_seconds() -> float:
    """Return the processor time so far of this process and all its living descendants (Linux)."""
    tick = os.sysconf("SC_CLK_TCK")
    total, pids = time.process_time(), _children(os.getpid())
    while pids:
        pid = pids.pop()
        with contextlib.suppress(FileNotFoundError):
            total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / tick
            pids += _children(pid)
    return total


def _children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):
            found += [int(word) for word in path.read_text().split()]
    return found


def efficiency(backend: Backend, folder: Path) -> None:
    """Print how much of two workers a sweep with tasks of a second gets, next to bare work."""
    runner, alone = lambda: run(backend, LONG_TASKS, 1.0, 1, folder), lambda: bare(backend, LONG_TASKS, 1.0)
    seconds = seconds_per_call({"runner": runner, "bare": alone}, 2)
    verdict("tasks of 1 s on two workers: parallel efficiency", median_ratio(seconds["bare"], seconds["runner"]), 0.9)


def scan(folder: Path) -> None:
    """Print how long a store of many finished tasks takes to check."""
    store = Store.create(folder / "large")
    procedure = Busy(seconds=0.0)
    case = (Model(V=8, L=16, P=100.0), 0)
    outcome = procedure.run([case], Workplace())[0]
    for first in range(0, SCANNED, 500):
        tasks = [Task(case[0], seed, procedure) for seed in range(first, first + 500)]
        store.commit(f"{first:032d}", [(task, outcome) for task in tasks], {"host": "here"}, durable=False)
    begun = time.perf_counter()
    problems = list(store.problems())
    seconds = time.perf_counter() - begun
    if problems or len(store.names()) != SCANNED:
        raise RuntimeError("the store isn't whole")
    verdict(f"checking every byte of a store of {SCANNED} tasks, in s", seconds, 3.0, at_most=True)


if __name__ == "__main__":
    main()
