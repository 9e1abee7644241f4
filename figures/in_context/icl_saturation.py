"""How far attention is saturated inside trained networks when inputs are magnified, beside the theorem's bounds.

Contextual mass, the weight of all keys but the winner: the mean over rows, prompts, heads and seeds, for each layer.
Shaded: means of Theorem 2's lower and upper bounds at exactly these rows' gaps (docs/saturation.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.in_context._arms import EVERY, LINEAR, Arm, arms
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.transformers.evaluation import few
from phasekit.transformers.probes import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("softmax", "ssa")
_MEASURE = {name: k for k, name in enumerate(MEASURES)}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each task and score."""
    tables = []
    with style():
        figure, panels = new_figure(1, 4, width=PAGE, height=2.5, sharey=True)
        places = iter(panels)
        for name, word in ((EVERY, "every"), (LINEAR, "linear functions")):
            for arm in arms(preset, name):
                if arm.subject.score.name in SHOWN:
                    axes = next(places)
                    tables.append(_panel(axes, arm).assign(task=word))
                    axes.set_title(f"{word}\n{arm.label}", loc="left", fontsize="small")
                    axes.set(xscale="log", xlabel="σ of x", ylim=(0, 1.02))
                    axes.set_xticks([1, 3, 10, 29], ["1", "3", "10", "29"])
                    axes.minorticks_off()
        panels[0].set_ylabel("contextual mass")
        panels[0].legend(loc="lower left")
        return save(figure, pd.concat(tables, ignore_index=True), out / "icl_saturation")


def _panel(axes: Axes, arm: Arm) -> pd.DataFrame:
    """Draw one arm, and return means over seeds and heads of all measures, by layer and shift."""
    table = measures(arm)
    magnified = table[table["deviant"].isna() & (table["coefficient_scale"] == 1)]
    for layer, part in magnified.groupby("layer"):
        axes.fill_between(part["x_scale"], part["lower"], part["upper"], color=f"C{layer}", alpha=0.12, linewidth=0)
        axes.plot(part["x_scale"], part["mass"], "o-", color=f"C{layer}", markersize=3, label=f"layer {int(layer) + 1}")
    return table


def measures(arm: Arm) -> pd.DataFrame:
    """Return one row for each of the few shifts and each layer: means of all measures over seeds and heads."""
    found = arm.array("saturation")  # (seeds, shifts, layers, heads, measures)
    rows = []
    for k, shift in enumerate(few(arm.subject.task)):
        for layer in range(found.shape[2]):
            values = {name: float(np.nanmean(found[:, k, layer, :, m])) for name, m in _MEASURE.items()}
            fields = {name: getattr(shift, name) for name in ("x_scale", "coefficient_scale", "deviant")}
            rows.append({"arm": arm.label, **fields, "layer": layer, **values})
    return pd.DataFrame(rows).astype({"deviant": float})
