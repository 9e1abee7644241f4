"""The structure of the code as a table and a picture: rooms, floors, arrows, lines, and habits that should be rare.

    python -m benchmarks.structure                     the checkout as it is
    python -m benchmarks.structure --before COMMIT     a commit beside it; also draws build/structure.png

A *room* is a folder or file that lies directly in ``phasekit/`` (or the folder ``derivations/`` where that is imported
by it). An *arrow* says that one room imports from another. Files that import only each other are the ground floor;
every other room stands one *floor* above the highest room that it imports from. Code is read, not run.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Names of thresholds: a dictionary with these as keys has other keys for every order of transition.
THRESHOLDS = {"P1", "P2", "P_star", "P_x", "spinodals", "jump", "jumps"}
#: The strength of the data t = Pσ_w²/(κV), or its inverse, written out.
STRENGTH = re.compile(r"sigma_w\s*\*\*\s*2\s*/\s*\(?[^)\n]*kappa|kappa\s*\*\s*[^\n]*\bV\s*/\s*[^\n]*sigma_w\s*\*\*\s*2")


@dataclass(frozen=True)
class House:
    """A checkout, read as text."""

    root: Path

    def files(self, *folders: str) -> Iterator[Path]:
        """Yield the Python files of some folders, without emitted code."""
        for folder in folders:
            yield from (path for path in sorted((self.root / folder).rglob("*.py")) if "generated" not in path.parts)

    @cached_property
    def trees(self) -> dict[Path, ast.Module]:
        """The syntax trees of the package, its derivations and the figures."""
        return {path: ast.parse(path.read_text("utf-8")) for path in self.files("phasekit", "derivations", "figures")}

    def room(self, module: str) -> str | None:
        """Return the room that a module lies in; None for the package itself and for modules of others."""
        first, *rest = module.split(".")
        if first == "derivations":
            return first
        if first != "phasekit" or not rest or rest[0].startswith("__"):
            return None
        return rest[0] if (self.root / "phasekit" / rest[0]).is_dir() or self._is_file(rest[0]) else None

    def _is_file(self, name: str) -> bool:
        return (self.root / "phasekit" / f"{name}.py").exists()

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The rooms that each room imports from, lazy imports included."""
        found: dict[str, set[str]] = {}
        for path, tree in self.trees.items():
            own = self.room(".".join(path.relative_to(self.root).with_suffix("").parts))
            if own is None:
                continue
            targets = found.setdefault(own, set())
            for module in _imported(tree):
                other = self.room(module)
                if other is not None and other != own:
                    targets.add(other)
        imported = set().union(*found.values())
        if "derivations" in found and "derivations" not in imported:
            del found["derivations"]  # the workshop beside the package
        return found

    @cached_property
    def floors(self) -> dict[str, int]:
        """The floor that each room stands on, from 0; rooms that import each other in a circle share one."""
        ground = {room for room in self.imports if all(map(self._is_file, {room, *self._below(room)}))}
        floor = dict.fromkeys(self.imports, 0)
        for _ in floor:
            for room in self.imports.keys() - ground:
                others = (other for other in self.imports[room] if room not in self._below(other))
                floor[room] = max((floor[other] + 1 for other in others), default=0)
        return floor

    def _below(self, room: str) -> set[str]:
        seen, ahead = set(), [room]
        while ahead:
            for other in self.imports.get(ahead.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
        return seen

    @property
    def circles(self) -> int:
        """How many rooms import themselves by a detour."""
        return sum(room in self._below(room) for room in self.imports)

    @property
    def arrows(self) -> int:
        """How many arrows there are between rooms above the ground floor."""
        return sum(self.floors[other] > 0 for others in self.imports.values() for other in others)

    def lines(self, *folders: str) -> int:
        """Return the number of lines of the Python files in some folders, without emitted code."""
        return sum(path.read_text("utf-8").count("\n") for path in self.files(*folders))

    @cached_property
    def tested_only(self) -> list[str]:
        """Functions of the package that nothing but tests and re-exports names, documentation included."""
        words: Counter[str] = Counter()
        pages = [*self.root.glob("*.md"), *self.root.glob("docs/**/*.md"), *self.root.glob("Makefile")]
        for path in [*self.files("phasekit", "derivations", "figures", "benchmarks"), *pages]:
            text = path.read_text("utf-8")
            if path.name == "__init__.py":
                text = re.sub(r"^from .*? import (\((?s:.*?)\)|.*)$|__all__ = \[(?s:.*?)\]", "", text, flags=re.M)
            words.update(re.findall(r"\w+", text))
        return sorted(
            f"{path.relative_to(self.root)}:{node.name}"
            for path, tree in self.trees.items()
            if path.is_relative_to(self.root / "phasekit") and "derivations" not in path.parts
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and words[node.name] < 2
            and not node.decorator_list
            and not node.name.startswith("__")
        )

    @cached_property
    def strengths(self) -> list[str]:
        """Places that write t = Pσ_w²/(κV) or its inverse out, derivations aside."""
        return [
            f"{path.relative_to(self.root)}:{number}"
            for path in self.files("phasekit", "figures")
            if "derivations" not in path.parts
            for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
            if STRENGTH.search(line)
        ]

    @cached_property
    def keys(self) -> list[str]:
        """Places that look a threshold up in a dictionary whose keys depend on the order of the transition.

        By the names of such dictionaries: ``values``, ``found``, …; tables, which have all columns, aren't meant.
        """
        return [
            f"{path.relative_to(self.root)}:{node.lineno}"
            for path, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value in THRESHOLDS
            and isinstance(node.ctx, ast.Load)
            and re.search(r"(values|found|ends|thresholds|transitions)$", ast.unparse(node.value))
        ]

    def table(self) -> dict[str, int]:
        """Return what is counted, by name."""
        rooms = sorted(self.imports)
        return {
            "folders in phasekit/": sum((self.root / "phasekit" / room).is_dir() for room in rooms),
            "files in phasekit/": sum(self._is_file(room) for room in rooms),
            "floors": max(self.floors.values()) + 1,
            "arrows between rooms above the ground floor": self.arrows,
            "rooms in circles of imports": self.circles,
            "lines of phasekit/ and derivations/": self.lines("phasekit", "derivations"),
            "lines of figures/": self.lines("figures"),
            "lines of tests/": self.lines("tests"),
            "functions that only tests call": len(self.tested_only),
            "places that write t out": len(self.strengths),
            "look-ups of thresholds by order-dependent keys": len(self.keys),
        }


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


_STAGGER, _BESIDE = 0.45, 8


def draw(houses: dict[str, House], file: Path) -> None:
    """Draw houses side by side: rooms on their floors, arrows down to what they import from."""
    from matplotlib.figure import Figure

    from phasekit.files import atomic

    figure = Figure(figsize=(7 * len(houses), 7.5), layout="constrained")
    for axes, (title, house) in zip(figure.subplots(1, len(houses), squeeze=False)[0], houses.items(), strict=True):
        place = {}
        for floor in range(max(house.floors.values()) + 1):
            rooms = sorted(room for room, on in house.floors.items() if on == floor)
            step = _STAGGER if len(rooms) > _BESIDE else 0.0  # more than stand beside each other stand in two lines
            place |= {room: ((k + 0.5) / len(rooms), floor - step * (k % 2)) for k, room in enumerate(rooms)}
        for room, others in house.imports.items():
            for other in others:
                (x, y), (to_x, to_y) = place[room], place[other]
                if max(y, to_y) <= 0:  # files of the ground floor share errors.py
                    continue
                grey = to_y <= 0
                axes.plot(
                    [x, to_x],
                    [y - 0.16, to_y + 0.16],
                    color="0.6" if grey else "C0",
                    lw=0.5 if grey else 0.9,
                    alpha=0.4,
                )
        for room, (x, y) in place.items():
            folder = (house.root / "phasekit" / room).is_dir()
            box = {"boxstyle": "round,pad=0.3", "facecolor": "0.93" if folder else "white", "edgecolor": "0.4"}
            axes.text(x, y, room, ha="center", va="center", fontsize=9, bbox=box)
        counts = house.table()
        above = sum(floor > 0 for floor in house.floors.values())
        title = (
            f"{title}: {above} rooms above the ground, {counts['floors']} floors, {house.arrows} arrows between them"
        )
        axes.set_title(title, loc="left")
        axes.set(xlim=(0, 1), ylim=(-0.6 - _STAGGER, max(house.floors.values()) + 0.6))
        axes.set_axis_off()
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic(file) as path:
        figure.savefig(path, dpi=110, format="png")


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.structure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--before", metavar="COMMIT")
    parser.add_argument("--list", action="store_true", help="also name every function, place and key that is counted")
    chosen = parser.parse_args(arguments or [])
    with tempfile.TemporaryDirectory() as folder:
        houses = {"now": House(ROOT)}
        if chosen.before:
            archive = subprocess.run(["git", "archive", chosen.before], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            houses = {chosen.before: House(Path(folder)), **houses}
        tables = [house.table() for house in houses.values()]
        print(f"  {'':48}" + "".join(f"{title:>10}" for title in houses))
        for name in tables[0]:
            print(f"  {name:48}" + "".join(f"{table[name]:10}" for table in tables))
        if chosen.list:
            now = houses["now"]
            print(*now.tested_only, *now.strengths, *now.keys, sep="\n  ")
        draw(houses, ROOT / "build" / "structure.png")
        print("  drawn: build/structure.png")


if __name__ == "__main__":
    main(sys.argv[1:])
