"""``phasekit figures``: run the scripts in ``figures/``, found by their file names, in folders that are chapters."""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.output import working, write
from phasekit.drawing.presets import PRESETS, Preset
from phasekit.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[2]


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Which figures; all if left out.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures and tables.")] = Path("build/figures"),
    preset: Annotated[
        str, typer.Option("--preset", help="tiny: a test; quick: minutes on two cores; full: finer grids, more seeds.")
    ] = "quick",
    scripts: Annotated[Path, typer.Option("--scripts", help="Folder of the scripts.")] = CHECKOUT / "figures",
    show_list: Annotated[bool, typer.Option("--list", help="List the figures and what they show, and stop.")] = False,
) -> None:
    """Draw the figures and tables: theory against trained networks, each beside the numbers behind it.

    Each figure is one script in figures/, and its files are PNG, PDF and CSV. Exit status 1 if a script failed.
    """
    from phasekit.files import output_folder

    if preset not in PRESETS:
        raise InputError("preset", preset, f"must be one of {', '.join(PRESETS)}")
    known = discover(scripts)
    for name in names or []:
        if name not in known:
            raise InputError("figure", name, f"unknown{_suggestion(name, known)}; figures are {', '.join(known)}")
    if show_list:
        for name in known:
            write(f"{name}: {_headline(load(known[name]))}\n")
        return
    folder = output_folder(out)
    failed = [name for name in names or known if not _draw(name, known[name], folder, PRESETS[preset])]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(CHECK_FAILED)


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


def _draw(name: str, script: Path, out: Path, preset: Preset) -> bool:
    begun = time.perf_counter()
    try:
        with working(f"drawing {name}"):
            draw: Callable[[Path, Preset], list[Path]] = load(script).main
            files = draw(out, preset)
    except (Exception, SystemExit):  # one broken script must not keep the others from being drawn
        traceback.print_exc()
        return False
    written = ", ".join(str(path) for path in files)
    write(f"{name} ({time.perf_counter() - begun:.1f} s): {written}\n")
    return True


def _headline(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def _suggestion(name: str, known: dict[str, Path]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]}?" if close else ""
