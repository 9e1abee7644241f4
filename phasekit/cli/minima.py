"""``phasekit minima``: every local minimum of one model's action, at one P or at several."""

from __future__ import annotations

from typing import Any

import typer

from phasekit.cli import CHECK_FAILED
from phasekit.cli.axes import parse_axis
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import JsonOption, print_json, show, working


@takes_model()
def minima(options: ModelOptions, json: JsonOption = False) -> None:
    """Find every local minimum of the effective action, at one P or at several (-P 700,823,1000 or -P "1e2..1e4 in 5").

    Each minimum is a way for the head to attend (ignore, pool, copy). The one of lowest action wins; the others are
    metastable, and training can be caught in them. Exit status 1 if one of them didn't converge, 3 if none
    was found.
    """
    written = options.fields.get("P", "")
    several = any(mark in written for mark in (",", "..", ":"))
    points = parse_axis(f"P={written}")[1].tolist() if several else []
    models = [options.with_P(P).model() for P in points] if several else [options.model()]
    from phasekit.theory.minima import find_minima, minima_table

    with working("searching all minima"):
        found = [find_minima(model, options.estimator).describe() for model in models]
    branches = [branch for one in found for branch in one["branches"]]
    if json:
        print_json(_joined(found) if several else found[0])
    else:
        show(minima_table(models[0], options.estimator, found, several=several))
    if not all(branch["converged"] for branch in branches):
        raise typer.Exit(CHECK_FAILED)


def _joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the minima at several P as one document: what the models have in common, and an entry for each P."""
    own = ("branches", "global")
    common = {**found[0], "model": {name: value for name, value in found[0]["model"].items() if name != "P"}}
    points = [{"P": one["model"]["P"], **{name: one[name] for name in own}} for one in found]
    return {**{name: value for name, value in common.items() if name not in own}, "points": points}
