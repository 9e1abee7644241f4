"""Theory's numbers for a few hundred random models, compared with those of an earlier commit.

    python -m benchmarks.golden                     compare with the numbers kept in tests/theory/golden.json
    python -m benchmarks.golden --against COMMIT    compute that commit's numbers here and now, and compare with them
    python -m benchmarks.golden --write FILE        write today's numbers

Numbers of one machine agree to the last digits; between machines they differ by rounding, amplified where a number is
the root of a flat function (a spinodal close to an endpoint).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phasekit

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "theory" / "golden.json"
#: How many random models for each score and inputs. The posterior of a softmax row takes seconds a model.
MAP, POSTERIOR = 30, 30
SCORES: tuple[tuple[str, dict[str, tuple[float, float]]], ...] = (
    ("linear", {}),
    ("softmax", {}),
    ("temperature", {"T": (0.3, 3.0)}),
    ("ssa", {"n": (1.0, 6.0), "b": (0.3, 2.0)}),
    ("entmax", {"alpha": (1.1, 1.9)}),
    ("sparsemax", {}),
)


def models() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield descriptions of random models, each with its estimator."""
    random = np.random.default_rng(2026)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    def model(score: dict[str, Any], inputs: str, sizes: tuple[int, int]) -> dict[str, Any]:
        V, L = (round(between(lowest, highest)) for lowest, highest in ((2, sizes[0]), (3, sizes[1])))
        sigma_w, sigma_g, kappa = between(0.5, 2.0), between(0.5, 2.0), between(0.3, 3.0)
        P = between(0.1, 10.0) * kappa * V * L**1.5 / sigma_w**2
        numbers = {"V": V, "L": L, "P": P, "sigma_w": sigma_w, "sigma_g": sigma_g, "kappa": kappa}
        return {**numbers, "score": score, "inputs": inputs}

    for name, ranges in SCORES:
        for inputs in ("positional", "token+position"):
            for _ in range(MAP):
                own = {number: between(*ends) for number, ends in ranges.items()}
                yield model({"name": name, **own}, inputs, (64, 1024)), "map"
    for _ in range(POSTERIOR):
        yield model({"name": "linear"}, "positional", (32, 64)), "posterior"
    yield {"V": 8, "L": 64, "P": 1437.0, "score": {"name": "softmax"}}, "posterior"


def numbers_of(description: dict[str, Any], estimator: str) -> dict[str, Any]:
    """Return branches and transitions of one model, or the words of its refusal."""
    model = phasekit.Model(**description)
    found: dict[str, Any] = {"model": description, "estimator": estimator}
    try:
        minima = phasekit.find_minima(model, estimator).describe()
        shown = ("action", "order_parameters", "loss", "converged")
        found["branches"] = [{name: branch[name] for name in shown} for branch in minima["branches"]]
    except (phasekit.InputError, ArithmeticError) as error:
        found["branches"] = str(error)
    try:
        transitions = phasekit.find_transitions(model.at(P=None), estimator)
        found["transitions"] = {"order": transitions.order, **transitions.values}
    except (phasekit.InputError, ArithmeticError) as error:
        found["transitions"] = str(error)
    return found


def deviations(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield the relative deviation of every number, and infinity where the two differ in anything else."""
    if isinstance(before, dict) and isinstance(after, dict) and set(before) <= set(after):
        for name in before:
            yield from deviations(before[name], after[name], f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from deviations(*pair, f"{place}[{number}]")
    elif isinstance(before, float) and isinstance(after, float):
        if not (math.isnan(before) and math.isnan(after)):
            yield place, abs(after - before) / max(abs(before), abs(after), 1e-9)
    elif before != after:
        yield place, math.inf


def numbers() -> list[dict[str, Any]]:
    """Return the numbers of all models."""
    return [numbers_of(description, estimator) for description, estimator in models()]


def numbers_at(commit: str) -> list[dict[str, Any]]:
    """Return the numbers that the package of another commit finds for the same models."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        environment = {**os.environ, "PYTHONPATH": folder}
        out = Path(folder) / "golden.json"
        subprocess.run([sys.executable, __file__, "--write", str(out)], cwd=folder, env=environment, check=True)
        return list(json.loads(out.read_text()))


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--write", metavar="FILE", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-12)
    chosen = parser.parse_args(arguments or [])
    if chosen.write:
        chosen.write.write_text(json.dumps(numbers(), indent=0))
        return
    before = numbers_at(chosen.against) if chosen.against else json.loads(KEPT.read_text())
    worst = [
        (max((size, place) for place, size in [("", 0.0), *deviations(old, new)]), old["model"], old["estimator"])
        for old, new in zip(before, numbers(), strict=True)
    ]
    moved = sorted((row for row in worst if row[0][0] > chosen.tolerance), key=lambda row: -row[0][0])
    print(f"  {len(worst)} models, {len(moved)} moved by more than {chosen.tolerance:g}")
    for (size, place), model, estimator in moved:
        print(f"  {size:.2g} in {place} of {model}, {estimator}")


if __name__ == "__main__":
    main(sys.argv[1:])
