"""The posterior of SSA on both sides of its endpoint, V = 8, L = 64 (n_c = 1.44): smooth, a small jump, a large one.

Lines: the row-level mean field, all branches. Points: Hamiltonian Monte Carlo on one data set; the mean over the chains
from each end, with its standard error over chains. Ends are never averaged: where they stay apart, two wells coexist.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.posterior._samplings import Sampling, theory_rows
from phasekit.drawing.plotting import (
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
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.samplers import HMC, Samples
from phasekit.scores import SSA
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODELS = {n: Model(V=8, L=64, score=SSA(n=n, b=1)) for n in (1.2, 1.5, 4.0)}
#: Multiples of the threshold at which chains run.
SAMPLED = {"quick": (0.85, 1.0, 1.3), "full": (0.7, 0.85, 0.95, 1.0, 1.05, 1.15, 1.3, 1.6)}
#: Draws of HMC, chains from each end.
EFFORT = {"quick": (120, 3), "full": (600, 8)}
RANGE = (0.6, 1.6)
STARTS = {"uniform": ("v", "C0"), "copy": ("^", "C1")}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each n."""
    tables = []
    with style():
        figure, panels = new_figure(len(MODELS), width=COLUMN, height=2.3 * len(MODELS))
        for axes, (n, model) in zip(panels, MODELS.items(), strict=True):
            tables.append(_panel(axes, n, model, preset))
        for start, (marker, colour) in STARTS.items():
            draw_networks(panels[0], [], [], marker=marker, color=colour, markersize=3.5, label=f"HMC, from {start}")
        panels[0].legend(loc="upper left")
        panels[-1].set_xlabel(LABELS["P"])
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_posterior")


def _panel(axes: Axes, n: float, model: Model, preset: Preset) -> pd.DataFrame:
    found = find_transitions(model, "posterior")
    at = threshold(found)
    draws, members = EFFORT[preset.name]
    P = tuple(sorted({round(at * factor) for factor in SAMPLED[preset.name]}))
    sampled = _ends(Sampling(model, P, HMC(leaps=8), draws, 2, 300, members=members).samples())
    theory = _theory(model, found, at, preset)
    if found.order == "first":
        shade_window(axes, found.values["spinodals"])
    mark_transition(axes, at, "P_star" if found.order == "first" else "P_x")
    for _, part in theory.groupby("line"):
        part = part.sort_values("P")
        draw_theory(axes, part["P"], part["theory"], branch="metastable", color="0.3")
        draw_theory(axes, part["P"], part["theory"].where(part["branch"] == 0), color="0.3")
    for start, part in sampled.groupby("start"):
        marker, colour = STARTS[str(start)]
        draw_networks(axes, part["P"], part["mean"], error=part["error"], marker=marker, color=colour, markersize=3.5)
    axes.set(ylabel=LABELS["aG"], ylim=(0, None), xscale="log")
    axes.set_xticks([round(at * factor) for factor in (0.7, 1.0, 1.4)])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.minorticks_off()
    axes.set_title(f"SSA, $n$ = {n:g}: {'a jump' if found.order == 'first' else 'smooth'}", loc="left")
    return pd.concat([theory.assign(kind="theory"), sampled.assign(kind="HMC")], ignore_index=True).assign(n=n)


def _ends(samples: Samples) -> pd.DataFrame:
    """Return mean aG and its standard error over the chains from each end: P, start, mean, error."""
    means = samples.posterior.aG.mean("draw").transpose("dataset", "chain")
    starts = samples.posterior.start.to_numpy()
    rows = []
    for P, chains in zip(samples.posterior.P.values.tolist(), means.to_numpy(), strict=True):
        for start in STARTS:
            own = chains[starts == start]
            error = own.std(ddof=1) / np.sqrt(own.size)
            rows.append({"P": P, "start": start, "mean": own.mean(), "error": error, "chains": own.size})
    return pd.DataFrame(rows)


def threshold(found: Transitions) -> float:
    """Return P*, or the steepest point."""
    return float(found.values["P_star"] if found.order == "first" else found.values["P_x"])


def _theory(model: Model, found: Transitions, at: float, preset: Preset) -> pd.DataFrame:
    """Return the branches: "only" one minimum, or "low" and "high" between the spinodals."""
    P = at * np.geomspace(*RANGE, preset.slow_points)
    if found.order == "first":
        low, high = found.values["spinodals"]
        P = np.unique(np.concatenate([P, [low * (1 + 1e-6), at, high * (1 - 1e-6)]]))
    rows = theory_rows(model, tuple(P.tolist()))
    rows = rows[rows["quantity"] == "aG"]
    if found.order != "first":
        return rows.assign(line="only")
    middle = float(np.mean(found.values["jump"]["aG"]))
    return rows.assign(line=np.where(rows["theory"] > middle, "high", "low"))
