"""Learning curves of language models, their paired differences from softmax, and what the context is worth.

Above: held-out loss against steps, and loss less softmax's of the same seed (lines: means over seeds; bands: 95 %,
Student's). Below: the decoder's loss by the number of tokens before one, in blocks as long as those of training and
longer; bands likewise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures.language._experiments import DECODER, ENCODER, REFERENCE, WORDS, caption, colours, experiment
from phasekit.drawing.plotting import PAGE, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.measure.language import Experiment, band

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw six panels."""
    found = {name: experiment(preset, name) for name in (ENCODER, DECODER)}
    tables = []
    with style():
        figure, panels = new_figure(2, 3, width=PAGE, height=4.4)
        for column, (name, one) in enumerate(found.items()):
            whole, less = curves(one)
            for row, table in enumerate((whole, less)):
                axes = panels[row, column]
                _lines(axes, table, colours(one), "step")
                axes.set_title(WORDS[name], loc="left")
                trained = table[table["step"] > 0] if row == 0 else table  # where it began would hide the rest
                axes.set_ylim(*_around(trained[["low", "high"]].to_numpy()))
                tables.append(table.assign(model=WORDS[name]))
            panels[1, column].axhline(0, color="0.5", linewidth=0.7)
            panels[1, column].set_xlabel("steps")
        panels[0, 0].set_ylabel("held-out loss / nats")
        panels[1, 0].set_ylabel("loss − softmax's / nats")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        for row, (text, table) in enumerate(by_position(found[DECODER])):
            axes = panels[row, 2]
            _lines(axes, table, colours(found[DECODER]), "position")
            axes.set_xscale("log")
            axes.set_title(text, loc="left")
            tables.append(table.assign(model=WORDS[DECODER], text=text))
        panels[1, 2].set_xlabel("tokens before")
        figure.suptitle("; ".join(f"{WORDS[name]}: {caption(one)}" for name, one in found.items()), fontsize="small")
        return save(figure, pd.concat(tables, ignore_index=True), out / "lm_learning")


def curves(one: Experiment) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return held-out losses at the steps at which they were watched, and those less softmax's of the same seed."""
    losses = {label: _of_common_seeds(one, label) for label in one.arms}
    steps = one.arms[REFERENCE].curve("loss")[0]
    whole = [_table(label, "loss", steps, values) for label, values in losses.items()]
    less = [
        _table(label, "difference", steps, values - losses[REFERENCE])
        for label, values in losses.items()
        if label != REFERENCE
    ]
    return pd.concat(whole, ignore_index=True), pd.concat(less, ignore_index=True)


def by_position(one: Experiment) -> list[tuple[str, pd.DataFrame]]:
    """Return, for the shortest and the longest blocks of held-out text, losses by how many tokens come before one."""
    names = [name for name in one.arms[REFERENCE].examined[one.seeds[0]].texts if name.startswith("held out ")]
    lengths = sorted(int(name.rpartition(" ")[2]) for name in names)
    found = []
    for length in dict.fromkeys((lengths[0], lengths[-1])):
        tables = []
        for label, arm in one.arms.items():
            texts = [arm.examined[seed].texts[f"held out {length}"] for seed in one.seeds]
            rows = [[(first, np.log(value)) for first, _, value, _, _ in text.by_position()] for text in texts]
            values = np.array([[loss for _, loss in row] for row in rows])
            tables.append(_table(label, "by position", np.array([first for first, _ in rows[0]]), values))
        table = pd.concat(tables, ignore_index=True).rename(columns={"step": "position"})
        found.append((f"blocks of {length}", table.assign(length=length)))
    return found


def _of_common_seeds(one: Experiment, label: str) -> Array:
    arm = one.arms[label]
    keep = [sorted(arm.found).index(seed) for seed in one.seeds]
    return arm.curve("loss")[1][keep]


def _table(label: str, what: str, steps: NDArray[np.int64], values: Array) -> pd.DataFrame:
    mean, low, high = band(values)
    columns = {"step": steps, "loss": mean, "low": low, "high": high}
    return pd.DataFrame({"arm": label, "what": what, **columns})


def _lines(axes: Axes, table: pd.DataFrame, colour: dict[str, str], along: str) -> None:
    for label, part in table.groupby("arm", sort=False):
        axes.plot(part[along], part["loss"], color=colour[str(label)], label=label)
        axes.fill_between(part[along], part["low"], part["high"], color=colour[str(label)], alpha=0.15, linewidth=0)


def _around(values: Array) -> tuple[float, float]:
    """Return limits of an axis that hold all values, with a margin."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return low - 0.05 * (high - low), high + 0.05 * (high - low)
