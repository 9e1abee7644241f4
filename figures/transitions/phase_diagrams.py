"""Phase diagrams of linear and softmax attention in (L, P) and (V, P), with transition lines and critical points.

Colour is the copying share g²/q of the global minimum; grey is where linear attention has no pattern at all.
Between the spinodals softmax attention has two minima. The first-order line ends in a critical point: in shorter
contexts (or smaller vocabularies) the copy grows smoothly. Positional inputs, unit variances, κ = 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from phasekit.drawing.pictures import CRITICAL, draw_phase_diagram
from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.diagram import phase_diagram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

V, L = 8, 16
#: What is varied beside P, from where to where, and the range of P.
RANGES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "L": ((4, 1024), (20, 1e5)),
    "V": ((2, 256), (20, 2e3)),
}
#: Where phases are named, in axes fractions.
_NAMES: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("L", "linear"): {"none": (0.72, 0.2), "pooling": (0.8, 0.68), "copying": (0.4, 0.8)},
    ("L", "softmax"): {"uniform": (0.72, 0.2), "copying": (0.35, 0.8)},
    ("V", "linear"): {"none": (0.7, 0.22), "copying": (0.4, 0.8)},
    ("V", "softmax"): {"uniform": (0.6, 0.2), "copying": (0.4, 0.8)},
}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the four diagrams."""
    tables = []
    with style():
        figure, panels = new_figure(2, 2, height=4.3, sharex="row", sharey="row")
        for row, other in zip(panels, RANGES, strict=True):
            for axes, score in zip(row, ("linear", "softmax"), strict=True):
                model = Model(V=V, L=L, score=score)
                diagram = diagram_of(model, other, 5 * preset.points // 3)
                mesh = draw_phase_diagram(axes, diagram, other, "P")
                _name_phases(axes, _NAMES[other, score])
                if (other, score) == ("V", "linear"):  # too small a phase for its name
                    pointer = {"arrowstyle": "-", "color": "black", "linewidth": 0.5}
                    axes.annotate("pooling", (0.1, 0.26), (0.3, 0.06), "axes fraction", fontsize=7, arrowprops=pointer)
                fixed = "V" if other == "L" else "L"
                axes.set_title(f"{score}, {LABELS[fixed]} = {getattr(model, fixed)}", loc="left")
                tables.append(rows_of(diagram, score, other))
            row[1].set_ylabel("")
        bar = figure.colorbar(mesh, ax=panels, location="top", aspect=40, pad=0.02)
        bar.set_label(LABELS["copying_share"])
        figure.legend(handles=_legend(), loc="outside lower center", ncols=3, columnspacing=1.2)
        return save(figure, pd.concat(tables, ignore_index=True), out / "phase_diagrams")


def diagram_of(model: Model, other: str, points: int) -> xr.Dataset:
    """Return the phase diagram over P and L, or P and V."""
    across, P = RANGES[other]
    return phase_diagram(
        model.grid(**{"P": np.geomspace(*P, points), other: np.unique(np.geomspace(*across, points).round())})
    )


def rows_of(diagram: xr.Dataset, score: str, other: str) -> pd.DataFrame:
    """Return a diagram as rows: one per grid point, one per point of each transition line, one for its end."""
    rows = [diagram[["copying_share", "phase", "minima", "loss"]].to_dataframe().reset_index().assign(kind="point")]
    for name in (str(name) for name in diagram.data_vars if str(name).startswith("line_")):
        line = diagram[name].to_dataframe().reset_index().rename(columns={name: "P"})
        rows.append(line.assign(kind=name.removeprefix("line_")).dropna(subset="P"))
    if "critical_point" in diagram.attrs:
        end = dict(zip((other, "P"), diagram.attrs["critical_point"], strict=True))
        rows.append(pd.DataFrame([{**end, "kind": "critical point"}]))
    return pd.concat(rows, ignore_index=True).assign(score=score)


def _name_phases(axes: Axes, names: dict[str, tuple[float, float]]) -> None:
    for name, at in names.items():
        colour = "white" if name in ("pooling", "uniform") else "black"
        turned = 37 if name == "pooling" else 0
        axes.text(
            *at, name, transform=axes.transAxes, ha="center", va="center", fontsize=7, color=colour, rotation=turned
        )


def _legend() -> list[Any]:
    line: dict[str, Any] = {"color": "C1"}
    return [
        Line2D([], [], linestyle="-", label=f"{SYMBOLS['P1']} (linear), {SYMBOLS['P_star']}", **line),
        Line2D([], [], linestyle="-.", label=SYMBOLS["P2"], **line),
        Line2D([], [], linestyle=":", label=SYMBOLS["P_x"], **line),
        Line2D([], [], linestyle="--", linewidth=0.6, label="spinodals", **line),
        Line2D([], [], label="critical point", **CRITICAL),
        Patch(facecolor="0.85", label="no pattern"),
    ]
