"""Build the explorer: one page that works from disk, with all it needs inside.

    python -m phasekit.explorer.build            write explorer.html
    python -m phasekit.explorer.build --check    exit with 1 if it is stale

The page holds the emitted formulas, the views, what is known of each score, and means over trained networks from the
archive in ``sims/archive`` (which must be there to build; the page itself needs nothing).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import phasekit
from phasekit.files import atomic
from phasekit.model import Model
from phasekit.scores.registry import SCORES

HERE = Path(__file__).resolve().parent
PAGE = HERE / "explorer.html"
ARCHIVE = HERE.parents[1] / "sims" / "archive"
#: In the order in which each may use what stands before it.
SCRIPTS = [
    "formulas",
    "numerics",
    "linear",
    "rows",
    "theory",
    "saturation",
    "state",
    "chart",
    "views",
    "export",
    "main",
]
#: The scores that the page computes, with what people call them; numbers end where sliders are of use.
LABELS = {
    "softmax": "softmax",
    "temperature": "softmax at a temperature",
    "ssa": "SSA",
    "entmax": "α-entmax",
    "sparsemax": "sparsemax",
    "linear": "linear attention",
}
ENDS = {"T": (0.1, 10.0), "n": (1.0, 10.0), "b": (0.05, 20.0), "alpha": (1.05, 3.0)}
STARTS = {"alpha": 1.5}
#: Sizes P that a sweep must have for its networks to be shown beside a curve.
_FEWEST = 4


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m phasekit.explorer.build", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="compare only; exit with 1 if the page is stale")
    if parser.parse_args(arguments).check:
        current = PAGE.exists() and PAGE.read_text("utf-8") == page()
        if not current:
            print(f"{PAGE} is stale: run python -m phasekit.explorer.build", file=sys.stderr)
        return 0 if current else 1
    with atomic(PAGE) as path:
        path.write_text(page(), encoding="utf-8")
    print(f"{PAGE} ({PAGE.stat().st_size // 1000} kB)")
    return 0


def page() -> str:
    """Return the page."""
    source = {file.name: file.read_text("utf-8") for file in (HERE / "source").iterdir()}
    known = json.dumps({"scores": scores(), "caveats": caveats(), "networks": networks()}, separators=(",", ":"))
    script = f"const PAGE = {known};\n" + "\n".join(source[f"{name}.js"] for name in SCRIPTS)
    filled = {"/*STYLE*/": source["style.css"], "/*VERSION*/": phasekit.__version__, "/*SCRIPT*/": script}
    text = source["page.html"]
    for mark, part in filled.items():
        text = text.replace(mark, part.replace("</script", "<\\/script"))
    return text


def scores() -> list[dict[str, Any]]:
    """Return the scores of the page: name, label, and their numbers with the ends of their sliders."""
    result = []
    for name, label in LABELS.items():
        score = SCORES.build(name)
        numbers = []
        for number in score.numbers:
            low, high = ENDS[number]
            start = STARTS.get(number, getattr(score, number))
            about = type(score).model_fields[number].description
            numbers.append({"name": number, "description": about, "low": low, "high": high, "start": start})
        result.append({"name": name, "label": label, "numbers": numbers})
    return result


def caveats() -> dict[str, list[str]]:
    """Return what phasekit says of each kind of theory: where it is approximate."""
    from phasekit.theory.action import action_for

    result = {}
    for kind, score in (("rows", "softmax"), ("linear", "linear")):
        for inputs in ("positional", "token+position", "relative"):
            word = "encoding" if inputs == "relative" else "inputs"
            model = Model(V=8, L=64, P=100, score=score, **{word: inputs})
            caveat = action_for(model).caveat(model.parameters())
            result[f"{kind} {inputs}"] = [caveat] if caveat else []
    return result


def networks() -> dict[str, list[list[float]]]:
    """Return means over trained networks: model to rows [P, first order parameter, second, loss, coverage].

    Networks that didn't converge are left out; each start of training has a row of its own.
    """
    from phasekit.runs.archive.file import read_archive

    found: dict[tuple[str, float, str], list[tuple[float, ...]]] = defaultdict(list)
    for file in sorted(ARCHIVE.glob("*.nc")):
        for task in read_archive(file).tasks.values():
            key = _shown_model(task.parameters)
            if key is not None:
                for start, row in _good_rows(task.values):
                    found[key, float(task.parameters["model"]["P"]), start].append(row)
    result: dict[str, list[list[float]]] = defaultdict(list)
    for (key, P, _), rows in sorted(found.items()):
        mean = [float(f"{x:.4g}") for x in np.mean(rows, axis=0)]
        if [P, *mean] not in result[key]:
            result[key].append([P, *mean])
    return {key: rows for key, rows in result.items() if len({row[0] for row in rows}) >= _FEWEST}


def _shown_model(parameters: Mapping[str, Any]) -> str | None:
    """Return how the page calls the model of trained networks; None for what it doesn't show."""
    described = dict(parameters["model"])
    if parameters["estimator"]["name"] != "adam" or "score" not in described:
        return None
    given, plain = dict(described.pop("score")), ("inputs", "V", "L", "sigma_w", "sigma_g", "kappa")
    name = given["name"]
    if name not in LABELS or set(described) != {"P", *plain}:  # masks, encodings, token laws, key dimensions
        return None
    numbers = SCORES.build(name).numbers  # in the order of the page's sliders; the archive's is another
    words = (name, *(given[number] for number in numbers), *(described[field] for field in plain))
    return " ".join(word if isinstance(word, str) else f"{word:g}" for word in words)


def _good_rows(values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield start and (order parameters, loss, coverage) of each network that converged."""
    linear = "c1" in values
    first, second = (values[name] for name in (("c1", "cG") if linear else ("a1", "aG")))
    sign = np.where(first + second < 0, -1, 1) if linear else np.ones(len(first))  # a pattern and its negative are one
    table = np.stack([sign * first, sign * second, values["loss"], values["coverage"]], axis=-1)
    for start, row, good in zip(values["start"], table, values["converged"] & ~values["failed"], strict=True):
        if good:
            yield str(start), tuple(float(x) for x in row)


if __name__ == "__main__":
    sys.exit(main())
