"""``phasekit run``: do what is missing of a sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli import CHECK_FAILED, WRONG_USAGE
from phasekit.cli.output import JsonOption, print_json, print_table
from phasekit.errors import InputError

if TYPE_CHECKING:
    from phasekit.runs.store.store import Store
    from phasekit.runs.sweeps.description import Sweep
    from phasekit.runs.sweeps.task import Task
    from phasekit.runs.work.backends import Backend
    from phasekit.runs.work.runner import Summary

BACKENDS = ("local", "dask")


def run(
    sweep: Annotated[Path, typer.Argument(help="Description of the sweep, a TOML file (see sims/).")],
    store: Annotated[
        Path | None, typer.Option("--store", help="Folder for the results (default build/runs/NAME).")
    ] = None,
    preset: Annotated[str, typer.Option("--preset", help="quick: minutes on two cores; full: hours.")] = "quick",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Processes (default: one for each core or GPU).")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads of each (default: cores / jobs).")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, or auto (GPUs where there are any).")] = "cpu",
    backend: Annotated[str, typer.Option("--backend", help="local (joblib) or dask.")] = "local",
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="Address of a Dask scheduler.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and stop.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run tasks again that failed before.")] = False,
    json: JsonOption = False,
) -> None:
    """Run the tasks of a sweep that its store doesn't hold yet, on all cores, all GPUs or a Dask cluster.

    Stop it however you like, and run it again: nothing that is finished is done twice. Exit status 1 if tasks failed
    or are broken, 130 if it was interrupted.
    """
    from phasekit.runs.store.store import Store
    from phasekit.runs.sweeps.description import SweepErrors, load_sweep
    from phasekit.runs.sweeps.expand import expand

    for name, value, known in (("backend", backend, BACKENDS), ("device", device, ("cpu", "cuda", "auto"))):
        if value not in known:
            raise InputError(name, value, f"must be one of {', '.join(known)}")
    try:
        description = load_sweep(sweep, preset)
        tasks = expand(description)
    except SweepErrors as errors:
        for mistake in errors.mistakes:
            print(f"error: {mistake}", file=sys.stderr)
        raise typer.Exit(WRONG_USAGE) from None
    folder = store or Path("build/runs") / description.name
    if dry_run:
        _foretell(description, tasks, Store(folder), json)
        return
    from phasekit.runs.work.progress import watching
    from phasekit.runs.work.runner import run_sweep

    workers = _backend(backend, scheduler, jobs, threads, device)
    try:
        with watching() as monitor:
            summary = run_sweep(
                description,
                tasks,
                Store.create(folder),
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


def _backend(name: str, scheduler: str | None, jobs: int | None, threads: int | None, device: str) -> Backend:
    from phasekit.runs.work.backends import DaskCluster, LocalProcesses

    if name == "local":
        if scheduler is not None:
            raise InputError("scheduler", scheduler, "goes with --backend dask")
        return LocalProcesses(jobs, threads, device)
    if scheduler is None:
        raise InputError("scheduler", None, "missing: --backend dask needs the address of a scheduler")
    if jobs is not None:
        raise InputError("jobs", jobs, "the cluster decides how many tasks run at once")
    return DaskCluster(scheduler, threads or 1)


def _foretell(sweep: Sweep, tasks: list[Task], store: Store, json: bool) -> None:
    """Say how many tasks there are, what is done already, and what the rest should cost."""
    from phasekit.cli.output import working
    from phasekit.runs.work.foretell import cost
    from phasekit.runs.work.progress import duration

    names = store.names() if store.exists() else set()
    failed = store.failed() if store.exists() else set()
    missing = [task for task in tasks if task.id not in names | failed]
    with working("measuring a few steps"):
        seconds = cost(missing)
    done = sum(task.id in names for task in tasks)
    counts = {"tasks": len(tasks), "done": done, "failed": len(failed & {task.id for task in tasks})}
    counts["missing"] = len(missing)
    if json:
        print_json(
            {"sweep": sweep.name, "preset": sweep.preset, "store": str(store.path), **counts, "seconds": seconds}
        )
        return
    rows: list[tuple[str, Any]] = [*counts.items(), ("work left, on one core", f"about {duration(seconds)}")]
    print_table(f"{sweep.name} ({sweep.preset}): {sweep.about}", ["", ""], rows, [f"store: {store.path}"])


def _report(summary: Summary, folder: Path, json: bool) -> None:
    from phasekit.runs.work.progress import duration

    counts = {
        "tasks": summary.total,
        "done before": summary.already,
        "done now": summary.done,
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


__all__ = ["CHECK_FAILED", "run"]
