"""Linear attention against P: onset of pooling, crossover to copying, loss and coverage; theory and Adam.

Two pictures: positional inputs (V = 8, L = 16), where the two transitions nearly touch, and token+position inputs
(V = 8, L = 24), where a plateau of the loss separates them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures._sweeps import draw_rows, networks_of_one
from phasekit.drawing.plotting import (
    LABELS,
    draw_filtered,
    draw_networks,
    draw_theory,
    mark_passages,
    new_figure,
    save,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import minima_rows
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"c1": "C0", "cG": "C1", "loss": "C2", "coverage": "C3"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both pictures, each from the sweep of its name."""
    return [*picture("linear_transition", out, preset), *picture("linear_transition_tokens", out, preset)]


def picture(sweep: str, out: Path, preset: Preset) -> list[Path]:
    """Draw order parameters, loss and coverage of one model."""
    model, networks = networks_of_one(preset, sweep)
    found = find_transitions(model)
    theory = theory_rows(found, networks["P"].min(), networks["P"].max())
    kept, filtered = draw_rows(networks), networks[networks["fate"] == "higher energy"]
    with style():
        figure, panels = new_figure(3, height=5.2, sharex=True, height_ratios=[1.6, 1.2, 1.0])
        for axes, names in zip(panels, (("c1", "cG"), ("loss",), ("coverage",)), strict=True):
            for name in names:
                _draw(axes, name, theory, kept, filtered)
        upper, middle, lower = panels
        upper.set_ylabel(f"{LABELS['c1']}, {LABELS['cG']}")
        middle.axhline(1 - 1 / model.V, color="0.6", linewidth=0.6, linestyle=(0, (1, 1)), zorder=0)
        middle.annotate(
            "$1 - 1/V$",
            (1, 1 - 1 / model.V),
            (0, 1),
            xycoords=("axes fraction", "data"),
            color="0.4",
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=7,
        )
        middle.set(ylabel=LABELS["loss"], ylim=(0, 1.06))
        lower.set(ylabel=LABELS["coverage"], xlabel=LABELS["P"], xscale="log")
        _room_above_one(lower)
        for axes in panels:
            mark_passages(axes, found, symbol=axes is upper)
        _legend(figure, upper, theory, networks)
        upper.set_title(f"linear attention, {model.inputs}, $V$ = {model.V}, $L$ = {model.L}", loc="left")
        return save(figure, pd.concat([theory, networks.assign(kind="network")], ignore_index=True), out / sweep)


def theory_rows(found: Transitions, smallest_P: float, largest_P: float) -> pd.DataFrame:
    """Return all minima against P, the transitions among the points; the theory's coverage is 1 by construction."""
    thresholds = [passage.P for passage in found.passages]
    P = np.unique([*np.geomspace(smallest_P, largest_P, 300), *thresholds])
    rows = minima_rows(found.model, P)
    return rows.assign(kind="theory", coverage=np.where(rows["copying_share"].notna(), 1.0, np.nan))


def _draw(axes: Axes, name: str, theory: pd.DataFrame, kept: pd.DataFrame, filtered: pd.DataFrame) -> None:
    colour = COLOURS[name]
    for branch in ("global", "metastable"):
        line = theory[theory["branch"] == branch]
        draw_theory(axes, line["P"], line[name], branch=branch, color=colour)
    draw_filtered(axes, filtered["P"], filtered[name])
    draw_networks(axes, kept["P"], kept[name], color=colour)


def _room_above_one(axes: Axes) -> None:
    """Let the theory's coverage of 1 stand just below the upper end of the axis."""
    low, _ = axes.get_ylim()
    axes.set_ylim(low, 1 + 0.08 * (1 - low))


def _legend(figure: Figure, axes: Axes, theory: pd.DataFrame, networks: pd.DataFrame) -> None:
    counts = networks["fate"].value_counts()
    for name in ("c1", "cG"):
        axes.plot([], [], color=COLOURS[name], label=f"theory, {LABELS[name]}")
    if (theory["branch"] == "metastable").any():
        axes.plot([], [], color="0.3", linestyle="--", label="metastable")
    draw_networks(axes, [], [], color="0.3", label=f"Adam, {counts['kept']} kept of {len(networks)}")
    for fate in counts.index.drop("kept"):
        draw_filtered(axes, [], [], label=f"{counts[fate]} {fate}")
    figure.legend(loc="outside lower center", ncols=2)
