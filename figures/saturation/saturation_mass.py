"""Contextual mass 1 − p of all scores: SSA keeps it, loses it like a power, and loses it exponentially with softmax.

Left: two positive logits, where SSA tends to the limit law. Middle: one positive logit, where it falls as λ^(−2n).
Right: a growing gap Δ, where it falls as Δ^(−n). Lines end where a score gives the other keys exactly 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures.saturation._saturation import LOOKS, SCORES, magnified, off_winner, raised, slope_guide, visible
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.saturation import limit_weights

N = 1.5
SHARED, ALONE = (2.0, 1.0, -1.0), (2.0, -1.0, -3.0)
OTHERS = (1.0, 0.0, -1.0)
LOWEST = 1e-8


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the picture."""
    points = 4 * preset.points
    x = np.geomspace(1e-1, 1e4, points)
    panels = {
        "z = (2, 1, −1)": (magnified(SHARED, x), r"magnification $\lambda$"),
        "z = (2, −1, −3)": (magnified(ALONE, x), r"magnification $\lambda$"),
        "others (1, 0, −1)": (raised(OTHERS, x), r"gap $\Delta$"),
    }
    tables = []
    with style():
        figure, row = new_figure(1, 3, width=PAGE, height=2.9, sharey=True)
        for axes, (title, (logits, label)) in zip(row, panels.items(), strict=True):
            for name, score in SCORES.items():
                mass = off_winner(score, logits)
                axes.plot(x, visible(mass), label=name, **LOOKS[name])
                tables.append(pd.DataFrame({"panel": title, "x": x, "score": name, "mass": mass}))
            axes.set(xscale="log", yscale="log", xlabel=label, ylim=(LOWEST, 2), title=title)
        row[0].set_ylabel("mass off the winner")
        limit = 1 - limit_weights(SHARED, N).max()
        row[0].text(1.2e4, 0.03, f"SSA: limit law, {limit:.3f}", color="C1", ha="right", fontsize=7)
        slope_guide(row[1], -2 * N, (1e2, 1e3), 3e-5, r"$\lambda^{-2n}$", "right")
        slope_guide(row[2], -N, (1e2, 1e3), 4e-4, r"$\Delta^{-n}$", "left")
        figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
        return save(figure, pd.concat(tables), out / "saturation_mass")
