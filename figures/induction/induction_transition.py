"""Both layers of an induction head against P: order parameters, loss, and what finite data do to the energy.

V = L = 16. Networks (those of sims/induction.toml) start in the unstructured state, at the planted end, and at random;
random ones stay in the unstructured state, which is a minimum at every P.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from figures._sweeps import draw_rows, networks_of_one
from phasekit.drawing.plotting import (
    LABELS,
    draw_filtered,
    draw_networks,
    draw_theory,
    mark_transition,
    new_figure,
    save,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import minima_rows
from phasekit.model import Model
from phasekit.theory.corrections.questions import questions_correction
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"alpha1": "C0", "alpha2": "C1", "loss": "C2"}
TICKS = (300, 500, 1000, 2000)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw order parameters, loss, and the energy relative to the theory's."""
    model, networks = networks_of_one(preset, "induction")
    transitions = find_transitions(model)
    P = np.geomspace(networks["P"].min(), networks["P"].max(), 4 * preset.points)
    lines, energies = branches(model, P), energy_shift(model, P)
    shift = network_shift(model, draw_rows(networks))
    with style():
        figure, panels = new_figure(3, height=5.6, sharex=True, height_ratios=[1.7, 1.1, 1.1])
        upper, middle, lower = panels
        for axes, names in ((upper, ("alpha1", "alpha2")), (middle, ("loss",))):
            for name in names:
                _draw(axes, name, lines, networks)
            axes.set_ylim(bottom=0)
        upper.set_ylabel("attention to the right key")
        upper.text(P[-1], 0.63, "layer 1", color=COLOURS["alpha1"], ha="right")
        upper.text(P[-1], 0.41, "layer 2", color=COLOURS["alpha2"], ha="right")
        middle.set_ylabel(LABELS["loss"])
        lower.fill_between(energies["P"], energies["least"], energies["drawn"], color="C3", alpha=0.2, linewidth=0)
        lower.plot(energies["P"], energies["drawn"], color="C3")
        draw_networks(lower, shift["P"], shift["shift"], color="C3")
        lower.axhline(0, color="0.7", linewidth=0.6)
        lower.set(ylabel="$(U - S)/S$, %", xlabel=LABELS["P"], xscale="log")
        lower.set_xticks([tick for tick in TICKS if P[0] <= tick <= P[-1]])
        lower.xaxis.set_major_formatter("{x:.0f}")
        lower.xaxis.set_minor_formatter(NullFormatter())
        for axes in panels:
            mark_transition(axes, transitions.passage("P_star").P, "P_star", symbol=axes is upper)
        _legend(upper, networks)
        upper.set_title(f"induction head, $V$ = {model.V}, $L$ = {model.L}", loc="left")
        figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        kinds = {"theory": lines, "energy": energies, "network": networks, "network shift": shift}
        table = pd.concat([rows.assign(kind=kind) for kind, rows in kinds.items()], ignore_index=True)
        return save(figure, table, out / "induction_transition")


def branches(model: Model, P: np.ndarray) -> pd.DataFrame:
    """Return the unstructured state and the induction state against P, the lower of them marked as global."""
    rows = minima_rows(model, P)
    unstructured = np.isclose(rows["alpha1"], 1 / model.L, rtol=1e-9)
    induction = (rows["alpha1"] > 1.001 / model.L) & (rows["alpha2"] > 1.001 / model.L)
    rows = rows.assign(state=np.where(unstructured, "unstructured", "induction"))[unstructured | induction]
    return rows.sort_values(["state", "P"], ignore_index=True)


def energy_shift(model: Model, P: np.ndarray) -> pd.DataFrame:
    """Return by how many percent finite data lower the global minimum's energy: the readout's part, and a bound."""
    found = find_minima(model.grid(P=P))
    readout, rest = (part[:, 0] / found.action[:, 0] * 100 for part in questions_correction(found))
    return pd.DataFrame({"P": P, "drawn": readout, "least": readout + rest})


def network_shift(model: Model, kept: pd.DataFrame) -> pd.DataFrame:
    """Return the energies of networks at their lowest minimum against the theory's of the same state, in percent."""
    rows = []
    for _, network in kept.iterrows():
        found = find_minima(model.at(P=float(network["P"])))
        same = int(np.nanargmin(np.abs(found.order_parameters["alpha1"] - network["alpha1"])))
        S = float(found.action[same])
        rows.append({"P": network["P"], "data_seed": network["data_seed"], "shift": 100 * (network["U"] / S - 1)})
    return pd.DataFrame(rows)


def _draw(axes: Axes, name: str, lines: pd.DataFrame, networks: pd.DataFrame) -> None:
    for (_, branch), line in lines.groupby(["state", "branch"]):
        draw_theory(axes, line["P"], line[name], branch=branch, color=COLOURS[name])
    filtered, kept = networks[networks["fate"] == "higher energy"], draw_rows(networks)
    draw_filtered(axes, filtered["P"], filtered[name])
    draw_networks(axes, kept["P"], kept[name], color=COLOURS[name])


def _legend(axes: Axes, networks: pd.DataFrame) -> None:
    counts = networks["fate"].value_counts()
    axes.plot([], [], color="0.3", label="theory, global minimum")
    axes.plot([], [], color="0.3", linestyle="--", label="metastable minimum")
    draw_networks(axes, [], [], color="0.3", label=f"Adam, {counts.get('kept', 0)} kept of {len(networks)}")
    for fate in counts.index.drop("kept", errors="ignore"):
        draw_filtered(axes, [], [], label=f"{counts[fate]} {fate}")
    axes.fill_between([], [], [], color="C3", alpha=0.2, linewidth=0, label="finite data, bound")
