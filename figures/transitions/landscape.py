"""The action of linear attention over (c1, cG): no pattern, pooling, copying, and the metastable branch.

Token+position inputs, V = 8, L = 24, because there the two transitions lie far apart. Shown is S minus its minimum on
a logarithmic scale. The landscape is symmetric under (c1, cG) → (−c1, −cG), so every minimum has a twin.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.action.linear import LinearMap
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MODEL = Model(V=8, L=24, score="linear", inputs="token+position")
#: Training set sizes below P₁, between P₁ and P₂, and above P₂, in units of the transition just below.
SIZES = {"below": ("P1", 0.7), "between": ("P1", 3.5), "above": ("P2", 2.5)}
C1, CG = 0.52, 0.26  # half widths of the frame
#: S changes so much faster with cG than with c1 that there are so many times the points along cG.
FINER = 5
LEVELS = np.logspace(-1, 3, 17)
_LOOKS: dict[str, dict[str, Any]] = {
    "global": {"marker": "o", "markerfacecolor": "C1", "markeredgecolor": "white", "markersize": 5.5},
    "metastable": {"marker": "^", "markerfacecolor": "white", "markeredgecolor": "C1", "markersize": 5},
}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the three landscapes above each other."""
    found = find_transitions(MODEL)
    tables = []
    with style():
        figure, panels = new_figure(3, height=5.6, sharex=True, sharey=True)
        for axes, (name, (threshold, factor)) in zip(panels, SIZES.items(), strict=True):
            P = float(round(factor * found.passage(threshold).P))
            grid = landscape(MODEL.at(P=P), (preset.points, FINER * preset.points))
            minima = minima_of(MODEL.at(P=P))
            image = _draw(axes, grid, minima)
            relation = {
                "below": f"$P$ = {P:.0f} $<$ {SYMBOLS['P1']} = {found.passage('P1').P:.1f}",
                "between": f"{SYMBOLS['P1']} $<$ $P$ = {P:.0f} $<$ {SYMBOLS['P2']}",
                "above": f"$P$ = {P:.0f} $>$ {SYMBOLS['P2']} = {found.passage('P2').P:.0f}",
            }[name]
            axes.set_title(relation, loc="left")
            tables += [grid.assign(kind="landscape"), minima.assign(kind="minimum", S_above_minimum=np.nan)]
        panels[-1].set_xlabel(LABELS["c1"])
        for name, look in _LOOKS.items():
            panels[-1].plot([], [], linestyle="none", label=f"{name} minimum", **look)
        figure.legend(loc="outside lower center", ncols=2)
        bar = figure.colorbar(image, ax=panels, location="top", aspect=40, pad=0.01, extend="both")
        bar.set_label(r"$S - S_{\min}$")
        return save(figure, pd.concat(tables, ignore_index=True), out / "landscape")


def landscape(model: Model, points: tuple[int, int]) -> pd.DataFrame:
    """Return S minus its minimum on a grid of so many c1 and cG, one row per point (c1 runs fastest)."""
    action, p = LinearMap(), model.parameters()
    c1, cG = np.meshgrid(np.linspace(-C1, C1, points[0]), np.linspace(-CG, CG, points[1]))
    S = action.jet(action.whitened((c1, cG), p), p).value
    lowest = find_minima(model).action[0]
    return pd.DataFrame({"P": model.P, "c1": c1.ravel(), "cG": cG.ravel(), "S_above_minimum": (S - lowest).ravel()})


def minima_of(model: Model) -> pd.DataFrame:
    """Return all minima, twins included; branch "global" or "metastable"."""
    found = find_minima(model)
    c1, cG = (found.order_parameters[name][: int(found.count)] for name in ("c1", "cG"))
    branch = np.where(np.arange(c1.size) == 0, "global", "metastable")
    rows = pd.DataFrame({"P": model.P, "c1": c1, "cG": cG, "branch": branch})
    twins = rows[np.hypot(c1, cG) > 0].assign(c1=lambda r: -r["c1"], cG=lambda r: -r["cG"])
    return pd.concat([rows, twins], ignore_index=True)


def _draw(axes: Axes, grid: pd.DataFrame, minima: pd.DataFrame) -> AxesImage:
    shape = (grid["cG"].nunique(), grid["c1"].nunique())
    c1, cG, S = (grid[name].to_numpy().reshape(shape) for name in ("c1", "cG", "S_above_minimum"))
    norm = LogNorm(LEVELS[0], LEVELS[-1])
    frame = (-C1, C1, -CG, CG)
    image = axes.imshow(
        np.maximum(S, 1e-6), norm=norm, interpolation="bilinear", extent=frame, origin="lower", aspect="auto"
    )
    axes.contour(c1, cG, S, levels=LEVELS, colors="white", linewidths=0.35)
    for branch, look in _LOOKS.items():
        at = minima[minima["branch"] == branch]
        axes.plot(at["c1"], at["cG"], linestyle="none", **look)
    axes.set_ylabel(LABELS["cG"])
    return image
