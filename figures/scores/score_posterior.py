"""The posterior of SSA on both sides of its endpoint, V = 8, L = 64 (n_c = 1.44): smooth, a small jump, a large one.

Lines: the row-level mean field, all branches. Points: Hamiltonian Monte Carlo on one data set; the mean over the chains
from each end, with its standard error over chains. Ends are never averaged: where they stay apart, two wells coexist.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures._sweeps import networks
from figures.posterior._posteriors import theory_rows
from phasekit.drawing.plotting import (
    LABELS,
    PAGE,
    draw_networks,
    draw_theory,
    mark_transition,
    new_figure,
    save,
    shade_window,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANGE = (0.6, 1.6)
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
        panels[0].legend(loc="upper left")
        panels[0].set_ylabel(LABELS["aG"])
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_posterior")


def _panel(axes: Axes, model: Model, chains: pd.DataFrame, preset: Preset) -> pd.DataFrame:
    n, found = model.score.numbers["n"], find_transitions(model, "posterior")
    at, first = threshold(found), found.order == "first"
    sampled, theory = ends(chains), _theory(model, found, at, preset)
    if first:
        shade_window(axes, found.passage("P_star").spinodals)
    mark_transition(axes, at, "P_star" if first else "P_x")
    for _, part in theory.groupby("line"):
        part = part.sort_values("P")
        draw_theory(axes, part["P"], part["theory"], branch="metastable", color="0.3")
        draw_theory(axes, part["P"], part["theory"].where(part["branch"] == 0), color="0.3")
    for start, part in sampled.groupby("start"):
        marker, colour = STARTS[str(start)]
        draw_networks(axes, part["P"], part["mean"], error=part["error"], marker=marker, color=colour, markersize=3.5)
    axes.set(xlabel=LABELS["P"], ylim=(0, None), xscale="log")
    axes.set_xticks([float(f"{at * factor:.1g}") for factor in (0.7, 1.0, 1.5)])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_title(f"SSA, $n$ = {n:g}: {'a jump' if first else 'smooth'}", loc="left")
    return pd.concat([theory.assign(kind="theory"), sampled.assign(kind="HMC")], ignore_index=True).assign(n=n)


def ends(chains: pd.DataFrame) -> pd.DataFrame:
    """Return mean aG and its standard error over the chains from each end: P, start, mean, error, chains, verdict."""
    groups = chains.groupby(["P", "start"], as_index=False)
    found = groups.agg(mean=("aG", "mean"), error=("aG", "std"), chains=("aG", "size"), verdict=("verdict", "first"))
    return found.assign(error=found["error"] / np.sqrt(found["chains"]))


def threshold(found: Transitions) -> float:
    """Return P*, or the steepest point."""
    return float(found.passage("P_star").P if found.order == "first" else found.passage("P_x").P)


def _theory(model: Model, found: Transitions, at: float, preset: Preset) -> pd.DataFrame:
    """Return the branches: "only" one minimum, or "low" and "high" between the spinodals."""
    P = at * np.geomspace(*RANGE, preset.slow_points)
    if found.order == "first":
        low, high = found.passage("P_star").spinodals
        P = np.unique(np.concatenate([P, [low * (1 + 1e-6), at, high * (1 - 1e-6)]]))
    rows = theory_rows(model, tuple(P.tolist()))
    rows = rows[rows["quantity"] == "aG"]
    if found.order != "first":
        return rows.assign(line="only")
    middle = float(np.mean(found.passage("P_star").jump["aG"]))
    return rows.assign(line=np.where(rows["theory"] > middle, "high", "low"))
