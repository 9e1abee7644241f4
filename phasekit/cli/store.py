"""``phasekit status``, ``collect`` and ``repair``: look at a run store, take its results out, mend it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import JsonOption, print_json, print_table, working

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the run store.")]


def status(store: StoreArgument, json: JsonOption = False) -> None:
    """Say how far a store's sweeps are; also while they run, from another terminal.

    Exit status 1 if tasks failed, or are broken.
    """
    from phasekit.progress import duration
    from phasekit.runs.store.status import look
    from phasekit.runs.store.store import Store

    found = look(Store.open(store))
    if json:
        print_json({"store": str(store), **asdict(found), "remaining": found.remaining})
    else:
        columns = ["sweep", "preset", "tasks", "done", "failed", *(["broken"] if found.broken else []), "missing"]
        pace = f"{found.running} ensembles at work, {found.rate:.3g} tasks a second in the last minute"
        left = "" if found.remaining is None or not found.missing else f", {duration(found.remaining)} to go"
        print_table(
            str(store), columns, [[getattr(row, name) for name in columns] for row in found.sweeps], [pace + left]
        )
        if found.failures:
            rows = [(failure["task"], failure["type"], failure["message"]) for failure in found.failures]
            print_table("\nfailed", ("task", "", ""), rows)
    if found.broken:
        _point_to_repair(store)
    if found.failed or found.broken:
        raise typer.Exit(CHECK_FAILED)


def collect(
    store: StoreArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="File: .nc, .csv or .parquet.")],
    sweep: Annotated[str | None, typer.Option("--sweep", help="Only tasks of this sweep, NAME or NAME:PRESET.")] = None,
    theory: Annotated[bool, typer.Option("--theory/--no-theory", help="Put the theory's numbers beside.")] = True,
    json: JsonOption = False,
) -> None:
    """Write everything that a store holds to one file, the theory beside what networks measured.

    A row (in .nc: an entry along task and member) for each network. Exit status 1 if something in the store is broken.
    """
    from phasekit.runs.store.collect import check_format, save
    from phasekit.runs.store.collect import collect as read
    from phasekit.runs.store.plan import latest_plans
    from phasekit.runs.store.store import Store

    opened = Store.open(store)
    check_format(out)
    with working(f"reading {store}"):
        tasks = None if sweep is None else [task for plan in latest_plans(opened, sweep) for task in plan.tasks]
        found = read(opened, tasks, theory=theory)
        save(found, out)
    count = int(found.table["task"].nunique())
    if json:
        print_json(
            {"file": str(out), "tasks": count, "rows": len(found.table), "broken": found.broken, "notes": found.notes}
        )
    else:
        print_table(f"wrote {out}", ("", ""), [("tasks", count), ("rows", len(found.table))])
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    _complain(found.broken, store)


def repair(
    store: StoreArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong.")] = False,
    json: JsonOption = False,
) -> None:
    """Check every result and plan in a store; set aside what is truncated, changed or foreign: it is run again.

    Nothing is deleted: what is set aside lies in STORE/broken. Exit status 1 with --dry-run if something is wrong.
    """
    from phasekit.runs.store.plan import damaged_plans
    from phasekit.runs.store.store import Store

    opened = Store.open(store)
    with working(f"checking {store}"):
        opened.recover_all()
        found = {**dict(opened.problems()), **damaged_plans(opened)}
        moved = {} if dry_run else {name: str(opened.set_aside(name)) for name in found}
    if json:
        print_json({"store": str(store), "checked": len(opened.names()) + len(moved), "broken": found, "moved": moved})
    else:
        title = f"{store}: {len(opened.names()) + len(moved)} checked, {len(found)} broken"
        print_table(title, ("", "", ""), [(name, reason, moved.get(name, "")) for name, reason in found.items()])
    if dry_run and found:
        raise typer.Exit(CHECK_FAILED)


def _complain(broken: dict[str, str], store: Path) -> None:
    for name, reason in broken.items():
        print(f"broken: {name}: {reason}", file=sys.stderr)
    if broken:
        _point_to_repair(store)
        raise typer.Exit(CHECK_FAILED)


def _point_to_repair(store: Path) -> None:
    print(f"`phasekit repair {store}` sets broken tasks aside, so that they are run again", file=sys.stderr)
