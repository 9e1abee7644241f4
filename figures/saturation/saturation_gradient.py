"""How much gradient still reaches the logits when one key wins by a gap Δ: the winner's own, and those of the others.

With SSA the winner's gradient falls as Δ^(−n−1) and the others' as Δ^(−n); with softmax all fall as e^(−Δ).
Lines end where gradients are exactly 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures.saturation._saturation import LOOKS, SCORES, raised, slope_guide, visible, winner_gradients
from phasekit.drawing.plotting import COLUMN, new_figure, save, style
from phasekit.drawing.presets import Preset

N = 1.5
OTHERS = (1.0, 0.0, -1.0)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the picture."""
    points = 4 * preset.points
    gap = np.geomspace(1e-1, 1e4, points)
    logits = raised(OTHERS, gap)
    tables = []
    with style():
        figure, (upper, lower) = new_figure(2, 1, width=COLUMN, height=4.8, sharex=True)
        for name, score in SCORES.items():
            gradients = np.abs(winner_gradients(score, logits))
            own, others = gradients[:, 0], gradients[:, 1:].sum(axis=-1)
            upper.plot(gap, visible(own), label=name, **LOOKS[name])
            lower.plot(gap, visible(others), **LOOKS[name])
            tables.append(pd.DataFrame({"gap": gap, "score": name, "winner": own, "others": others}))
        slope_guide(upper, -N - 1, (1e2, 1e3), 2e-6, r"$\Delta^{-n-1}$", "left")
        slope_guide(lower, -N, (1e2, 1e3), 2e-4, r"$\Delta^{-n}$", "left")
        for axes in (upper, lower):
            axes.set(xscale="log", yscale="log", ylim=(1e-10, 30))
        upper.set_ylabel(r"winner: $|\partial A_{i^*}/\partial z_{i^*}|$")
        lower.set(xlabel=r"gap $\Delta$", ylabel=r"others: $\sum_j |\partial A_{i^*}/\partial z_j|$")
        figure.legend(*upper.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return save(figure, pd.concat(tables), out / "saturation_gradient")
