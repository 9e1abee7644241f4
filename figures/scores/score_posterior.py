"""The posterior of SSA on both sides of its endpoint, V = 8, L = 64 (n_c = 1.44): smooth, a small jump, a large one.

Lines: the row-level mean field, all branches. Points: chains of Hamiltonian Monte Carlo on one data set, each with the
Monte Carlo error of its mean, from the two ends (drawn beside each other); where these stay apart, two wells coexist.
Crosses: chains that together have not mixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from figures._sweeps import networks
from figures.posterior._posteriors import theory_lines
from phasekit.drawing.plotting import LABELS, PAGE, draw_networks, draw_theory, mark_passages, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import pieces
from phasekit.model import Model
from phasekit.samplers.diagnostics import NOT_MIXED
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANGE = (0.6, 1.6)
#: Chains from the two ends are drawn at this relative distance from their P.
ASIDE = 0.008
TICKS = (700, 1000, 1500, 2000, 3000, 4000, 5000, 7000)
STARTS = {"uniform": ("v", "C0"), "copy": ("^", "C1")}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each n."""
    sampled = networks(preset, "score_posterior")
    tables = []
    with style():
        figure, grid = new_figure(1, len(sampled), width=PAGE, height=2.6, squeeze=False)
        panels = grid[0]
        for axes, (model, chains) in zip(panels, sampled.items(), strict=True):
            tables.append(_panel(axes, model, chains, preset))
        for start, (marker, colour) in STARTS.items():
            draw_networks(panels[0], [], [], marker=marker, color=colour, markersize=3.5, label=f"HMC, from {start}")
        panels[0].plot([], [], "x", color="0.3", markersize=3.5, label="not mixed")
        panels[0].legend(loc="upper left")
        panels[0].set_ylabel(LABELS["aG"])
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_posterior")


def _panel(axes: Axes, model: Model, chains: pd.DataFrame, preset: Preset) -> pd.DataFrame:
    n, found = model.score.numbers["n"], find_transitions(model, "posterior")
    (passage,) = found.passages
    sampled = chains[["P", "data_seed", "start", "number", "aG", "aG_mcse", "verdict"]]
    theory = theory_lines(found, [passage.P * factor for factor in RANGE], preset).query("quantity == 'aG'")
    for branch, part in pieces(theory):
        draw_theory(axes, part["P"], part["theory"], branch=branch, color="0.3")
    for (start, verdict), part in sampled.groupby(["start", "verdict"]):
        marker, colour = STARTS[str(start)]
        marker = "x" if verdict == NOT_MIXED else marker
        x = part["P"] * (1 + ASIDE * (1 if start == "copy" else -1))
        draw_networks(axes, x, part["aG"], error=part["aG_mcse"], marker=marker, color=colour, markersize=3.5)
    axes.set(xlabel=LABELS["P"], ylim=(0, None), xscale="log")
    axes.set_xticks([P for P in TICKS if RANGE[0] <= P / passage.P <= RANGE[1]])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    mark_passages(axes, found)
    axes.set_title(f"SSA posterior, $n$ = {n:g}: {passage.kind}", loc="left")
    return pd.concat([theory.assign(kind="theory"), sampled.assign(kind="HMC")], ignore_index=True).assign(n=n)
