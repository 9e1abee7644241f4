"""The posterior of SSA on each side of its endpoint, V = 8, L = 64: one smooth passage (n = 1.5), and a jump (n = 4).

Lines: the row-level mean field, all branches. Points: Hamiltonian Monte Carlo from both ends, one data set; chains that
stay apart are two wells and shown as such, and nothing is averaged over chains that disagree.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures._samplings import Sampling, theory_rows, well_rows
from phasekit.model import Model
from phasekit.plotting import (
    COLUMN,
    LABELS,
    draw_networks,
    draw_theory,
    mark_transition,
    new_figure,
    save,
    shade_window,
    style,
)
from phasekit.samplers import HMC
from phasekit.scores import SSA
from phasekit.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS = {n: Model(V=8, L=64, score=SSA(n=n, b=1)) for n in (1.5, 4.0)}
#: Multiples of the threshold at which chains run.
SAMPLED = {"quick": (0.85, 1.0, 1.3), "full": (0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.6)}
#: Draws of HMC, chains from each end.
EFFORT = {"quick": (120, 3), "full": (600, 8)}
POINTS = {"quick": 12, "full": 40}
RANGE = (0.6, 1.6)
MARKERS = {"uniform": "v", "copy": "^", "copy+uniform": "o"}
NAMES = {"uniform": "HMC, from uniform", "copy": "HMC, from copy", "copy+uniform": "HMC, all chains agree"}


def main(out: Path, preset: str) -> list[Path]:
    """Draw a panel for each n."""
    tables = []
    with style():
        figure, panels = new_figure(2, width=COLUMN, height=5.0)
        for axes, (n, model) in zip(panels, MODELS.items(), strict=True):
            tables.append(_panel(axes, n, model, preset))
        for starts, name in NAMES.items():
            draw_networks(panels[1], [], [], marker=MARKERS[starts], color="C0", markersize=3.5, label=name)
        panels[1].legend(loc="lower right", fontsize="small")
        panels[1].set_xlabel(LABELS["P"])
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_posterior")


def _panel(axes: Axes, n: float, model: Model, preset: str) -> pd.DataFrame:
    found = find_transitions(model, "posterior")
    at = threshold(found)
    draws, members = EFFORT[preset]
    P = tuple(sorted({round(at * factor) for factor in SAMPLED[preset]}))
    sampled = well_rows(Sampling(model, P, HMC(leaps=8), draws, 2, 300, members=members).samples())
    sampled = sampled[sampled["quantity"] == "aG"].dropna(subset="mean")
    theory = _theory(model, found, at, preset)
    if found.order == "first":
        shade_window(axes, found.values["spinodals"])
    mark_transition(axes, at, "P_star" if found.order == "first" else "P_x")
    for branch, part in theory.groupby("line"):
        part = part.sort_values("P")
        draw_theory(axes, part["P"], part["theory"], branch="global" if branch == "only" else "metastable", color="0.3")
    for starts, part in sampled.groupby("starts"):
        marker = MARKERS[str(starts)]
        draw_networks(axes, part["P"], part["mean"], error=part["mcse"], marker=marker, color="C0", markersize=3.5)
    axes.set(ylabel=LABELS["aG"], ylim=(0, None), xscale="log")
    axes.set_xticks([round(at * factor) for factor in (0.7, 1.0, 1.4)])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_title(f"SSA, $n$ = {n:g}: {'a jump' if found.order == 'first' else 'smooth'}", loc="left")
    return pd.concat([theory.assign(kind="theory"), sampled.assign(kind="HMC")], ignore_index=True).assign(n=n)


def threshold(found: Transitions) -> float:
    """Return P*, or the steepest point."""
    return float(found.values["P_star"] if found.order == "first" else found.values["P_x"])


def _theory(model: Model, found: Transitions, at: float, preset: str) -> pd.DataFrame:
    """Return the branches: "only" one minimum, or "low" and "high" between the spinodals."""
    P = at * np.geomspace(*RANGE, POINTS[preset])
    if found.order == "first":
        low, high = found.values["spinodals"]
        P = np.unique(np.concatenate([P, [low * (1 + 1e-6), at, high * (1 - 1e-6)]]))
    rows = theory_rows(model, tuple(P.tolist()))
    rows = rows[rows["quantity"] == "aG"]
    if found.order != "first":
        return rows.assign(line="only")
    middle = float(np.mean(found.values["jump"]["aG"]))
    return rows.assign(line=np.where(rows["theory"] > middle, "high", "low"))
