"""Which score needs how many data: thresholds against L for all scores on one plot, V = 8, map estimator.

Solid: the jump at P*. Dotted: the steepest point of a smooth passage, where there is no jump. A dot is the endpoint,
where one turns into the other (a real L). Linear attention: the onset P1 (dashed) and the crossover to copying P2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures.scores._scores import label
from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.scores import parse_score
from phasekit.theory.compare import DEFAULT_SCORES
from phasekit.theory.transitions import Family, critical_endpoint, transition_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VOCABULARY = 8
CONTEXTS = (8, 4096)
COLOURS = ("C0", "C1", "C2", "C3", "C4", "C5", "0.5", "black")


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a line for each score."""
    L = np.unique(np.geomspace(*CONTEXTS, preset.points).round())
    models = [Model(V=VOCABULARY, L=8, score=parse_score(words)) for words in DEFAULT_SCORES]
    with style():
        figure, axes = new_figure(1, width=5.0, height=3.6)
        tables = [_line(axes, COLOURS[k], model, L) for k, model in enumerate(models)]
        axes.plot([], [], ":", color="0.3", label="smooth passage")
        axes.plot([], [], "o", color="0.3", markersize=3, label="endpoint of the jump")
        axes.set(xscale="log", yscale="log", xlabel=LABELS["L"], ylabel=f"{SYMBOLS['P_star']} or {SYMBOLS['P_x']}")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_thresholds")


def _line(axes: Axes, colour: str, model: Model, L: NDArray[np.float64]) -> pd.DataFrame:
    table, name = transition_table(model.grid(L=L)), label(model)
    if model.score.numbers.get("b", 1.0) != 1.0:
        name += f", b = {model.score.numbers['b']:g}"
    if not model.score.normalised:
        found = pd.DataFrame({"L": L, "P1": table["P1"], "P2": table["P2"]})
        axes.plot(L, found["P1"], "--", color=colour, label=f"{name}, {SYMBOLS['P1']}")
        axes.plot(L, found["P2"], color=colour, label=f"{name}, {SYMBOLS['P2']}")
        return found.assign(score=name, kind="line")
    found = pd.DataFrame({"L": L, "P_star": table["P_star"], "P_x": table["P_x"]}).assign(kind="line")
    jumps = np.isfinite(found["P_star"])
    if jumps.any() and not jumps.all():
        first = int(jumps.to_numpy().argmax())
        end = critical_endpoint(model, Family("L", (L[first - 1], L[first])))
        at, P = float(end["L"]), float(end["P"])
        row = pd.DataFrame([{"L": at, "P_star": P, "P_x": P, "kind": "endpoint"}])
        found = pd.concat([found, row]).sort_values("L", ignore_index=True)
        axes.plot(at, P, "o", color=colour, markersize=3)
    axes.plot(found["L"], found["P_star"], color=colour, label=name if jumps.any() else None)
    axes.plot(found["L"], found["P_x"], ":", color=colour, label=None if jumps.any() else name)
    return found.assign(score=name)
