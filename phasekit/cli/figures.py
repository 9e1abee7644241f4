"""``phasekit figures``: run the scripts in ``figures/``, found by their file names, in folders that are chapters."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import io
import itertools
import sys
import time
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from phasekit.checks import one_of, whole_number
from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import working, write
from phasekit.drawing.presets import PRESETS, Preset
from phasekit.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[2]
#: How long each script took on a quiet machine, in the folder of the scripts: what is cheap comes first.
_SECONDS = "seconds.toml"
#: Of a script that isn't in that file: last.
_USUAL = 100.0


@dataclass(frozen=True)
class Drawing:
    """A script to run, as it travels to a worker."""

    name: str
    script: Path
    out: Path
    preset: Preset
    quiet: bool


@dataclass(frozen=True)
class Drawn:
    """What became of it: the files that it wrote, or the error; wall time, and processor time of its process."""

    name: str
    seconds: float
    processor: float
    files: tuple[str, ...] = ()
    error: str = ""


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Which figures; all if left out.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures and tables.")] = Path("build/figures"),
    preset: Annotated[
        str,
        typer.Option(
            "--preset", help="tiny: a test; quick; full: finer, more seeds; best: the largest that is archived."
        ),
    ] = "quick",
    begin: Annotated[
        str,
        typer.Option("--from", help="archive: networks from sims/archive as far as they are there; scratch: all new."),
    ] = "archive",
    changed: Annotated[
        bool, typer.Option("--changed", help="Only those whose script, package or networks changed since.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="How many to draw at once.")] = 1,
    scripts: Annotated[Path, typer.Option("--scripts", help="Folder of the scripts.")] = CHECKOUT / "figures",
    show_list: Annotated[bool, typer.Option("--list", help="List the figures and what they show, and stop.")] = False,
) -> None:
    """Draw the figures and tables: theory against trained networks, each beside the numbers behind it.

    Each figure is one script in figures/, and its files are PNG, PDF and CSV. What is cheap comes first. Exit status 1
    if a script failed.
    """
    from phasekit.files import output_folder

    if preset not in PRESETS:
        raise InputError("preset", preset, f"must be one of {', '.join(PRESETS)}")
    one_of("from", begin, ("archive", "scratch"))
    whole_number("jobs", jobs, 1)
    known = discover(scripts)
    for name in names or []:
        if name not in known:
            raise InputError("figure", name, f"unknown{_suggestion(name, known)}; figures are {', '.join(known)}")
    if show_list:
        for name in known:
            write(f"{name}: {_headline(load(known[name]))}\n")
        return
    folder, chosen = output_folder(out), PRESETS[preset]
    if begin == "scratch":
        chosen = replace(chosen, scratch=True)
        if not names:
            _say_what_networks_cost()
    stamps = {name: folder / f".{name}.{preset}{'.scratch' * chosen.scratch}" for name in names or known}
    wanted = [name for name in stamps if not changed or _is_stale(known[name], stamps[name])]
    cost = {**dict.fromkeys(wanted, _USUAL), **_seconds(scripts)}
    order = sorted(wanted, key=lambda name: cost[name])
    drawings = [Drawing(name, known[name], folder, chosen, quiet=jobs > 1) for name in order]
    failed = []
    for drawn, left in _progress(_draw_all(drawings, jobs), cost, order, jobs):
        if drawn.error:
            print(drawn.error, file=sys.stderr)
            failed.append(drawn.name)
        else:
            took = f"{drawn.seconds:.1f} s, {drawn.processor:.1f} s of a core"
            write(f"{drawn.name} ({took}{left}): {', '.join(drawn.files)}\n")
            if changed:
                stamps[drawn.name].touch()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(CHECK_FAILED)


def _say_what_networks_cost() -> None:
    """Say how long the networks took that are archived, before they are computed again."""
    from phasekit.progress import duration
    from phasekit.runs.archive.verify import archives_in, load_archives

    archives = load_archives(archives_in(CHECKOUT / "sims" / "archive")).values()
    tasks = [task for archive in archives for task in archive.tasks.values()]
    seconds = sum(task.record.get("processor_seconds", task.record["seconds"]) for task in tasks)
    write(f"{len(tasks)} tasks are archived; they took {duration(seconds)} of one core\n")


def _draw_all(drawings: Sequence[Drawing], jobs: int) -> Iterator[Drawn]:
    """Yield what became of drawings as they are done, some at once in processes of their own."""
    if jobs == 1 or len(drawings) < 2:
        for drawing in drawings:
            with working(f"drawing {drawing.name}"):
                drawn = draw(drawing)
            yield drawn
        return
    from phasekit.runs.work.backends import LocalProcesses

    workers = LocalProcesses(jobs, 1)
    try:
        yield from workers.map(draw, drawings)
    finally:
        workers.close()


def draw(drawing: Drawing) -> Drawn:
    """Run a script. One that is broken must not keep the others from being drawn: its error is returned."""
    begun, used = time.perf_counter(), time.process_time()
    files: list[Path] = []
    error = ""
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # as the command does: results are flagged
    try:
        with contextlib.redirect_stdout(io.StringIO()) if drawing.quiet else contextlib.nullcontext():
            main: Callable[[Path, Preset], list[Path]] = load(drawing.script).main
            files = main(drawing.out, drawing.preset)
    except InputError as what:  # such as a text that isn't here: a line, as every command says it
        error = f"{drawing.name}: {what}"
    except (Exception, SystemExit):
        error = traceback.format_exc().rstrip()
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    return Drawn(drawing.name, seconds, processor, tuple(map(str, files)), error)


def _progress(
    drawn: Iterator[Drawn], cost: Mapping[str, float], order: Sequence[str], jobs: int
) -> Iterator[tuple[Drawn, str]]:
    """Yield each with what is left to do, in words, judged by how long the others took."""
    from phasekit.progress import duration

    left, spent = dict.fromkeys(order), 0.0
    for one in drawn:
        left.pop(one.name)
        spent += one.seconds
        pace = spent / sum(cost[name] for name in order if name not in left)
        ahead = duration(pace * sum(cost[name] for name in left) / jobs)
        yield one, f"; {len(left)} left, about {ahead}" if left else ""


def _seconds(scripts: Path) -> dict[str, float]:
    """Return how long scripts took once, by name."""
    path = scripts / _SECONDS
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _is_stale(script: Path, stamp: Path) -> bool:
    """Whether a script, what it imports or the networks that it may show are newer than its stamp."""
    if not stamp.exists():
        return True
    shared = [*CHECKOUT.glob("phasekit/**/*.py"), *CHECKOUT.glob("phasekit/**/*.mplstyle"), *CHECKOUT.glob("sims/**/*")]
    sources = [*script.parent.glob("*.py"), *script.parent.parent.glob("_*.py"), *shared]
    return max(path.stat().st_mtime for path in sources) > stamp.stat().st_mtime


def discover(scripts: Path) -> dict[str, Path]:
    """Return the figure scripts by name, sorted; names that begin with an underscore are helpers, not figures.

    Raises
    ------
    InputError
        If there are none.
    """
    files = sorted(scripts.glob("**/*.py"), key=lambda path: path.stem)
    found = {path.stem: path for path in files if not path.stem.startswith("_")}
    if not found:
        raise InputError("scripts", str(scripts), "holds no figure scripts (they come with a checkout of phasekit)")
    return found


def load(script: Path) -> ModuleType:
    """Import a script from its file; the folder of scripts is a package, so they can share helpers."""
    script = script.resolve()
    packages = list(itertools.takewhile(lambda folder: (folder / "__init__.py").exists(), script.parents))
    root = packages[-1].parent if packages else script.parents[1]
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    name = ".".join(script.relative_to(root).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise InputError("script", str(script), "isn't a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _headline(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def _suggestion(name: str, known: dict[str, Path]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]}?" if close else ""
