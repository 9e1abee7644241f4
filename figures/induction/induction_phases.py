"""Where the layers of an induction head form together, in two jumps, or in a jump and a crossover: over (V, L).

Right: P* and P_(2) against V at L = 16, with the closed forms of both regimes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

from phasekit.drawing.plotting import LABELS, PAGE, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.closed_forms.induction import both_layers, first_layer, second_layer
from phasekit.theory.transitions import locate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("one jump", "two jumps", "jump, then crossover")
V_RANGE, L_RANGE, L_SHOWN = (2.0, 1e9), (3.0, 300.0), 16.0


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the diagram and a cut through it."""
    diagram, cut = over_sizes(preset.points), along_V(2 * preset.points)
    with style():
        figure, (left, right) = new_figure(1, 2, width=PAGE, height=3.0)
        _draw_diagram(left, diagram)
        _draw_cut(right, cut)
        tables = [diagram.assign(kind="diagram"), cut.assign(kind="cut")]
        return save(figure, pd.concat(tables, ignore_index=True), out / "induction_phases")


def over_sizes(points: int) -> pd.DataFrame:
    """Return the kind of passage (a number of KINDS; NaN for V < L) and thresholds over a grid of V and L."""
    V, L = np.meshgrid(np.geomspace(*V_RANGE, points), np.geomspace(*L_RANGE, points))
    exists = V >= L
    p = _parameters(V[exists], L[exists])
    found = locate(action_for(Model(V=8, L=8, task="induction")), p)
    second = np.isfinite(found["P_layer2"])
    kind = np.where(np.isfinite(found["layer2_action"]), 1, np.where(second, 2, 0))
    rows = pd.DataFrame({"V": V.ravel(), "L": L.ravel()})
    for name, values in (("passages", kind), ("P_star", found["P_star"]), ("P_layer2", found["P_layer2"])):
        rows.loc[exists.ravel(), name] = values
    return rows


def along_V(points: int) -> pd.DataFrame:
    """Return both thresholds and their closed forms against V at one L."""
    V = np.geomspace(L_SHOWN, V_RANGE[1], points)
    p = _parameters(V, np.full(points, L_SHOWN))
    found = locate(action_for(Model(V=8, L=8, task="induction")), p)
    forms = {"both": both_layers(p), "first": first_layer(p), "second": second_layer(p)}
    return pd.DataFrame({"V": V, "L": L_SHOWN, "P_star": found["P_star"], "P_layer2": found["P_layer2"], **forms})


def _parameters(V: np.ndarray, L: np.ndarray) -> Parameters:
    one = np.ones(V.shape)
    return Parameters(one, V, L, one, one, one)


def _draw_diagram(axes: Axes, rows: pd.DataFrame) -> None:
    V, L = (np.sort(rows[name].unique()) for name in ("V", "L"))
    kind = rows["passages"].to_numpy().reshape(L.size, V.size)
    colours = ListedColormap(["#dbe7f3", "#f3c9a5", "#cfe3cc"])
    axes.pcolormesh(V, L, kind, cmap=colours, vmin=-0.5, vmax=2.5, shading="nearest", rasterized=True)
    axes.plot([L[0], L[-1]], [L[0], L[-1]], color="0.3")
    axes.text(2.5, 90, "$V < L$:\nno task", fontsize="small")
    for number, word in enumerate(KINDS):
        at = rows[rows["passages"] == number]
        if len(at):
            place = np.exp(np.log(at[["V", "L"]]).median())
            axes.text(place["V"], place["L"], word, ha="center", va="center", fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel=LABELS["V"], ylabel=LABELS["L"], title="how layers form")


def _draw_cut(axes: Axes, rows: pd.DataFrame) -> None:
    axes.plot(rows["V"], rows["P_star"], color="C0", label=SYMBOLS["P_star"])
    axes.plot(rows["V"], rows["P_layer2"], color="C1", label=SYMBOLS["P_layer2"])
    joint = np.isnan(rows["P_layer2"])
    axes.plot(rows["V"][joint], rows["both"][joint], "k:", label="closed form, both layers")
    axes.plot(rows["V"][~joint], rows["first"][~joint], "k--", label="layer 1 alone")
    axes.plot(rows["V"][~joint], rows["second"][~joint], "k-.", label="layer 2 alone")
    axes.set(xscale="log", yscale="log", xlabel=LABELS["V"], ylabel=LABELS["P"], title=f"$L$ = {L_SHOWN:.0f}")
    axes.legend(fontsize="small")
