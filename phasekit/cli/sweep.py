"""``phasekit run``: do what is missing of a sweep."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.checks import one_of, whole_number
from phasekit.cli import WRONG_USAGE
from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.errors import InputError
from phasekit.extras import require

if TYPE_CHECKING:
    from phasekit.runs.archive.start import Start
    from phasekit.runs.store.store import Store
    from phasekit.runs.sweeps.description import Sweep
    from phasekit.runs.work.summary import Summary

BACKENDS = ("local", "dask")


def run(
    sweep: Annotated[Path, typer.Argument(help="Description of the sweep, a TOML file (see sims/).")],
    store: Annotated[
        Path | None, typer.Option("--store", help="Folder for the results (default build/runs/NAME).")
    ] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="quick: minutes on two cores; medium, full: hours.")
    ] = "quick",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Processes (default: one for each core or GPU).")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", help="Threads that each may have (default: cores / jobs, up to OMP_NUM_THREADS)."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, or auto (GPUs where there are any).")] = "cpu",
    backend: Annotated[str, typer.Option("--backend", help="local (joblib) or dask.")] = "local",
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="Address of a Dask scheduler.")] = None,
    begin: Annotated[
        str, typer.Option("--from", help="archive: start from archived results; scratch: compute everything.")
    ] = "archive",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run tasks again that failed before.")] = False,
    json: JsonOption = False,
) -> None:
    """Run the tasks of a sweep that its store doesn't hold yet, on all cores, all GPUs or a Dask cluster.

    Stop it however you like, and run it again: nothing that is finished is done twice. Exit status 1 if tasks failed
    or are broken, 130 if it was interrupted.
    """
    from phasekit.runs.archive.start import start_of
    from phasekit.runs.store.store import Store
    from phasekit.runs.sweeps.description import SweepErrors, load_sweep

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells set it for what a script puts into the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    one_of("backend", backend, BACKENDS)
    one_of("device", device, ("cpu", "cuda", "auto"))
    one_of("from", begin, ("archive", "scratch"))
    for name, count in (("jobs", jobs), ("threads", threads)):
        if count is not None:
            whole_number(name, count, 1)
    _check_cluster(backend, scheduler, jobs)
    try:
        description = load_sweep(sweep, preset)
        folder = store or Path("build/runs") / description.name
        start = start_of(description, Store(folder), scratch=begin == "scratch")
    except SweepErrors as errors:
        for mistake in errors.mistakes:
            print(f"error: {mistake}", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None
    _warn_of_few_seeds(description)
    if dry_run:
        _foretell(description, start, Store(folder), backend, jobs, threads, device, json)
        return
    from phasekit.runs.work.backends import DaskCluster, LocalProcesses
    from phasekit.runs.work.progress import watching
    from phasekit.runs.work.runner import run_sweep

    opened = Store.create(folder)
    if copied := start.prepare(opened):
        print(f"{copied} of {len(start.tasks)} tasks are archived", file=sys.stderr)
    workers = DaskCluster(scheduler, threads or 1) if scheduler else LocalProcesses(jobs, threads, device)
    try:
        with watching() as monitor:
            summary = run_sweep(
                description,
                start.tasks,
                opened,
                workers,
                monitor,
                device=device,
                fail_fast=fail_fast,
                retry_failed=retry_failed,
            )
    finally:
        workers.close()
    _report(summary, folder, json)
    if summary.status:
        raise typer.Exit(summary.status)


def _warn_of_few_seeds(sweep: Sweep) -> None:
    """Say before the work that `phasekit measure` will find too few data sets for what the sweep's file asks of it."""
    from phasekit.measure.bootstrap import LEAST_SEEDS

    seeds = [len(part.seeds) for part in sweep.parts or (sweep,) if part.measure]
    if seeds and min(seeds) < LEAST_SEEDS:
        few = f"{min(seeds)} seed{'s' * (min(seeds) > 1)}"
        print(f"note: {few}, but `phasekit measure` needs at least {LEAST_SEEDS} data sets", file=sys.stderr)


