"""Attention rows of one prompt before and after one of its values is made deviant: softmax beside SSA.

Networks of the first seed of the sweep over scores, trained again here (seconds). The row is that of the last answer,
one line a head; the grey line marks the deviant value and the label behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MultipleLocator

from figures.in_context._arms import SCORES, arms
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.tasks.in_context import NO_SHIFT, Shift
from phasekit.transformers import train_in_context
from phasekit.transformers.probes import attention_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("softmax", "ssa")
DEVIANT, PLACE = 1000.0, 4
_LOOKS: dict[str, dict[str, Any]] = {
    "before": {"linewidth": 0.7, "linestyle": ":"},
    "after": {"linewidth": 1.1, "linestyle": "-"},
}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a column for each score, a row for each layer."""
    chosen = [arm for arm in arms(preset, SCORES) if arm.label in SHOWN]
    depth = chosen[0].subject.architecture.layers
    tables = []
    with style():
        figure, panels = new_figure(
            depth, len(chosen), width=PAGE, height=1.3 * depth + 0.9, sharex=True, sharey=True, squeeze=False
        )
        for column, arm in enumerate(chosen):
            seed = arm.seeds[0]
            model, _ = train_in_context(arm.subject, arm.procedure, seed=seed, curriculum=arm.procedure.curriculum)
            for when, shift in (("before", NO_SHIFT), ("after", Shift(deviant=DEVIANT, place=PLACE))):
                rows = attention_rows(model, arm.subject.task.draw("test", 0, 0, 1, shift))[:, :, 0, -1]
                for layer in range(depth):
                    tables.append(_draw(panels[layer, column], rows[layer], when, layer).assign(arm=arm.label))
            panels[0, column].set_title(arm.label, loc="left")
            panels[-1, column].set_xlabel("token (x and y in turn)")
        for layer in range(depth):
            panels[layer, 0].set_ylabel(f"layer {layer + 1}")
            for axes in panels[layer]:
                axes.axvspan(2 * PLACE - 0.5, 2 * PLACE + 1.5, color="0.92", zorder=-1)
        for when, look in _LOOKS.items():
            panels[0, 0].plot([], [], color="0.3", label=f"{when} x = {DEVIANT:g}", **look)
        panels[0, 0].legend(loc="upper center")
        return save(figure, pd.concat(tables, ignore_index=True), out / "icl_attention")


def _draw(axes: Axes, heads: np.ndarray[tuple[int, ...], np.dtype[np.float64]], when: str, layer: int) -> pd.DataFrame:
    tables = []
    for head, weights in enumerate(heads):
        tokens = np.arange(len(weights))
        axes.plot(tokens, weights, color=f"C{head}", **_LOOKS[when])
        tables.append(pd.DataFrame({"layer": layer, "head": head, "when": when, "token": tokens, "weight": weights}))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MultipleLocator(4))  # an x, and every second one
    return pd.concat(tables)
