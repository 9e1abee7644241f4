"""``phasekit scores``: the score functions that there are, and their numbers."""

from __future__ import annotations

from typing import Any

from phasekit.cli.output import JsonOption, print_json, print_table


def scores(json: JsonOption = False) -> None:
    """List every score function: its numbers with their defaults, and whether there is a theory for it."""
    from phasekit.errors import InputError
    from phasekit.model import Model
    from phasekit.scores.registry import score_types
    from phasekit.theory.action import action_for

    rows: list[dict[str, Any]] = []
    for name, kind in score_types().items():
        fields = {
            field: {"default": about.get_default(call_default_factory=True), "meaning": about.description or ""}
            for field, about in kind.model_fields.items()
        }
        theories, why = [], ""
        for estimator in ("map", "posterior"):
            try:
                action_for(Model(V=8, L=16, P=100, score=kind()), estimator)
                theories.append(estimator)
            except InputError as refused:
                why = str(refused.allowed)
        about = (kind.__doc__ or "").partition("\n")[0]
        rows.append({"name": name, "numbers": fields, "theory": theories, "why_not": why, "about": about})
    if json:
        for row in rows:
            row["numbers"] = {field: {**one, "default": str(one["default"])} for field, one in row["numbers"].items()}
        print_json({"scores": rows})
        return
    lines = [
        (
            row["name"],
            ", ".join(f"{field} = {one['default']}" for field, one in row["numbers"].items()),
            ", ".join(row["theory"]) or f"none: {row['why_not']}",
            row["about"],
        )
        for row in rows
    ]
    print_table("Score functions", ["", "numbers", "theory", ""], lines)
