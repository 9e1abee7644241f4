"""``phasekit status``, ``collect`` and ``repair``: look at a run store, take its results out, mend it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.errors import InputError

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the run store.")]


def status(store: StoreArgument, json: JsonOption = False) -> None:
    """Say how far a store's sweeps are; also while they run, from another terminal. Exit status 1 if tasks failed."""
    from phasekit.runs.store.status import look
    from phasekit.runs.store.store import Store
    from phasekit.runs.work.progress import duration

    found = look(Store.open(store))
    if json:
        print_json({"store": str(store), **asdict(found), "missing": found.missing, "remaining": found.remaining})
    else:
        columns = ("sweep", "preset", "tasks", "done", "failed", "missing")
        pace = f"{found.running} ensembles at work, {found.rate:.3g} tasks a second in the last minute"
        left = "" if found.remaining is None or not found.missing else f", {duration(found.remaining)} to go"
        print_table(str(store), columns, [[row[name] for name in columns] for row in found.sweeps], [pace + left])
        if found.failures:
            rows = [(failure["task"], failure["type"], failure["message"]) for failure in found.failures]
            print_table("\nfailed", ("task", "", ""), rows)
    if found.failed:
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
    from phasekit.runs.store.collect import FORMATS, save
    from phasekit.runs.store.collect import collect as read
    from phasekit.runs.store.store import Store

    opened = Store.open(store)
    if out.suffix not in FORMATS:
        raise InputError("out", str(out), f"must end in {', '.join(FORMATS)}")
    with working(f"reading {store}"):
        found = read(opened, tasks_of(opened, sweep), theory=theory)
        save(found, out)
    tasks = int(found.table["task"].nunique())
    if json:
        print_json({"file": str(out), "tasks": tasks, "rows": len(found.table), "broken": found.broken})
    else:
        print_table(f"wrote {out}", ("", ""), [("tasks", tasks), ("rows", len(found.table))])
    _complain(found.broken, store)


def repair(
    store: StoreArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong.")] = False,
    json: JsonOption = False,
) -> None:
    """Check every result in a store; set aside what is truncated, changed or foreign, so that it is run again.

    Nothing is deleted: what is set aside lies in STORE/broken. Exit status 1 with --dry-run if something is wrong.
    """
    from phasekit.runs.store.store import Store

    opened = Store.open(store)
    with working(f"checking {store}"):
        opened.recover_all()
        found = dict(opened.problems())
        moved = {} if dry_run else {name: str(opened.set_aside(name)) for name in found}
    if json:
        print_json({"store": str(store), "checked": len(opened.names()) + len(moved), "broken": found, "moved": moved})
    else:
        title = f"{store}: {len(opened.names()) + len(moved)} checked, {len(found)} broken"
        print_table(title, ("", "", ""), [(name, reason, moved.get(name, "")) for name, reason in found.items()])
    if dry_run and found:
        raise typer.Exit(CHECK_FAILED)


def tasks_of(store: object, sweep: str | None) -> list[str] | None:
    """Return the tasks of a sweep, NAME or NAME:PRESET; None for all tasks of the store.

    Raises
    ------
    InputError
        If the store doesn't know the sweep.
    """
    from phasekit.runs.store.plan import read_plans
    from phasekit.runs.store.store import Store

    if sweep is None:
        return None
    assert isinstance(store, Store)
    known = {f"{plan.sweep}:{plan.preset}": plan for plan in read_plans(store)}
    named = [plan for name, plan in known.items() if sweep in (name, plan.sweep)]
    if not named:
        raise InputError("sweep", sweep, f"not in this store; it has {', '.join(known) or 'none'}")
    return [task for plan in named for task in plan.tasks]


def _complain(broken: dict[str, str], store: Path) -> None:
    for name, reason in broken.items():
        print(f"broken: {name}: {reason}", file=sys.stderr)
    if broken:
        print(f"`phasekit repair {store}` sets broken tasks aside, so that they are run again", file=sys.stderr)
        raise typer.Exit(CHECK_FAILED)
