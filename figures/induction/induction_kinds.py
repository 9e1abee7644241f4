"""Questions of two kinds: when each layer forms, over (w, P), where V = L and where V > L.

w is the share of the sequences that ask what layer 1 alone can answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from phasekit.drawing.plotting import LABELS, PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model, Parameters
from phasekit.theory.action import action_for
from phasekit.theory.transitions import locate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = ((16, 16), (64, 16))
WEIGHTS = (0.02, 0.9)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw one diagram for each size."""
    tables = [thresholds(V, L, max(preset.points // 2, 8)) for V, L in SIZES]
    with style():
        figure, axes = new_figure(1, 2, width=PAGE, height=3.0)
        for ax, rows, (V, L) in zip(axes, tables, SIZES, strict=True):
            _draw(ax, rows)
            ax.set_title(f"$V$ = {V}, $L$ = {L}")
        axes[0].legend(fontsize="small", loc="upper left")
        return save(figure, pd.concat(tables, ignore_index=True), out / "induction_kinds")


def thresholds(V: int, L: int, points: int) -> pd.DataFrame:
    """Return where the layers form, together (P_star) or each, against the share of layer 1's questions."""
    weights = np.linspace(*WEIGHTS, points)
    model, one = Model(V=V, L=L, task="induction:weight=0.5"), np.ones(points)
    found = locate(action_for(model), Parameters(one, V * one, L * one, one, one, one).with_score({"weight": weights}))
    names = ("P_star", "P_layer1", "P_layer2", "layer1_jump", "layer2_jump")
    return pd.DataFrame({"V": V, "L": L, "weight": weights, **{name: found[name] for name in names}})


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    w, first, second = (rows[name].to_numpy() for name in ("weight", "P_layer1", "P_layer2"))
    joint = np.isfinite(rows["P_star"].to_numpy())
    top = 3 * second.max()
    axes.fill_between(w, 1, first, color="#eeeeee")
    axes.fill_between(w, first, second, color="#f3c9a5")
    axes.fill_between(w, np.maximum(first, second), top, color="#dbe7f3")
    axes.plot(w, second, color="C0", label="layer 2")
    axes.plot(w, first, color="C1", label="layer 1")
    axes.plot(w[joint], first[joint], color="k", lw=2, label="both in one jump")
    axes.set(yscale="log", xlabel="share $w$ of layer 1's own questions", ylabel=LABELS["P"])
    between = np.sqrt(first[-1] * second[-1])
    words = ((0.2, 0.6 * first[0], "nothing"), (0.75, between, "layer 1 alone"), (0.45, 3 * first[0], "both layers"))
    for x, height, word in words:
        axes.text(x, height, word, ha="center", va="center", fontsize="small")
    axes.set(xlim=(w[0], w[-1]), ylim=(first.min() / 2, top))