def _check_cluster(backend: str, scheduler: str | None, jobs: int | None) -> None:
    """Refuse options that don't go together, and a cluster without Dask, before any work."""
    if backend == "local":
        if scheduler is not None:
            raise InputError("scheduler", scheduler, "goes with --backend dask")
        return
    require("dask", "distributed")
    if scheduler is None:
        raise InputError("scheduler", None, "missing: --backend dask needs the address of a scheduler")
    if jobs is not None:
        raise InputError("jobs", jobs, "the cluster decides how many tasks run at once")


def _foretell(
    sweep: Sweep, start: Start, store: Store, backend: str, jobs: int | None, threads: int | None, device: str,
    json: bool,
) -> None:  # fmt: skip
    """Say how many tasks there are, what is done already, and what the rest should cost with these processes."""
    from phasekit.cli.output import working
    from phasekit.progress import duration
    from phasekit.runs.work.calibrate import cost
    from phasekit.runs.work.processes import workers_and_threads

    names = store.names() if store.exists() else set()
    failed = store.failed() if store.exists() else set()
    tasks, held = start.tasks, start.archive.tasks if start.archive else {}
    archived = {task.id for task in tasks if task.id in held} - names
    missing = [task for task in tasks if task.id not in names | failed | archived]
    workers, threads = (1, threads or 1) if backend == "dask" else workers_and_threads(jobs, threads, device)
    with working("measuring a few steps"):
        seconds, unknown = cost(missing, device, threads, workers, sweep.group)
    done = sum(task.id in names for task in tasks)
    counts = {
        "tasks": len(tasks),
        "done": done,
        "archived": len(archived),
        "failed": len(failed & {task.id for task in tasks}),
    }
    counts["missing"] = len(missing)
    if json:
        measured = {"seconds": None if unknown else seconds, "threads": threads, "jobs": workers, "unknown": unknown}
        print_json({"sweep": sweep.name, "preset": sweep.preset, "store": str(store.path), **counts, **measured})
        return
    shared = f"{workers} process{'es' * (workers > 1)} of {threads} thread{'s' * (threads > 1)}"
    left = f"about {duration(seconds / workers)}" if not unknown else f"not known: {unknown[0]}"
    rows: list[tuple[str, Any]] = [*counts.items(), (f"work left, for {shared}", left)]
    print_table(f"{sweep.name} ({sweep.preset}): {sweep.about}", ["", ""], rows, [f"store: {store.path}"])


def _report(summary: Summary, folder: Path, json: bool) -> None:
    from phasekit.progress import duration

    counts = {
        "tasks": summary.total,
        "done before": summary.already,
        "done now": summary.done - summary.elsewhere,
        "done elsewhere": summary.elsewhere,
        "failed": len(summary.failed),
        "broken": len(summary.broken),
        "missing": summary.missing,
    }
    if json:
        failed = [{"task": task, "type": kind, "message": text} for task, (kind, text) in summary.failed.items()]
        print_json(
            {
                "store": str(folder),
                **{name.replace(" ", "_"): count for name, count in counts.items()},
                "seconds": summary.seconds,
                "failures": failed,
                "broken_tasks": summary.broken,
                "interrupted": summary.interrupted,
                "disk": summary.disk or None,
            }
        )
    else:
        rows = [(name, count) for name, count in counts.items() if count or name in ("tasks", "done now")]
        print_table(f"{folder}: {duration(summary.seconds)}", ["", ""], rows)
        for title, found in (("failed", summary.failed), ("broken", summary.broken)):
            if found:
                lines = [(task, *(why if isinstance(why, tuple) else (why,))) for task, why in sorted(found.items())]
                print_table(f"\n{title}", ["task", *([""] * (len(lines[0]) - 1))], lines)
    if summary.broken:
        print(f"broken tasks: `phasekit repair {folder}` sets them aside, so that they are run again", file=sys.stderr)
    if summary.failed:
        print("failed tasks: --retry-failed runs them again", file=sys.stderr)
    if summary.disk:
        print(f"error: results can't be written: {summary.disk}; make room and run again", file=sys.stderr)
