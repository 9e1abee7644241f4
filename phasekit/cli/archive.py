"""``phasekit archive``: results that travel with the source: write them, and compute a sample of them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.errors import InputError

if TYPE_CHECKING:
    from phasekit.runs.archive.verify import Checked

#: Tasks that took longer than this share of the time for a check are left out of it; up to four are computed at once.
_LONGEST_SHARE = 0.05
#: Share of networks that may end in another minimum than in the archive.
_MOST_ELSEWHERE = 0.1
CHECKOUT = Path(__file__).resolve().parents[2]
SimsOption = Annotated[Path, typer.Option("--sims", help="Folder of the sweeps; archives are in its folder archive.")]


class MakeFirst(typer.core.TyperGroup):
    """A group whose first word may be a store: then it is what ``make`` is called with."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``make`` before words that begin with no command and no option."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["make", *args]
        return super().parse_args(ctx, args)


archive = typer.Typer(
    help="Keep a store's results in one compact file beside the sweep, from which runs and figures start.\n\n"
    "`phasekit archive STORE` is short for `phasekit archive make STORE`.",
    rich_markup_mode="markdown",
    cls=MakeFirst,
)


@archive.command()
def make(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the run store.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File (default: SIMS/archive/NAME.PRESET.nc).")
    ] = None,
    sims: SimsOption = CHECKOUT / "sims",
    json: JsonOption = False,
) -> None:
    """Write the results of a store to archives, one netCDF file for each sweep and preset.

    What an archive holds already stays in it, as long as the sweep has the task.
    """
    from phasekit.runs.archive.make import make_archive
    from phasekit.runs.store.plan import latest_plans
    from phasekit.runs.store.store import BrokenTask, Store
    from phasekit.runs.sweeps.description import load_sweep

    opened = Store.open(store)
    plans = latest_plans(opened)
    if out is not None and len(plans) != 1:
        raise InputError("out", str(out), f"is one file, but the store has {len(plans)} sweeps")
    try:
        with working(f"reading {store}"):
            made = [make_archive(load_sweep(sims / f"{p.sweep}.toml", p.preset), opened, out) for p in plans]
    except BrokenTask as broken:
        raise InputError(
            "store", str(store), f"has a broken task ({broken}); `phasekit repair` sets it aside"
        ) from None
    if json:
        print_json({"archives": [{**vars(one), "path": str(one.path)} for one in made]})
        return
    columns = ("", "tasks", "archived", "from the store", "dropped", "kB")
    rows = [(str(x.path), x.tasks, x.archived, x.added, x.dropped, -(-x.size // 1000)) for x in made]
    print_table("archives", columns, rows)


@archive.command()
def verify(
    files: Annotated[list[Path] | None, typer.Argument(help="Archives (default: all of SIMS/archive).")] = None,
    share: Annotated[float, typer.Option("--share", help="Of each archive's tasks, at least one.")] = 0.02,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="Instead of a share: go on for so long, on every archive in turn.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Of the choice of tasks (default: another each time; it is printed).")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes (default: one for each core).")] = None,
    sims: SimsOption = CHECKOUT / "sims",
    json: JsonOption = False,
) -> None:
    """Compute a random sample of archived tasks again, and compare it with what is archived.

    Networks must agree to a relative 1e-3; those that end in another minimum, as a last digit may decide, are counted.
    Averages over chains must agree within 5 standard errors of the difference; tasks whose chains aren't mixed are
    counted. Exit status 1 if something disagrees, fails, or more than a tenth of the networks end elsewhere.
    """
    import secrets

    from phasekit.checks import real_number
    from phasekit.progress import bar
    from phasekit.runs.archive.verify import archives_in, load_archives
    from phasekit.runs.archive.verify import verify as check
    from phasekit.runs.work.backends import LocalProcesses

    real_number("share", share, above=0, most=1)
    if seconds is not None:
        real_number("seconds", seconds, above=0)
    chosen = secrets.randbelow(10**6) if seed is None else seed
    archives = load_archives(files or archives_in(sims / "archive"))
    longest = _LONGEST_SHARE * seconds if seconds is not None else float("inf")
    workers = LocalProcesses(jobs)
    try:
        with bar(f"computing archived tasks again, seed {chosen}"):
            *_, checked = check(archives, workers, share=share, seconds=seconds, longest=longest, seed=chosen)
    finally:
        workers.close()
    elsewhere, networks = sum(x.total("elsewhere") for x in checked), sum(x.total("members") for x in checked)
    wrong = {task: f"{one.file}: {why}" for one in checked for task, why in one.wrong.items()}
    passed = not wrong and elsewhere <= _MOST_ELSEWHERE * networks
    if json:
        print_json({"seed": chosen, "archives": [_numbers(one) for one in checked], "wrong": wrong, "passed": passed})
    else:
        _print(checked, chosen, wrong)
    if not passed:
        raise typer.Exit(CHECK_FAILED)


def _numbers(one: Checked) -> dict[str, Any]:
    """Return a row of the table of what was computed again."""
    counts = {name: one.total(name) for name in ("identical", "members", "elsewhere", "unmixed")}
    largest = {"largest_relative": one.largest("relative"), "largest_sigmas": one.largest("sigmas")}
    again = {"archived": one.tasks, "computed_again": len(one.comparisons), "too_long": one.too_long}
    again["unavailable"] = one.unavailable
    return {"archive": one.file, **again, **counts, **largest, "seconds": one.seconds}


def _print(checked: list[Checked], seed: int, wrong: dict[str, str]) -> None:
    columns = {
        "archived": "tasks", "computed_again": "again", "identical": "same bits", "members": "members",
        "elsewhere": "elsewhere", "unmixed": "unmixed", "largest_relative": "largest", "largest_sigmas": "in errors",
        "seconds": "seconds",
    }  # fmt: skip
    rows = [_numbers(one) for one in checked]
    again, too_long, lacking = (
        sum(row[name] for row in rows) for name in ("computed_again", "too_long", "unavailable")
    )
    sigmas = max((row["largest_sigmas"] for row in rows if row["largest_sigmas"] == row["largest_sigmas"]), default=0.0)
    notes = [
        f"{again} tasks computed again (seed {seed}), {len(wrong)} disagree; largest deviation {sigmas:.1f} standard "
        "errors",
        "largest: relative deviation of networks; in errors: of averages over chains, in standard errors",
        f"{too_long} tasks take too long for this check" if too_long else "",
        f"{lacking} tasks need something that isn't here, a text say" if lacking else "",
        *(f"{task}: {why}" for task, why in wrong.items()),
    ]
    table = [(row["archive"].removesuffix(".nc"), *(row[name] for name in columns)) for row in rows]
    print_table("archived tasks, computed again", ("", *columns.values()), table, [note for note in notes if note])
