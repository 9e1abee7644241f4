"""The action of an induction head over (Δ, β): the unstructured state, the induction state, and three sheets above.

V = L = 16. The unstructured state in the middle is a minimum at every P; the price of a match has a kink there. The
induction state, with both layers formed, is the lower one from P* on. The minimum with β < 0 attends anywhere but to
the right key, with a negative readout; those with Δ < 0 need stronger matches than the frame shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm

from phasekit.drawing.plotting import LABELS, PAGE, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MODEL = Model(V=16, L=16, task="induction")
SIZES = (0.8, 1.0, 8.0)  # of P, in units of P*
GAP, MATCH = (-5.0, 6.0), (-8.0, 8.0)  # the frame
LEVELS = np.logspace(0, 3.5, 15)
_LOOKS: dict[str, dict[str, Any]] = {
    "global": {"marker": "o", "markerfacecolor": "C1", "markeredgecolor": "white", "markersize": 5.5},
    "metastable": {"marker": "^", "markerfacecolor": "white", "markeredgecolor": "C1", "markersize": 5},
}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the landscape below, at and far above P*."""
    P_star = find_transitions(MODEL).passage("P_star").P
    tables = []
    with style():
        figure, panels = new_figure(1, 3, width=PAGE, height=2.9, sharex=True, sharey=True)
        for axes, times in zip(panels, SIZES, strict=True):
            model = MODEL.at(P=times * P_star)
            grid, minima = landscape(model, 2 * preset.points), minima_of(model)
            image = _draw(axes, grid, minima)
            axes.set_title(f"$P$ = {model.P:.0f} = {times:g} {SYMBOLS['P_star']}", loc="left")
            axes.set_xlabel(LABELS["gap"])
            tables += [grid.assign(kind="landscape"), minima.assign(kind="minimum")]
        panels[0].set_ylabel(LABELS["match"])
        for name, look in _LOOKS.items():
            panels[-1].plot([], [], linestyle="none", label=f"{name} minimum", **look)
        figure.legend(loc="outside lower center", ncols=2)
        bar = figure.colorbar(image, ax=panels, aspect=30, pad=0.01, extend="both")
        bar.set_label(r"$S - S_{\min}$")
        return save(figure, pd.concat(tables, ignore_index=True), out / "induction_landscape")


def landscape(model: Model, points: int) -> pd.DataFrame:
    """Return S minus its minimum on a grid of gaps Δ (fastest) and matches β, one row per point."""
    action, p = action_for(model), model.parameters()
    gap, match = np.meshgrid(np.linspace(*GAP, points), np.linspace(*MATCH, points))
    z = (gap * np.sqrt(p.L - 1) / p.sigma_g, match * np.sqrt(p.V - 1) / p.sigma_g)
    S = action.jet(z, p).value - find_minima(model).action[0]
    return pd.DataFrame({"P": model.P, "gap": gap.ravel(), "match": match.ravel(), "S_above_minimum": S.ravel()})


def minima_of(model: Model) -> pd.DataFrame:
    """Return all minima; branch "global" or "metastable"."""
    found = find_minima(model)
    count = int(found.count)
    columns = {name: found.coordinates[name][:count] for name in ("gap", "match")}
    branch = np.where(np.arange(count) == 0, "global", "metastable")
    return pd.DataFrame(
        {"P": model.P, **columns, "S_above_minimum": found.action[:count] - found.action[0], "branch": branch}
    )


def _draw(axes: Axes, grid: pd.DataFrame, minima: pd.DataFrame) -> AxesImage:
    size = grid["gap"].nunique()
    gap, match, S = (grid[name].to_numpy().reshape(size, size) for name in ("gap", "match", "S_above_minimum"))
    image = axes.imshow(
        np.maximum(S, 1e-6),
        norm=LogNorm(LEVELS[0], LEVELS[-1]),
        interpolation="bilinear",
        extent=(*GAP, *MATCH),
        origin="lower",
        aspect="auto",
    )
    axes.contour(gap, match, S, levels=LEVELS, colors="white", linewidths=0.35)
    for branch, look in _LOOKS.items():
        at = minima[minima["branch"] == branch]
        axes.plot(at["gap"], at["match"], linestyle="none", **look)
    return image
