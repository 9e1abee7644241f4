"""Errors under shift: *every* over length and spread of the numbers, linear functions over σ_x and σ_f.

Above: per cent of prompts with any wrong answer from the fourth on, mean over seeds. Below: mean square error over that
of "always 0", mean and range over seeds (intervals are in the numbers behind the picture).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.in_context._arms import COLOURS, EVERY, LINEAR, Arm, arms, caption, plain, summary
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both rows."""
    every, linear = arms(preset, EVERY), arms(preset, LINEAR)
    tables = []
    with style():
        figure, panels = new_figure(2, 3, width=PAGE, height=4.6)
        for axes in panels[0, len(every) :]:
            axes.set_axis_off()
        for axes, arm in zip(panels[0], every, strict=False):
            table = summary(arm, [k for scale in scales(arm) for k in plain(arm, x_scale=scale)])
            tables.append(table.assign(task="every"))
            image = heat_map(axes, table)
            axes.set_title(f"every: {arm.label}", loc="left")
            axes.set_xlabel("standard deviation σ")
        panels[0, 0].set_ylabel("points")
        blank = len(every) < len(panels[0])
        figure.colorbar(image, ax=panels[0, -1], label="wrong prompts", location="left" if blank else "right", pad=0.02)
        lengths = sorted(set(linear[0].rows()["points"]))
        columns = (("x_scale", linear[0].subject.task.points), ("coefficient_scale", linear[0].subject.task.points))
        for axes, (which, points) in zip(panels[1], (*columns, ("x_scale", lengths[-1])), strict=True):
            tables += [lines(axes, arm, which, points) for arm in linear]
            axes.axhline(1, color="0.5", linewidth=0.7)
            axes.set(xscale="log", yscale="log", xlabel="σ of x" if which == "x_scale" else "σ of the coefficients")
            axes.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
            axes.minorticks_off()
            axes.set_title(f"linear functions, {points} points", loc="left")
        panels[1, 0].set_ylabel("error / variance of y")
        panels[1, 0].legend(loc="lower right")
        figure.suptitle(f"every: {caption(every[0])}; linear functions: {caption(linear[0])}", fontsize="small")
        return save(figure, pd.concat(tables, ignore_index=True), out / "icl_shift")


def scales(arm: Arm) -> list[float]:
    """Return the standard deviations that an arm was tested at."""
    return sorted(set(arm.rows()["x_scale"]))


def heat_map(axes: Axes, table: pd.DataFrame) -> AxesImage:
    """Draw wrong prompts over σ and length, with the numbers in the cells."""
    shown = table.groupby(["points", "x_scale"])["error"].mean().unstack()
    whole = shown.notna().sum(axis=1)
    shown = shown[whole == whole.max()].dropna(axis=1)
    image = axes.imshow(shown, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="viridis")
    axes.set_xticks(range(shown.shape[1]), [f"{scale:g}" for scale in shown.columns])
    axes.set_yticks(range(shown.shape[0]), [f"{points:g}" for points in shown.index])
    for (row, column), value in np.ndenumerate(shown.to_numpy()):
        colour = "black" if value > 0.6 else "white"
        axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=6, color=colour)
    axes.grid(False)
    return image


def lines(axes: Axes, arm: Arm, which: str, points: int) -> pd.DataFrame:
    """Draw the error of one arm over a scale."""
    numbers = [k for scale in scales(arm) for k in plain(arm, **{which: scale, "points": points})]
    table = summary(arm, numbers).sort_values(which)
    colour = COLOURS[arm.subject.score.name]
    axes.plot(table[which], table["error"] / table["trivial"], "o-", color=colour, markersize=3, label=arm.label)
    ends = (table[end] / table["trivial"] for end in ("lowest seed", "highest seed"))
    axes.fill_between(table[which], *ends, color=colour, alpha=0.2, linewidth=0)
    return table.assign(task="linear functions", panel=which)
