"""The gap up to which SSA is sharper than softmax, over its parameters n and b; the other logits are 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.patheffects import withStroke

from phasekit.drawing.plotting import new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.saturation import crossover_gap
from phasekit.saturation.reading import PUBLISHED

LEVELS = (0.5, 1, 2, 5, 10, 20)
LOWEST = 0.1  # of the colour scale


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the picture."""
    points = 3 * preset.points
    n, b = np.meshgrid(np.linspace(1, 5, points), np.geomspace(0.1, 10, points))
    gap = crossover_gap(n, b)
    with style():
        figure, axes = new_figure(height=2.8)
        mesh = axes.pcolormesh(
            n, b, np.maximum(gap, LOWEST), norm=LogNorm(LOWEST, 30), shading="gouraud", rasterized=True
        )
        lines = axes.contour(n, b, gap, levels=LEVELS, colors="white", linewidths=0.6)
        axes.clabel(lines, levels=LEVELS[2:], fmt="%g", fontsize=6)
        edge = np.linspace(1, 5, 200)
        axes.fill_between(edge, 1 / edge, b.min(), color="white")
        axes.plot(edge, 1 / edge, color="black")
        axes.text(1.15, 0.125, "flatter than softmax\nat every gap ($nb < 1$)", fontsize=7)
        for (sharpness, scale), shift in zip(PUBLISHED, ((0, 6), (5, 2)), strict=True):
            axes.plot(sharpness, scale, "o", color="white", markeredgecolor="black")
            label = axes.annotate(
                f"{crossover_gap(sharpness, scale):.2f}", (sharpness, scale), xytext=shift, textcoords="offset points"
            )
            label.set(color="white", fontsize=7, path_effects=[withStroke(linewidth=1.5, foreground="0.15")])
        axes.set(yscale="log", xlim=(1, 5), ylim=(b.min(), b.max()), xlabel="sharpness $n$", ylabel="scale $b$")
        figure.colorbar(mesh, ax=axes, label=r"crossover gap $\Delta_\times$", extend="min").add_lines(lines)
        table = pd.DataFrame({"n": n.ravel(), "b": b.ravel(), "gap": gap.ravel()})
        return save(figure, table, out / "saturation_crossover")
