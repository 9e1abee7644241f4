"""One deviant value in an otherwise normal prompt: errors at it and behind it, against its size.

Means over all places that the deviant value may have, both signs, and prompts; bands: range over seeds. Left: share of
wrong answers; right: mean square error. (Intervals are in the numbers behind the picture.)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.in_context._arms import COLOURS, EVERY, LINEAR, Arm, arms, caption, tests
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.measure.arms import mean_over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = {"error_at_deviant": ("-", "at the deviant value"), "error_behind_deviant": ("--", "behind it")}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels."""
    tables = []
    with style():
        figure, panels = new_figure(1, 2, width=PAGE, height=2.8)
        for axes, name, word in ((panels[0], EVERY, "every"), (panels[1], LINEAR, "linear functions")):
            for arm in arms(preset, name):
                tables.append(_lines(axes, arm).assign(task=word))
            axes.set(xscale="log", xlabel="size of the deviant value")
            axes.set_title(f"{word}: {caption(arms(preset, name)[0])}", loc="left", fontsize="small")
        panels[0].set(ylabel="wrong answers", ylim=(-0.02, 1.02))
        panels[1].set(ylabel="mean square error", yscale="log")
        for style_of, word in PARTS.values():
            panels[0].plot([], [], style_of, color="0.3", label=word)
        panels[0].legend()
        return save(figure, pd.concat(tables, ignore_index=True), out / "icl_deviants")


def _lines(axes: Axes, arm: Arm) -> pd.DataFrame:
    rows = arm.rows()
    found = []
    sizes = sorted({abs(value) for value in rows["deviant"].dropna()})
    for part, (line, _) in PARTS.items():
        column = arm.column(part)
        means, ends = [], []
        for size in sizes:
            numbers = [k for value in (size, -size) for k in tests(arm, deviant=value)]
            each = column[:, numbers]
            each = each[:, np.isfinite(each).all(0)]  # there is nothing behind the last place
            means.append(mean_over_seeds(each))
            ends.append((each.mean(1).min(), each.mean(1).max()))
        low, high = np.array([mean.interval for mean in means]).T
        table = pd.DataFrame({"size": sizes, "error": [mean.value for mean in means], "low": low, "high": high})
        colour = COLOURS[arm.subject.score.name]
        label = arm.label if part == "error_at_deviant" else None
        axes.plot(sizes, table["error"], line, color=colour, marker="o", markersize=3, label=label)
        axes.fill_between(sizes, *np.transpose(ends), color=colour, alpha=0.2, linewidth=0)
        found.append(table.assign(part=part, arm=arm.label))
    return pd.concat(found)
