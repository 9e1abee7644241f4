"""When networks leave the unstructured state by themselves: small weights at its spinodal P_sp, long after P*.

V = 12, L = 4. Circles are shares of networks (those of sims/induction_escape.toml). Beyond P_sp those that don't reach
the induction state slide to the other side: the minimum in which layer 1 attends anywhere but to the previous token.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from figures._sweeps import networks_of_one
from phasekit.drawing.plotting import LABELS, SYMBOLS, draw_networks, mark_transition, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.theory.transitions import find_transitions

STARTS = {"random:0.1": "from a tenth of the prior", "random": "from the prior"}
ENDS = {"induction": "C0", "other side": "C3", "unstructured": "0.5"}
TICKS = (100, 150, 200, 300, 400, 600)
_NEAR = 0.02  # of alpha1: still in the unstructured state


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the shares of networks that ended in each state against P."""
    model, networks = networks_of_one(preset, "induction_escape")
    passage = find_transitions(model).passage("P_star")
    shares = ends(networks, model.L)
    with style():
        figure, panels = new_figure(2, height=4.0, sharex=True, sharey=True)
        for axes, (start, words) in zip(panels, STARTS.items(), strict=True):
            for end, colour in ENDS.items():
                rows = shares[(shares["start"] == start) & (shares["end"] == end)]
                axes.plot(rows["P"], rows["share"], color=colour, linewidth=0.8)
                draw_networks(axes, rows["P"], rows["share"], color=colour, label=end)
            mark_transition(axes, passage.P, "P_star", symbol=False)
            axes.axvline(passage.spinodals[1], color="0.3", linestyle="--", linewidth=0.8)
            axes.set(ylabel="share of networks", ylim=(-0.05, 1.05))
            axes.set_title(words, loc="left")
        panels[0].text(passage.P, 0.9, f" {SYMBOLS['P_star']}", va="top")
        panels[0].text(passage.spinodals[1], 0.6, r" $P_{\mathrm{sp}}$", va="top")
        panels[-1].set(xlabel=LABELS["P"], xscale="log", xlim=(0.92 * passage.P, None))
        panels[-1].set_xticks([tick for tick in TICKS if tick <= shares["P"].max()])
        panels[-1].xaxis.set_major_formatter("{x:.0f}")
        panels[-1].xaxis.set_minor_formatter(NullFormatter())
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return save(figure, shares, out / "induction_escape")


def ends(networks: pd.DataFrame, L: int) -> pd.DataFrame:
    """Return which share of the networks at each P, from each start, ended in each state."""
    off = networks["alpha1"] - 1 / L
    end = np.where(np.abs(off) < _NEAR, "unstructured", np.where(off > 0, "induction", "other side"))
    counts = networks.assign(end=end).groupby(["start", "P"])["end"].value_counts(normalize=True)
    full = counts.unstack(fill_value=0.0).reindex(columns=list(ENDS), fill_value=0.0)
    return full.stack().rename("share").reset_index()
