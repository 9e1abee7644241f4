"""Attention matrices that networks learned before and after each transition, with their order parameters.

Linear attention (token+position inputs, averaged over the training sequences): below P₁, pooling, copying.
Softmax attention (positional inputs): below and above P*, and the uniform minimum that training can still be caught
in above P*. Every matrix is that of one network; the panels of a row share their colours. Weights below 0 (noise of
1e-13, without a pattern) are shown as 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.colors import PowerNorm

from figures import _ensembles
from figures._trainings import trained
from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.heads import Selection
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

#: What is shown: training set size, fate of the network, and its title.
LINEAR = ((32, "kept", "no pattern"), (136, "kept", "pooling"), (1088, "kept", "copying"))
SOFTMAX = ((700, "kept", "uniform"), (880, "kept", "copying"), (880, "higher energy", "metastable"))
TICKS = (0, 0.005, 0.02, 0.05, 0.1, 0.15)


def main(out: Path, preset: str) -> list[Path]:
    """Draw both rows."""
    rows = {
        "linear": (trained(_ensembles.linear_tokens_more(preset)), LINEAR),
        "softmax": (trained(_ensembles.softmax_transition(preset)), SOFTMAX),
    }
    tables = []
    with style():
        figure, panels = new_figure(2, 3, height=4.6)
        for axes_row, (score, (networks, shown)) in zip(panels, rows.items(), strict=True):
            chosen = [one_of(networks, P, fate) for P, fate, _ in shown]
            scale = PowerNorm(0.5, 0.0, max(float(np.max(network["A"])) for network in chosen))
            for axes, network, (P, fate, name) in zip(axes_row, chosen, shown, strict=True):
                image = _draw(axes, network, scale, f"{name}\n{LABELS['P']} = {P}")
                tables.append(rows_of(network).assign(score=score, P=P, fate=fate))
            axes_row[0].set_ylabel("query position")
            axes_row[1].set_xlabel("key position")
            for axes in axes_row[1:]:
                axes.set_yticklabels([])
            bar = figure.colorbar(image, ax=axes_row, location="bottom", aspect=40, pad=0.02)
            bar.set_label(f"weight, {score} attention ({_transitions(networks)})")
            bar.set_ticks([tick for tick in TICKS if tick <= scale.vmax])
            bar.ax.xaxis.set_major_formatter("{x:g}")
        return save(figure, pd.concat(tables, ignore_index=True), out / "attention_matrices")


def one_of(networks: Selection, P: int, fate: str) -> dict[str, object]:
    """Return matrix and order parameters of the first network of that P and fate."""
    data = networks.data
    for d in np.flatnonzero(data.P.values == P):
        for m in np.flatnonzero(data.fate.values[d] == fate):
            row = data.isel(dataset=d, member=m)
            names = [name for name in ("c1", "cG", "a1", "aG") if name in data]
            return {"A": row["A"].to_numpy(), **{name: float(row[name]) for name in names}}
    raise LookupError(f"no network of P = {P} is {fate}")


def rows_of(network: dict[str, object]) -> pd.DataFrame:
    """Return a matrix as rows: query, key, weight."""
    A = np.asarray(network["A"])
    query, key = np.indices(A.shape)
    parameters = {name: value for name, value in network.items() if name != "A"}
    return pd.DataFrame({"query": query.ravel(), "key": key.ravel(), "weight": A.ravel(), **parameters})


def _draw(axes: Axes, network: dict[str, object], scale: PowerNorm, title: str) -> AxesImage:
    A = np.asarray(network["A"])
    image = axes.imshow(
        np.maximum(A, 0.0), norm=scale, interpolation="nearest", extent=(0.5, len(A) + 0.5, len(A) + 0.5, 0.5)
    )
    parameters = [f"{LABELS[name]} = {value:.3f}" for name, value in network.items() if name != "A"]
    axes.set_title("\n".join([title, *parameters]), fontsize=7, loc="left")
    axes.set(xticks=[1, len(A)], yticks=[1, len(A)])
    return image


def _transitions(networks: Selection) -> str:
    """Return where the transitions of the networks' model are: "P₁ = 48, P₂ = 414"."""
    values = find_transitions(networks.model).values
    return ", ".join(f"{SYMBOLS[name]} = {values[name]:.0f}" for name in ("P1", "P2", "P_star") if name in values)
