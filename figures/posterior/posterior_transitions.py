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
from figures.posterior._posteriors import COLOURS, NAMES, critical, theory_lines, well_rows
from phasekit.drawing.plotting import draw_networks, draw_theory, mark_passages, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import pieces
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"uniform": "v", "copy": "^", "copy+uniform": "o"}
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
            axes.set_title(f"{model.score.name} posterior, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.set(xlabel="$P$", xscale="log")
            axes.set_xticks(TICKS[model.score.name], [str(P) for P in TICKS[model.score.name]])
            axes.minorticks_off()
            tables.append(rows.assign(score=model.score.name))
            mark_passages(axes, found)
        panels[0].set(ylabel="root mean square", ylim=(0, None))
        panels[1].set(ylabel="$a_G$", ylim=(-0.02, None))
        _legend(*panels)
        return save(figure, pd.concat(tables, ignore_index=True), out / "posterior_transitions")


def _draw(axes: Axes, rows: pd.DataFrame, found: Transitions) -> None:
    """Draw theory and samples; of linear attention the square roots of second moments."""
    root = not found.model.score.normalised
    for name, part in rows.groupby("quantity"):
        colour = COLOURS[str(name)]
        for branch, line in pieces(part[part["kind"] == "theory"]):
            value = np.sqrt(line["theory"]).mask(critical(line["P"], found)) if root else line["theory"]
            draw_theory(axes, line["P"], value, branch=branch, color=colour)
        for starts, points in part[part["kind"] == "HMC"].dropna(subset="mean").groupby("starts"):
            value = np.sqrt(points["mean"]) if root else points["mean"]
            error = points["mcse"] / (2 * value) if root else points["mcse"]
            draw_networks(
                axes, points["P"], value, error=error, color=colour, marker=MARKERS[str(starts)], markersize=3.5
            )


def _legend(upper: Axes, lower: Axes) -> None:
    for name in ("c1_c1", "cG_cG"):
        upper.plot([], [], color=COLOURS[name], label=NAMES[name])
    upper.legend(loc="upper left")
    look: dict[str, Any] = {"linestyle": "none", "color": "C1", "markerfacecolor": "white"}
    for starts, text in (("copy+uniform", "HMC, all chains agree"), ("uniform", "from uniform"), ("copy", "from copy")):
        lower.plot([], [], marker=MARKERS[starts], label=text, **look)
    lower.legend(loc="center right", handlelength=1)
