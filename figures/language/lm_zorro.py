"""Zorro: the share of pairs that each arm judges rightly, paradigm by paradigm.

Marks: means over seeds, bars: 95 % over seeds and pairs; a filled mark differs from softmax after Holm's correction.
The first row is the mean of all paradigms. One panel for each way to score a sentence; chance is at 0.5.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from figures.language._experiments import DECODER, ENCODER, REFERENCE, WORDS, colours, experiment
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.measure.arms import LEVEL
from phasekit.measure.language import compare


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw three panels beside each other."""
    found = {name: experiment(preset, name) for name in (ENCODER, DECODER)}
    tables = {name: compare(one, REFERENCE) for name, one in found.items()}
    ways = [(name, way) for name, one in found.items() for way in one.ways]
    with style():
        figure, panels = new_figure(1, len(ways), width=PAGE, height=6.4, sharey=True)
        for axes, (name, way) in zip(panels, ways, strict=True):
            table = tables[name][tables[name]["way"] == way]
            tests = list(dict.fromkeys(table["test"]))
            arms = list(found[name].arms)
            for k, label in enumerate(arms):
                part = table[table["arm"] == label].set_index("test").loc[tests]
                colour = colours(found[name])[label]
                for row, (value, low, high, p) in enumerate(part[["value", "low", "high", "corrected"]].to_numpy()):
                    y = row + 0.6 * ((k + 0.5) / len(arms) - 0.5)
                    axes.plot([low, high], [y, y], color=colour, linewidth=0.7)
                    face = colour if p < LEVEL else "white"
                    mark = axes.plot(value, y, "o", color=colour, markersize=3, markerfacecolor=face)[0]
                    if row == 0:
                        mark.set_label(label)
            axes.axvline(0.5, color="0.5", linewidth=0.7)
            axes.set_yticks(range(len(tests)), [test.replace("_", " ") for test in tests], fontsize=5)
            axes.set(xlim=(0, 1), xlabel="share of pairs")
            axes.set_title(f"{WORDS[name]}: {way.replace('_', ' ')}", loc="left", fontsize=6)
        panels[0].set_ylim(len(tests) - 0.5, -0.5)
        panels[0].set_ylabel("paradigm")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        numbers = pd.concat([table.assign(model=WORDS[name]) for name, table in tables.items()], ignore_index=True)
        return save(figure, numbers[numbers["way"] != ""], out / "lm_zorro")
