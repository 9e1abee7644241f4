"""The posterior's transitions: linear attention's is continuous, softmax attention's first order. Theory and HMC.

Upper panel: root mean squares of c1 and cG (their sign is a symmetry), theory: mean squared plus covariance, which is
left out around P1, where the Gaussian covariance diverges and that of samples doesn't. Lower panel: aG of softmax
attention at L = 64, where chains from the two ends stay in two wells between the spinodals.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from figures._sweeps import networks
from figures.posterior._posteriors import theory_rows, well_rows
from phasekit.drawing.plotting import draw_theory, mark_transition, new_figure, save, shade_window, style
from phasekit.drawing.presets import Preset
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Multiples of P1 between which fluctuations are too large for their Gaussian approximation.
CRITICAL = (0.7, 1.5)
MARKERS = {"uniform": "v", "copy": "^", "copy+uniform": "o"}
NAMES = {"c1_c1": "$c_1$", "cG_cG": "$c_G$", "aG": "$a_G$"}
COLOURS = {"c1_c1": "C0", "cG_cG": "C1", "aG": "C1"}
TICKS = {"linear": (64, 128, 256, 512), "softmax": (1000, 1500, 2000, 2500)}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels."""
    tables = []
    with style():
        figure, panels = new_figure(2, height=5.2)
        for axes, (model, chains) in zip(panels, networks(preset, "posterior").items(), strict=True):
            found = find_transitions(model, "posterior")
            runs = {"theory": theory_lines(found, chains["P"], preset), "HMC": well_rows(chains)}
            rows = pd.concat([part.assign(kind=kind) for kind, part in runs.items()], ignore_index=True)
            rows = rows[rows["quantity"].isin(NAMES)]
            _draw(axes, rows, found)
            axes.set_title(f"{model.score.name} attention, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.set(xlabel="$P$", xscale="log")
            axes.set_xticks(TICKS[model.score.name], [str(P) for P in TICKS[model.score.name]])
            axes.minorticks_off()
            tables.append(rows.assign(score=model.score.name))
        panels[0].set(ylabel="root mean square", ylim=(0, None))
        panels[1].set(ylabel="$a_G$", ylim=(-0.02, None))
        _legend(*panels)
        return save(figure, pd.concat(tables, ignore_index=True), out / "posterior_transitions")


def theory_lines(found: Transitions, P: pd.Series, preset: Preset) -> pd.DataFrame:
    """Return the branches of the posterior over a range of P; softmax: at its spinodals and P* too."""
    grid = np.geomspace(P.min(), P.max(), 3 * preset.slow_points // 2)
    special = [x for passage in found.passages if passage.window for x in (*passage.window, passage.P)]
    return theory_rows(found.model, tuple(np.unique([*grid, *special]).tolist()))


def critical(P: pd.Series, found: Transitions) -> pd.Series:
    """Say where the theory of linear attention is outside its range, around P1."""
    return P.between(*(factor * found.passage("P1").P for factor in CRITICAL))


def _draw(axes: Axes, rows: pd.DataFrame, found: Transitions) -> None:
    """Draw theory and samples; of linear attention the square roots of second moments."""
    root = not found.model.score.normalised
    if root:
        mark_transition(axes, found.passage("P1").P, "P1")
    else:
        (passage,) = found.passages
        mark_transition(axes, passage.P, passage.name)
        if passage.window is not None:
            shade_window(axes, passage.window)
    for name, part in rows.groupby("quantity"):
        colour = COLOURS[str(name)]
        theory = part[part["kind"] == "theory"].sort_values("P")
        for _, line in theory.groupby((theory["theory"] < 0.1) & (not root)):
            value = np.sqrt(line["theory"]).mask(critical(line["P"], found)) if root else line["theory"]
            best = line["branch"] == 0
            draw_theory(axes, line["P"][best], value[best], color=colour)
            if not root:  # the second minimum of linear attention is not sampled from these starts
                draw_theory(axes, line["P"], value, branch="metastable", color=colour)
        for starts, points in part[part["kind"] == "HMC"].dropna(subset="mean").groupby("starts"):
            value = np.sqrt(points["mean"]) if root else points["mean"]
            error = points["mcse"] / (2 * value) if root else points["mcse"]
            axes.errorbar(
                points["P"], value, yerr=error, linestyle="none", color=colour, elinewidth=0.8, zorder=3,
                marker=MARKERS[str(starts)], markerfacecolor="white", markersize=3.5,
            )  # fmt: skip


def _legend(upper: Axes, lower: Axes) -> None:
    for name in ("c1_c1", "cG_cG"):
        upper.plot([], [], color=COLOURS[name], label=NAMES[name])
    upper.legend(loc="upper left")
    look: dict[str, Any] = {"linestyle": "none", "color": "C1", "markerfacecolor": "white"}
    for starts, text in (("copy+uniform", "HMC, all chains agree"), ("uniform", "from uniform"), ("copy", "from copy")):
        lower.plot([], [], marker=MARKERS[starts], label=text, **look)
    lower.legend(loc="center right", handlelength=1)
