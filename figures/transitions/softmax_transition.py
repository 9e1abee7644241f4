"""Softmax attention against P: both branches, the saddle point, P*, spinodals; theory and Adam from both ends.

Networks (those of the sweep of this name) start on the uniform branch, on the copy branch and at random. Inside the
window they end in either minimum; those of higher energy are filtered out, and lie on the metastable branch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.ticker import NullFormatter

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
from phasekit.drawing.transition import pieces
from phasekit.theory.transitions import find_transitions, stationary_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"aG": "C1", "loss": "C2", "coverage": "C3"}
TICKS = (300, 500, 1000, 2000, 4000)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw order parameters, loss and coverage."""
    model, networks = networks_of_one(preset, "softmax_transition")
    transitions = find_transitions(model)
    curve = stationary_curve(transitions, (networks["P"].min(), networks["P"].max())).assign(kind="theory")
    with style():
        figure, panels = new_figure(3, height=5.4, sharex=True, height_ratios=[1.8, 1.2, 0.9])
        for axes, name in zip(panels, COLOURS, strict=True):
            _draw(axes, name, curve, networks)
        upper, middle, lower = panels
        upper.set(ylabel=LABELS["aG"], ylim=(-0.015, None))
        pooling = upper.secondary_yaxis("right", functions=(lambda aG: 1 - aG, lambda a1: 1 - a1))  # rows sum to 1
        pooling.set_ylabel(f"{LABELS['a1']} = 1 − {LABELS['aG']}")
        middle.set(ylabel=LABELS["loss"], ylim=(0, None))
        lower.set(ylabel=LABELS["coverage"], xlabel=LABELS["P"], xscale="log")
        largest = curve["P"].max()
        lower.set_xticks([P for P in TICKS if largest >= P])
        lower.xaxis.set_major_formatter("{x:.0f}")
        lower.yaxis.get_major_formatter().set_useOffset(False)
        lower.xaxis.set_minor_formatter(NullFormatter())
        for axes in panels:
            mark_passages(axes, transitions, symbol=axes is upper)
        _legend(figure, upper, networks)
        upper.set_title(f"softmax attention, {model.inputs}, $V$ = {model.V}, $L$ = {model.L}", loc="left")
        table = pd.concat([curve, networks.assign(kind="network")], ignore_index=True)
        return save(figure, table, out / "softmax_transition")


def _draw(axes: Axes, name: str, curve: pd.DataFrame, networks: pd.DataFrame) -> None:
    for branch, line in pieces(curve):
        draw_theory(axes, line["P"], line[name], branch=branch, color=COLOURS[name])
    filtered, kept = networks[networks["fate"] == "higher energy"], draw_rows(networks)
    draw_filtered(axes, filtered["P"], filtered[name])
    draw_networks(axes, kept["P"], kept[name], color=COLOURS[name])


def _legend(figure: Figure, axes: Axes, networks: pd.DataFrame) -> None:
    counts = networks["fate"].value_counts()
    axes.plot([], [], color="0.3", label="theory, global minimum")
    axes.plot([], [], color="0.3", linestyle="--", label="metastable minimum")
    axes.plot([], [], color="0.3", linestyle=":", label="saddle point")
    draw_networks(axes, [], [], color="0.3", label=f"Adam, {counts['kept']} kept of {len(networks)}")
    for fate in counts.index.drop("kept"):
        draw_filtered(axes, [], [], label=f"{counts[fate]} {fate}")
    axes.fill_between([], [], [], color="0.9", linewidth=0, label="between spinodals")
    figure.legend(loc="outside lower center", ncols=2)
