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
from numpy.typing import NDArray

from figures._sweeps import kept, networks_of_one
from phasekit.drawing.plotting import LABELS, SYMBOLS, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

#: Sweeps, and what is shown of each: a multiple of a transition, the fate of the network, and its title.
SHOWN: dict[str, tuple[tuple[float, str, str, str], ...]] = {
    "linear_transition_tokens": (
        (0.7, "P1", "kept", "no pattern"),
        (2.8, "P1", "kept", "pooling"),
        (2.6, "P2", "kept", "copying"),
    ),
    "softmax_transition": (
        (0.9, "P_star", "kept", "uniform"),
        (1.05, "P_star", "kept", "copying"),
        (1.05, "P_star", "higher energy", "metastable"),
    ),
}
TICKS = (0, 0.005, 0.02, 0.05, 0.1, 0.15)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a row for each sweep."""
    tables = []
    with style():
        figure, panels = new_figure(2, 3, height=4.6)
        for axes_row, (name, shown) in zip(panels, SHOWN.items(), strict=True):
            model, networks = networks_of_one(preset, name)
            matrices, found = kept(preset, name, "A"), find_transitions(model)
            chosen = [
                one_of(networks, factor * found.passage(threshold).P, fate) for factor, threshold, fate, _ in shown
            ]
            weights = [matrices[network["task"]][network["member"]] for network in chosen]
            largest = max(float(A.max()) for A in weights)
            for axes, A, network, (*_, title) in zip(axes_row, weights, chosen, shown, strict=True):
                parameters = network[[name for name in ("c1", "cG", "a1", "aG") if name in network]].astype(float)
                image = _draw(axes, A, parameters, PowerNorm(0.5, 0.0, largest), f"{title}\n$P$ = {network['P']}")
                tables.append(rows_of(A, parameters).assign(score=model.score.name, **network[["P", "fate"]]))
            axes_row[0].set_ylabel("query position")
            axes_row[1].set_xlabel("key position")
            for axes in axes_row[1:]:
                axes.set_yticklabels([])
            bar = figure.colorbar(image, ax=axes_row, location="bottom", aspect=40, pad=0.02)
            where = ", ".join(f"{SYMBOLS[passage.name]} = {passage.P:.0f}" for passage in found.passages)
            bar.set_label(f"weight, {model.score.name} attention ({where})")
            bar.set_ticks([tick for tick in TICKS if tick <= largest])
            bar.ax.xaxis.set_major_formatter("{x:g}")
        return save(figure, pd.concat(tables, ignore_index=True), out / "attention_matrices")


def one_of(networks: pd.DataFrame, P: float, fate: str) -> pd.Series:
    """Return the row of the first network of a fate at the trained P nearest to ``P``.

    Raises
    ------
    LookupError
        If no network met that fate.
    """
    found = networks[networks["fate"] == fate]
    if found.empty:
        raise LookupError(f"no network is {fate}")
    return found.loc[np.log(found["P"] / P).abs().idxmin()]


def rows_of(A: NDArray[np.float64], parameters: pd.Series) -> pd.DataFrame:
    """Return a matrix as rows: query, key, weight, and the network's order parameters."""
    query, key = np.indices(A.shape)
    rows = pd.DataFrame({"query": query.ravel(), "key": key.ravel(), "weight": A.ravel()})
    return rows.assign(**parameters)


def _draw(axes: Axes, A: NDArray[np.float64], parameters: pd.Series, scale: PowerNorm, title: str) -> AxesImage:
    image = axes.imshow(
        np.maximum(A, 0.0), norm=scale, interpolation="nearest", extent=(0.5, len(A) + 0.5, len(A) + 0.5, 0.5)
    )
    words = [f"{LABELS[str(name)]} = {value:.3f}" for name, value in parameters.items()]
    axes.set_title("\n".join([title, *words]), fontsize=7, loc="left")
    axes.set(xticks=[1, len(A)], yticks=[1, len(A)])
    return image
