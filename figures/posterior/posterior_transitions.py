"""The posterior's transitions: linear attention's is continuous, softmax attention's first order. Theory and HMC.

Upper panel: root mean squares of c1 and cG (their sign is a symmetry), theory: mean squared plus covariance, which is
left out around P1, where the Gaussian covariance diverges and that of samples doesn't. Lower panel: aG of softmax
attention at L = 64, where chains from the two ends stay in two wells between the spinodals.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.posterior._samplings import Sampling, theory_rows, well_rows
from phasekit.drawing.plotting import draw_theory, mark_transition, new_figure, save, shade_window, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.samplers import HMC
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR, SOFTMAX = Model(V=8, L=16, score="linear"), Model(V=8, L=64, score="softmax")
LINEAR_P = (64, 128, 180, 220, 256, 300, 362, 512, 800)
SOFTMAX_P = (900, 1200, 1437, 1600, 1950, 2500)
#: Multiples of P1 between which fluctuations are too large for their Gaussian approximation.
CRITICAL = (0.7, 1.5)
#: Draws of HMC, chains from each end.
EFFORT = {"quick": (200, 4), "full": (1000, 8)}
MARKERS = {"uniform": "v", "copy": "^", "copy+uniform": "o"}
NAMES = {"c1_c1": "$c_1$", "cG_cG": "$c_G$", "aG": "$a_G$"}
COLOURS = {"c1_c1": "C0", "cG_cG": "C1", "aG": "C1"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels."""
    parts = []
    for model in (LINEAR, SOFTMAX):
        names = ("c1_c1", "cG_cG") if model is LINEAR else ("aG",)
        runs = {"theory": theory_lines(model, preset), "HMC": well_rows(sampling(model, preset).samples())}
        rows = pd.concat([r.assign(kind=kind, score=model.score.name) for kind, r in runs.items()], ignore_index=True)
        parts.append(rows[rows["quantity"].isin(names)])
    table = pd.concat(parts, ignore_index=True)
    with style():
        figure, (upper, lower) = new_figure(2, height=5.2)
        _draw(upper, table[table["score"] == "linear"], root=True)
        _draw(lower, table[table["score"] == "softmax"], root=False)
        mark_transition(upper, find_transitions(LINEAR, "posterior").values["P1"], "P1")
        found = find_transitions(SOFTMAX, "posterior").values
        shade_window(lower, found["spinodals"])
        mark_transition(lower, found["P_star"], "P_star")
        upper.set(ylabel="root mean square", ylim=(0, None))
        lower.set(ylabel="$a_G$", ylim=(-0.02, None))
        for axes, model in ((upper, LINEAR), (lower, SOFTMAX)):
            axes.set_title(f"{model.score.name} attention, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.set(xlabel="$P$", xscale="log")
            ticks = (64, 128, 256, 512) if axes is upper else (1000, 1500, 2000, 2500)
            axes.set_xticks(ticks, [str(P) for P in ticks])
            axes.minorticks_off()
        _legend(upper, lower)
        return save(figure, table, out / "posterior_transitions")


def sampling(model: Model, preset: Preset) -> Sampling:
    """Return the sampling of the linear or softmax model at each P shown, from both ends."""
    draws, members = EFFORT[preset.name]
    return Sampling(model, LINEAR_P if model is LINEAR else SOFTMAX_P, HMC(leaps=8), draws, 2, 300, members=members)


def theory_lines(model: Model, preset: Preset) -> pd.DataFrame:
    """Return the branches of the posterior over the range of P sampled; softmax: its spinodals and P* too."""
    P = sampling(model, preset).P
    grid = np.geomspace(min(P), max(P), 3 * preset.slow_points // 2)
    if model is SOFTMAX:
        ends = find_transitions(model, "posterior").values
        grid = np.unique([*grid, *ends["spinodals"], ends["P_star"]])
    return theory_rows(model, tuple(grid.tolist()))


def _draw(axes: Axes, rows: pd.DataFrame, root: bool) -> None:
    """Draw each quantity; ``root``: the square root of second moments."""
    for name, part in rows.groupby("quantity"):
        theory = part[part["kind"] == "theory"].assign(low=lambda t, r=root: (t["theory"] < 0.1) & (not r))
        for _, branch in theory.groupby("low"):
            line = branch.sort_values("P")
            value = np.sqrt(line["theory"]) if root else line["theory"]
            if root:
                P1 = find_transitions(LINEAR, "posterior").values["P1"]
                value = value.mask((line["P"] > CRITICAL[0] * P1) & (line["P"] < CRITICAL[1] * P1))
            best = (line["branch"] == 0).to_numpy()
            draw_theory(axes, line["P"][best], value[best], color=COLOURS[str(name)])
            if not root:  # the second minimum of linear attention is not sampled from these starts
                draw_theory(axes, line["P"], value, branch="metastable", color=COLOURS[str(name)])
        for starts, points in part[part["kind"] != "theory"].groupby("starts"):
            measured = points.dropna(subset="mean")
            if len(measured) == 0:
                continue
            value = np.sqrt(measured["mean"]) if root else measured["mean"]
            error = measured["mcse"] / (2 * value) if root else measured["mcse"]
            axes.errorbar(
                measured["P"], value, yerr=error, linestyle="none", color=COLOURS[str(name)], elinewidth=0.8, zorder=3,
                marker=MARKERS[str(starts)], markerfacecolor="white", markersize=3.5,
            )  # fmt: skip


def _legend(upper: Axes, lower: Axes) -> None:
    for name in ("c1_c1", "cG_cG"):
        upper.plot([], [], color=COLOURS[name], label=NAMES[name])
    upper.legend(loc="upper left")
    style_of = {"linestyle": "none", "color": "C1", "markerfacecolor": "white"}
    for starts, text in (("copy+uniform", "HMC, all chains agree"), ("uniform", "from uniform"), ("copy", "from copy")):
        lower.plot([], [], marker=MARKERS[starts], label=text, **style_of)
    lower.legend(loc="center right", handlelength=1)
