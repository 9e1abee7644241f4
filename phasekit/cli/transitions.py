"""``phasekit transitions``: where one model's behaviour changes, and how."""

from __future__ import annotations

from typing import Any

from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, as_notes, in_words, print_json, print_table, shown, working

MEANING = {
    "order": "second: continuous with a kink; first: a jump; crossover: smooth",
    "P1": "onset of pooling, where the origin stops being a minimum",
    "P2": "crossover to copying, where g²/q = 1/2",
    "P_star": "where both minima have the same action",
    "P_x": "steepest point of the crossover",
    "jump a1": "pooling, before and after P_star",
    "jump aG": "copying, before and after P_star",
    "jump loss": "training loss, before and after P_star",
    "spinodals": "two minima exist between these",
    "action": "of both minima at P_star",
    "barrier": "action of the saddle point above the minima at P_star",
}


@takes_model(without=("P",))
def transitions(options: ModelOptions, json: JsonOption = False) -> None:
    """Locate and classify the phase transitions on the way from few to many training sequences P.

    Linear attention starts to pool at P1 (second order) and crosses over to copying at P2; softmax attention jumps at
    P_star between two minima (first order), which both exist between the two spinodals, or crosses over smoothly.
    """
    model = options.model()
    from phasekit.theory.transitions import find_transitions

    with working("locating transitions"):
        found = find_transitions(model, options.estimator).describe()
    if json:
        print_json(found)
        return
    evidence = found.pop("evidence")
    numbers = {name: value for name, value in found.items() if name not in ("model", "estimator", "caveat")}
    rows = [(name, shown(value), MEANING.get(name, "")) for name, value in _flat(numbers)]
    notes = [f"evidence: {name} = {shown(value)}" for name, value in _flat(evidence)]
    notes += as_notes(found)
    print_table(f"Transitions ({in_words(model, options.estimator, varied=['P'])})", ["", "", ""], rows, notes)


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return nested entries as a flat list, their names joined by spaces."""
    entries: list[tuple[str, Any]] = []
    for name, value in document.items():
        entries += _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return entries
