"""``phasekit transitions``: where one model's behaviour changes, and how."""

from __future__ import annotations

from typing import Any

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, as_notes, print_json, print_table, shown, working
from phasekit.model import in_words


@takes_model(without=("P",))
def transitions(options: ModelOptions, json: JsonOption = False) -> None:
    """Locate and classify the phase transitions on the way from few to many training sequences P.

    Linear attention starts to pool at P1 (second order) and crosses over to copying at P2; softmax attention jumps at
    P_star between two minima (first order), which both exist between the two spinodals, or crosses over smoothly.
    Exit status 1 where nothing changes at any P (order "none"): the evidence says why; 3 where the search failed.
    """
    model = options.model()
    from phasekit.theory.transitions import find_transitions

    with working("locating transitions"):
        found = find_transitions(model, options.estimator).describe()
    status = CHECK_FAILED if found["order"] == "none" else 0
    if json:
        print_json(found)
        raise typer.Exit(status)
    evidence = found.pop("evidence")
    numbers = {name: value for name, value in found.items() if name not in ("model", "estimator", "caveat")}
    known = meanings(options.estimator)
    rows = [(name, shown(value), known.get(name, "")) for name, value in _flat(numbers)]
    notes = ["nothing changes at any P"] if status else []
    notes += [f"evidence: {name} = {shown(value)}" for name, value in _flat(evidence)]
    notes += as_notes(found)
    print_table(f"Transitions ({in_words(model, options.estimator, varied=['P'])})", ["", "", ""], rows, notes)
    raise typer.Exit(status)


def meanings(estimator: str) -> dict[str, str]:
    """Return what the entries of an answer mean, by name; of thresholds, whose they are."""
    from phasekit.theory.transitions import COURSES, THRESHOLDS

    known = {"order": "second: continuous with a kink; first: a jump; crossover: smooth; front: row by row"}
    known |= {name: f"{estimator}: {threshold.meaning}" for name, threshold in THRESHOLDS.items()}
    for course in COURSES.values():
        known |= course.meanings
    return known


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested entries as a flat list, their names joined by spaces."""
    entries: list[tuple[str, Any]] = []
    for name, value in document.items():
        entries += _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return entries
