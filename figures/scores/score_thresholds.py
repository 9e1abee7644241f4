"""Which score needs how many data: thresholds against L for all scores on one plot, V = 8, map estimator.

Solid: the jump at P*. Dotted: the steepest point of a smooth passage, where there is no jump. A dot is where one turns
into the other. Linear attention: the onset P1 (thin) and the crossover to copying P2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.scores import Score, parse_score
from phasekit.theory.compare import DEFAULT_SCORES
from phasekit.theory.transitions import transition_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VOCABULARY = 8
CONTEXTS = (8, 4096)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a line for each score."""
    L = np.unique(np.geomspace(*CONTEXTS, preset.points).round())
    with style():
        figure, axes = new_figure(1, width=5.0, height=3.6)
        tables = [_line(axes, k, parse_score(words), words, L) for k, words in enumerate(DEFAULT_SCORES)]
        axes.set(xscale="log", yscale="log", xlabel=LABELS["L"], ylabel=f"{SYMBOLS['P_star']} or {SYMBOLS['P_x']}")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_thresholds")


def _line(axes: Axes, k: int, score: Score, words: str, L: np.ndarray) -> pd.DataFrame:
    found = transition_table(Model(V=VOCABULARY, L=8, score=score).grid(L=L)).to_dataframe().reset_index()
    found = found.drop(columns=["end", "branch"], errors="ignore").drop_duplicates("L")
    colour = f"C{k}" if k < 7 else "0.5"
    if not score.normalised:
        axes.plot(L, found["P1"], linewidth=0.7, color=colour)
        axes.plot(L, found["P2"], label=words, color=colour)
        return found[["L", "P1", "P2"]].assign(score=words)
    jumps = np.flatnonzero(np.isfinite(found["P_star"]))
    smooth = found["P_x"].to_numpy().copy()
    if 0 < jumps.size < L.size:
        first = jumps[0]
        smooth[first] = found["P_star"].iloc[first]  # the lines meet
        axes.plot(L[first], smooth[first], "o", color=colour, markersize=3)
    axes.plot(L, found["P_star"], color=colour, label=words if jumps.size else None)
    axes.plot(L, smooth, ":", color=colour, label=None if jumps.size else words)
    return found[["L", "P_star", "P_x"]].assign(score=words)
