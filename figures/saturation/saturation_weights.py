"""Attention weights of one row under all scores: magnified by λ, and with a winner raised by a gap Δ.

Two pictures, a panel for each score. Weights of scores that don't normalise their rows are shown as shares |A|/Σ|A|.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures.saturation._saturation import SCORES, Floats, magnified, raised, shares
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset

ROW = (2.0, 1.0, 0.0, -1.0)
OTHERS = (1.0, 0.0, -1.0)
#: Looks of the keys: dashes leave lines visible that lie under others.
LOOKS = (("C0", "-"), ("C1", "-"), ("C2", (0, (5, 1.5))), ("C3", (0, (2, 2))))


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both pictures."""
    points = 4 * preset.points
    lam, gap = np.geomspace(1e-2, 1e3, points), np.geomspace(1e-2, 1e3, points)
    names = [f"$z = {entry:g}$" for entry in ROW]
    raised_names = [r"$z = 1 + \Delta$", *(f"$z = {entry:g}$" for entry in OTHERS)]
    return [
        *draw(lam, magnified(ROW, lam), names, r"magnification $\lambda$", "lambda", out / "saturation_weights_lambda"),
        *draw(gap, raised(OTHERS, gap), raised_names, r"gap $\Delta$", "gap", out / "saturation_weights_gap"),
    ]


def draw(x: Floats, logits: Floats, names: list[str], label: str, column: str, stem: Path) -> list[Path]:
    """Draw a panel for each score, a line for each key."""
    tables = []
    with style():
        figure, panels = new_figure(3, 3, width=PAGE, height=4.6, sharex=True, sharey=True)
        for axes, (title, score) in zip(panels.flat, SCORES.items(), strict=True):
            found = shares(score, logits)
            for key, (colour, dashes) in enumerate(LOOKS):
                axes.plot(x, found[:, key], color=colour, linestyle=dashes, label=names[key])
            axes.set(xscale="log", ylim=(-0.03, 1.03))
            axes.set_title(title if score.normalised else f"{title} (shares)")
            columns = {f"key_{key}": found[:, key] for key in range(found.shape[1])}
            tables.append(pd.DataFrame({"score": title, column: x, **columns}))
        for axes in panels[-1]:
            axes.set_xlabel(label)
        for axes in panels[:, 0]:
            axes.set_ylabel("weight")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(names))
        return save(figure, pd.concat(tables), stem)
