"""``phasekit compare``: which score learns to copy with the least data, and which without a jump."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phasekit.checks import distinct, in_full
from phasekit.cli.options import ModelOptions, takes_model
from phasekit.cli.output import (
    JsonOption,
    OutOption,
    as_notes,
    caveat_of,
    default_folder,
    print_json,
    print_table,
    working,
)
from phasekit.describe import split_outside
from phasekit.errors import InputError
from phasekit.files import output_folder
from phasekit.model import RANGES, in_words

if TYPE_CHECKING:
    import pandas as pd

    from phasekit.model import Estimator, Model
    from phasekit.scores import Score

_POINTS = 240
#: Column of the table: heading, and what it means.
_COLUMNS = {
    "score": "",
    "order": "order",
    "P": "threshold P",
    "P_half": "P_half",
    "loss_before": "loss before",
    "loss_after": "after",
    "copy_after": "aG after",
    "loss": "loss at P",
    "copy": "aG at P",
}


@takes_model(without=("score",))
def compare(
    options: ModelOptions,
    scores: Annotated[
        str | None,
        typer.Option(
            "--scores", metavar="LIST", help="Joined by commas: softmax,ssa:n=2,mixture:scores=softmax+ssa(n=2)."
        ),
    ] = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Compare score functions on one task: the data they need, and whether they jump.

    P_half is the smallest P at which the loss of the global minimum is 1/2: least data first. The threshold is P* of a
    jump, the onset P1 of linear attention, or the steepest point of a crossover. With -P the state there is shown too.
    Writes compare.csv, .png, .pdf. Whether fluctuations give a warning is a question for samples (phasekit evidence).
    """
    from phasekit.scores import parse_score, write_score
    from phasekit.theory.compare import DEFAULT_SCORES, compare_scores

    listed = DEFAULT_SCORES if scores is None else split_outside(scores, ",")
    if not all(listed):
        raise InputError("scores", scores, "must be scores joined by commas, none of them empty: softmax,ssa:n=2")
    chosen = [parse_score(word) for word in listed]
    written = [write_score(score) for score in chosen]
    distinct("scores", written)
    model = options.model()
    words = in_words(model, options.estimator).removeprefix(f"{model.score.name}, ")
    named = "" if scores is None else " ".join(written)
    folder = output_folder(out or default_folder("compare", f"{words}, {named}"))
    with working(f"comparing {len(chosen)} scores"):
        table = compare_scores(model, chosen, options.estimator)
        if table["P_half"].isna().all():
            raise InputError("P_half", None, "no score's loss falls to 1/2 at a P that can be computed (1e-12 to 1e20)")
        files = _draw(model, chosen, table, options.estimator, folder / "compare")
    caveats = [caveat_of(model.at(score=score), options.estimator) for score in chosen]
    caveat = next((one for one in caveats if one), {})
    if json:
        described = {name: value for name, value in model.describe().items() if name != "score"}
        rows = table.to_dict(orient="records")
        print_json(
            {
                "model": described,
                "estimator": options.estimator,
                **caveat,
                "scores": rows,
                "files": [str(f) for f in files],
            }
        )
        return
    shown = {name: heading for name, heading in _COLUMNS.items() if name in table}
    numbers = f"V = {model.V}, L = {model.L}" + ("" if model.P is None else f", P = {in_full(model.P)}")
    rows = [[_cell(row[name]) for name in shown] for row in table.to_dict(orient="records")]
    notes = [*as_notes(caveat), *(f"wrote {path}" for path in files)]
    print_table(
        f"Scores ({model.inputs}, {options.estimator}, {numbers}), least P_half first", [*shown.values()], rows, notes
    )


def _cell(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) and value == value else value


def _draw(model: Model, scores: list[Score], table: pd.DataFrame, estimator: Estimator, stem: Path) -> list[Path]:
    """Draw the loss of the global minimum against P, all scores on one plot, with a dot where it is 1/2."""
    import numpy as np

    from phasekit.drawing.plotting import new_figure, save, style
    from phasekit.scores import write_score
    from phasekit.theory.compare import loss_curve

    needed = table.set_index("score")["P_half"]
    with style():
        figure, axes = new_figure(1, height=2.4 + 0.16 * len(scores))
        low, high = np.clip([needed.min() / 30, needed.max() * 10], *RANGES["P"])
        P = np.geomspace(low, high, _POINTS)
        ranked = sorted(scores, key=lambda score: float(needed[write_score(score)]))
        for k, score in enumerate(ranked):  # seven colours, then dashed
            look = {"color": f"C{k % 7}", "linestyle": ("-", "--", ":")[k // 7 % 3]}
            axes.plot(P, loss_curve(model.at(score=score), P, estimator), label=write_score(score), **look)
            axes.plot(needed[write_score(score)], 0.5, "o", color=look["color"], markersize=3)
        axes.set(xscale="log", xlabel="$P$", ylabel="loss", ylim=(0, 1.02))
        figure.legend(fontsize="small", loc="outside lower center")  # below: a mixture's name is long
        return save(figure, table, stem)
