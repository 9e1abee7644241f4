"""Copying against P for eight score functions, L = 64: theory, and heads trained from both ends.

V = 8, positional inputs. P is in units of P*, or of the steepest point P× where there is no jump. Sparsemax alone is
shifted by finite data: the second line is the theory with the sampling force, the grey circles have 16 times the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from figures._sweeps import networks
from figures.scores._scores import CROSSOVERS, JUMPS, NARROW, SPARSEMAX, label
from phasekit.drawing.plotting import (
    LABELS,
    PAGE,
    SYMBOLS,
    Branch,
    draw_filtered,
    draw_networks,
    draw_theory,
    new_figure,
    save,
    shade_window,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import minima_rows
from phasekit.theory.corrections.sampling_force import sparsemax_on_drawn_data
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from phasekit.model import Model

CONTEXT = 64
COLUMNS = 4
NODES = 121
START = {"uniform": ("C0", -1), "copy": ("C1", 1)}
#: Networks from the two ends are drawn this far (relative) to the left and right of their P.
ASIDE = 0.012
RANGE = (0.35, 3.2)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each score."""
    found = networks(preset, CROSSOVERS, JUMPS, NARROW, SPARSEMAX)
    shown = {model: rows for model, rows in found.items() if model.L == CONTEXT and model.kappa == 1}
    more = {model.at(kappa=1.0): rows for model, rows in found.items() if model.L == CONTEXT and model.kappa == 16}
    order = sorted(shown, key=lambda model: (model.score.name == "sparsemax", label(model)))
    tables = []
    with style():
        rows = -(-len(order) // COLUMNS)
        figure, panels = new_figure(
            rows, COLUMNS, width=PAGE, height=2.0 * rows + 0.5, sharex=True, sharey=True, squeeze=False
        )
        for axes, model in zip(panels.flat, order, strict=False):
            tables += _panel(axes, model, shown[model], more.get(model), preset)
        for axes in panels.flat[len(order) :]:
            axes.set_axis_off()
        for axes in panels[-1]:
            axes.set(xscale="log", xlim=RANGE, xlabel=f"$P$ / {SYMBOLS['P_star']} or {SYMBOLS['P_x']}")
            axes.set_xticks([0.5, 1, 2])
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        for axes in panels[:, 0]:
            axes.set_ylabel(LABELS["aG"])
        _legend(figure, panels[0, 0], found)
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_networks")


def _panel(
    axes: Axes, model: Model, rows: pd.DataFrame, more: pd.DataFrame | None, preset: Preset
) -> list[pd.DataFrame]:
    """Draw theory and networks of one score, and return the numbers."""
    found = find_transitions(model)
    first = found.order == "first"
    at = found.passage("P_star" if first else "P_x").P
    theory = _lines(axes, model, found, at)
    if first:
        low, high = found.passage("P_star").spinodals
        shade_window(axes, (low / at, high / at))
    tables = [theory]
    if model.score.name == "sparsemax":
        drawn = drawn_line(model, at, preset)
        draw_theory(axes, drawn["P"] / at, drawn["aG"], color="C3")
        tables.append(drawn)
        if more is not None:
            draw_networks(axes, more["P"] / 16 / at, more["aG"], color="0.5", markersize=3)
            tables.append(more.assign(kind="network", kappa=16.0))
    for start, (colour, side) in START.items():
        for fate, draw in (("higher energy", draw_filtered), ("kept", draw_networks)):
            here = rows[(rows["start"] == start) & (rows["fate"] == fate)]
            x = here["P"] / at * (1 + side * ASIDE)
            draw(axes, x, here["aG"], color=colour, markersize=3, markeredgewidth=0.6)
    axes.set_title(label(model), loc="left")
    word = f"jump, {SYMBOLS['P_star']} = {at:.1f}" if first else f"crossover, {SYMBOLS['P_x']} = {at:.1f}"
    axes.text(0.04, 0.95, word, transform=axes.transAxes, va="top", fontsize=7)
    tables.append(rows.assign(kind="network", kappa=model.kappa))
    return [table.assign(score=label(model), unit=at) for table in tables]


def _lines(axes: Axes, model: Model, found: Transitions, at: float) -> pd.DataFrame:
    """Draw the lowest minimum solid and others dashed; a jump leaves a gap."""
    P = at * np.geomspace(*RANGE, NODES)
    if found.order == "first":
        inside, (low, high) = at * np.array([1 - 1e-7, 1 + 1e-7]), found.passage("P_star").spinodals
        P = np.unique(np.concatenate([P, inside, np.linspace(low, high, 40)[1:-1]]))
    rows = minima_rows(model, P)
    branches: tuple[Branch, ...] = ("global", "metastable")
    for branch in branches:
        part = rows[rows["branch"] == branch]
        for side in (part[part["P"] < at], part[part["P"] >= at]) if found.order == "first" else (part,):
            draw_theory(axes, side["P"] / at, side["aG"], branch=branch, color="0.3")
    return rows.assign(kind="theory")


def drawn_line(model: Model, at: float, preset: Preset) -> pd.DataFrame:
    """Return aG and U of sparsemax with the sampling force, against P."""
    P = at * np.geomspace(*RANGE, preset.slow_points)
    heads = [sparsemax_on_drawn_data(model.at(P=float(value)), rows=512) for value in P]
    return pd.DataFrame({"P": P, "aG": [h.aG for h in heads], "U": [h.U for h in heads], "kind": "sampling force"})


def _legend(figure: Figure, axes: Axes, found: dict[Model, pd.DataFrame]) -> None:
    axes.plot([], [], color="0.3", label="theory, lowest minimum")
    axes.plot([], [], color="0.3", linestyle="--", label="other minimum")
    axes.plot([], [], color="C3", label="sparsemax with sampling force")
    for start, (colour, _) in START.items():
        draw_networks(axes, [], [], color=colour, markersize=3, label=f"Adam from the {start} end (faint: filtered)")
    if any(model.kappa == 16 for model in found):
        draw_networks(axes, [], [], color="0.5", markersize=3, label=r"Adam, 16 $P$ at $\kappa$ = 16")
    axes.fill_between([], [], [], color="0.9", linewidth=0, label="between spinodals")
    figure.legend(loc="outside lower center", ncols=3)
