"""Linear attention beside softmax: an onset and a crossover, or one jump; theory and trained heads.

The README's picture. Networks are those of the sweeps linear_transition and softmax_transition.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from figures._sweeps import networks_of_one
from phasekit.drawing.plotting import LABELS, mark_passages, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import branches_of, draw_course, legend_of_course
from phasekit.theory.transitions import find_transitions

SWEEPS = {"linear attention": "linear_transition", "softmax attention": "softmax_transition"}
_WIDTH, _HEIGHT = 7.0, 3.6


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw order parameters and loss of both, side by side."""
    tables = []
    with style():
        figure, panels = new_figure(2, 2, width=_WIDTH, height=_HEIGHT, sharex="col", height_ratios=[1.5, 1])
        for (upper, lower), (title, sweep) in zip(panels.T, SWEEPS.items(), strict=True):
            model, rows = networks_of_one(preset, sweep)
            found = find_transitions(model)
            theory = branches_of(found, (rows["P"].min(), rows["P"].max())).assign(kind="theory")
            lower.set(xlabel=LABELS["P"], xscale="log", xlim=(0.93 * rows["P"].min(), 1.07 * rows["P"].max()))
            lower.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            lower.xaxis.set_major_formatter("{x:.0f}")
            lower.xaxis.set_minor_formatter(NullFormatter())
            names = ("c1", "cG") if model.score.name == "linear" else ("a1", "aG")
            for axes, shown, first in ((upper, names, 0), (lower, ("loss",), 2)):
                for k, name in enumerate(shown):
                    draw_course(axes, theory, rows, name, f"C{first + k}")
                axes.set_ylabel(", ".join(LABELS[name] for name in shown))
                mark_passages(axes, found, symbol=axes is upper)
            upper.set_title(f"{title}, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            tables += [theory.assign(sweep=sweep), rows.assign(kind="network", sweep=sweep)]
        networks = pd.concat(tables[1::2])
        legend_of_course(figure, panels[0, 1], tables[2], networks, columns=5)
        return save(figure, pd.concat(tables, ignore_index=True), out / "two_transitions")
