"""``phasekit plot``: the course of each model of a run store, theory and networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phasekit.cli.output import JsonOption, OutOption, print_json, working, write
from phasekit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from phasekit.model import Model
    from phasekit.runs.store.store import Store

_FEWEST = 3  # values of P that make a course


def plot(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the run store.")],
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Draw order parameters, loss and coverage against P of every model that a store has trained networks of.

    One picture (PNG, PDF) with its numbers (CSV) for each model with networks at three or more P. Models without a
    theory, or with fewer, are named and left out; exit status 1 if nothing is left.
    """
    from phasekit.drawing.plotting import save
    from phasekit.drawing.transition import plot_transition
    from phasekit.model import in_words
    from phasekit.runs.store.store import Store

    folder = out or Path("build") / "plot" / store.resolve().name
    files, refused = [], []
    for k, (model, rows) in enumerate(_networks(Store.open(store)).items()):
        words = in_words(model, "map", varied=["P"])
        if rows["P"].nunique() < _FEWEST:
            refused.append(f"{words}: networks at {rows['P'].nunique()} P only")
            continue
        try:
            with working(f"drawing {words}"):
                figure, table = plot_transition(model, rows)
                files += save(figure, table, folder / f"{model.score.name}-V{model.V}-L{model.L}-{k}")
        except (InputError, ArithmeticError) as error:
            refused.append(f"{words}: {error}")
    if json:
        print_json({"files": list(map(str, files)), "left_out": refused})
    else:
        write("".join(f"{file}\n" for file in files) + "".join(f"left out: {words}\n" for words in refused))
    if not files:
        raise typer.Exit(1)


def _networks(store: Store) -> dict[Model, pd.DataFrame]:
    """Return the trained networks of a store by model (without P), one row each, with their fates."""
    import pandas as pd

    from phasekit.model import Model
    from phasekit.runs.store.collect import fates

    parts: dict[Model, list[pd.DataFrame]] = {}
    for name in sorted(store.names()):
        found = store.load(name)
        own = fates(found.values)
        described = found.parameters["model"]
        if not own or "V" not in described or "coverage" not in found.values:
            continue
        model = Model(**described)
        rows = pd.DataFrame({**found.values, **own}).assign(P=model.P, data_seed=found.parameters["data_seed"])
        parts.setdefault(model.at(P=None), []).append(rows)
    if not parts:
        raise InputError("store", str(store.path), "has no trained heads")
    return {model: pd.concat(rows, ignore_index=True) for model, rows in parts.items()}
