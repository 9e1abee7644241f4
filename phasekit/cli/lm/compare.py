"""``phasekit lm compare``: arms of an experiment with language models, against one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.cli.output import JsonOption, print_json, print_table, working
from phasekit.errors import InputError
from phasekit.extras import require

if TYPE_CHECKING:
    import pandas as pd

    from phasekit.measure.language import Experiment


def compare(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the run store.")],
    reference: Annotated[str | None, typer.Option("--reference", help="The arm to compare with: softmax.")] = None,
    sweep: Annotated[str | None, typer.Option("--sweep", help="Only this sweep, NAME or NAME:PRESET.")] = None,
    json: JsonOption = False,
) -> None:
    """Compare language models that differ in their score only: learning curves, pairs, perplexity.

    Differences are paired over seeds and items; intervals are over both, p-values corrected for their number (Holm).
    Beside each stands what these seeds could have shown.
    """
    require("transformers", "tokenizers")
    from phasekit.measure.language import compare as compare_experiment
    from phasekit.measure.language import experiments
    from phasekit.runs.store.store import Store

    with working(f"comparing {store}"):
        there = experiments(Store.open(store), sweep)
        found = [(one, compare_experiment(one, reference)) for one in there if len(one.arms) > 1]
    if not found:
        arms = ", ".join(label for one in there for label in one.arms)
        raise InputError("store", str(store), f"has one arm only in each experiment ({arms}): nothing to compare")
    if json:
        print_json({"store": str(store), "experiments": [_document(one, table) for one, table in found]})
        return
    for k, (one, table) in enumerate(found):
        _show(one, table, "\n" if k else "")


def _document(one: Experiment, table: pd.DataFrame) -> dict[str, Any]:
    return {
        "common": one.common.describe(),
        "procedure": one.procedure.describe(),
        "seeds": one.seeds,
        "curves": [dict(zip(("arm", "step", "loss", "low", "high"), row, strict=True)) for row in _curves(one)],
        "tests": table.to_dict("records"),
    }


def _curves(one: Experiment) -> list[tuple[str, int, float, float, float]]:
    """Return the held-out loss of every arm at the steps at which it was watched, with its band over seeds."""
    from phasekit.measure.language import band

    rows = []
    for label, arm in one.arms.items() if one.procedure.watch_every else ():
        steps, values = arm.curve("loss")
        mean, low, high = (x.tolist() for x in band(values))
        rows += list(zip([label] * len(mean), steps.tolist(), mean, low, high, strict=True))
    return rows


def _show(one: Experiment, table: pd.DataFrame, before: str) -> None:
    shape = one.common.shape
    model = f"{shape.family}, {shape.layers} layers, width {shape.width}"
    words = f"{model}, {one.procedure.steps} steps of {one.procedure.batch}"
    if curves := _curves(one):
        steps = list(dict.fromkeys(step for _, step, *_ in curves))
        at = {(label, step): _with_band(*rest) for label, step, *rest in curves}
        print_table(
            f"{before}{words}: held-out loss, nats a token",
            ("step", *one.arms),
            [(step, *(at.get((label, step)) for label in one.arms)) for step in steps],
            [f"95 % over {len(one.seeds)} seeds"],
        )
    for way in dict.fromkeys(table["way"]):
        rows = table[table["way"] == way]
        title = f"pairs by {way.replace('_', ' ')}: share judged rightly" if way else "texts: nats a token"
        print_table(
            f"\n{words}, {title}",
            ("test", "arm", "value", "difference", "corrected p", "shown from", "found in 80 % from", "ties", ""),
            [_row(row, way) for row in rows.to_dict("records")],
            ["shown from: the least difference that these seeds and items could show, after correction"],
        )


def _row(row: dict[str, Any], way: str) -> tuple[Any, ...]:
    own = row["test"], row["arm"], _with_band(row["value"], row["low"], row["high"])
    ties = row["ties"] if way else None
    if row["verdict"] == "reference":
        return *own, None, None, None, None, ties, "reference"
    difference = _with_band(row["difference"], row["difference_low"], row["difference_high"])
    numbers = (f"{row[name]:.2g}" for name in ("corrected", "resolvable", "detectable"))
    return *own, difference, *numbers, ties, row["verdict"]


def _with_band(value: float, low: float, high: float) -> str:
    return f"{value:.4g} [{low:.4g}, {high:.4g}]"
