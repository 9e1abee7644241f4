"""Learning curves on prompts like those of training, and what SSA and the temperature have learned.

Left: error on held-out prompts against steps (lines: means over seeds; bands: their range). Right: learned n, b and T
of each head, by layer, all seeds; grey lines: where they began.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.in_context._arms import COLOURS, LINEAR, SCORES, Arm, arms
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST = 1e-3


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw four panels."""
    tables = []
    with style():
        figure, panels = new_figure(1, 4, width=PAGE, height=2.5)
        for k, (name, word) in enumerate(((SCORES, "every"), (LINEAR, "linear functions"))):
            for arm in (arm for arm in arms(preset, name) if arm.label in COLOURS):
                tables += [_curve(panels[k], arm).assign(task=word), learned(arm).assign(task=word)]
                _dots(panels[2 + k], tables[-1], COLOURS[arm.subject.score.name])
            panels[k].set(xlabel="steps", yscale="log")
            panels[k].set_title(word, loc="left")
            panels[2 + k].set_title(word, loc="left")
            panels[2 + k].set_xlabel("learned")
            panels[2 + k].set_xlim(-0.6, panels[2 + k].dataLim.x1 + 0.4)  # no places for what no arm learns
        panels[0].set_ylabel("error on held-out prompts")
        panels[0].legend(loc="upper right")
        return save(figure, pd.concat(tables, ignore_index=True), out / "icl_learning")


def _curve(axes: Axes, arm: Arm) -> pd.DataFrame:
    at, error = arm.array("watched_at")[0], arm.array("watched_answer_error")
    shown = np.maximum(error, _LEAST)
    colour = COLOURS[arm.subject.score.name]
    axes.plot(at, shown.mean(0), color=colour, label=arm.label)
    axes.fill_between(at, shown.min(0), shown.max(0), color=colour, alpha=0.15, linewidth=0)
    return pd.DataFrame({"arm": arm.label, "steps": at, "error": error.mean(0)})


def learned(arm: Arm) -> pd.DataFrame:
    """Return one row for each seed, layer, head and learned number."""
    rows = []
    for seed in arm.seeds:
        for name, values in arm.found[seed].arrays.items():
            if name.startswith("learned "):
                where, number = name.split(" ")[1:]
                layer = int(where.split(".")[1])
                rows += [
                    {
                        "arm": arm.label,
                        "seed": seed,
                        "layer": layer,
                        "head": head,
                        "number": number,
                        "value": float(value),
                    }
                    for head, value in enumerate(values)
                ]
    return pd.DataFrame(rows, columns=["arm", "seed", "layer", "head", "number", "value"])


def _dots(axes: Axes, table: pd.DataFrame, colour: str) -> None:
    places = {"n": 0, "b": 1, "T": 2}
    for number, part in table.groupby("number"):
        x = places[str(number)] + 0.25 * (part["layer"] - 1)
        axes.plot(x, part["value"], "o", color=colour, markersize=2.5, markerfacecolor="white")
    starts = {"n": 1.5, "b": 0.8, "T": 1.0}
    for number, start in ((number, starts[number]) for number in table["number"].unique()):
        axes.plot([places[number] - 0.4, places[number] + 0.4], [start, start], color="0.7", zorder=0)
    axes.set_xticks(list(places.values()), [f"${number}$" for number in places])
