"""Causal heads: copying spreads along the context as P grows; theory, and heads trained from six fronts (sweep front).

Upper panels: the weight on the token to be copied, and the loss (in units of chance, 1 − 1/V), by position, for the
network of lowest energy and the minimum that a descent from its start finds. Lower left:
how far the front has come, in the global minimum and where descents from both ends stop. Lower right: the action above
the global minimum where heads end that begin with the front at different places.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures._sweeps import results
from phasekit.drawing.plotting import LABELS, PAGE, Branch, draw_networks, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.action import FrontMap, action_for
from phasekit.theory.action.front import values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NODES = 60


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the four panels."""
    found = _networks(preset)
    lengths = sorted(found["L"].unique())
    model = Model(V=int(found["V"].iloc[0]), L=lengths[0], mask="causal")
    long = model.at(L=lengths[-1])
    tables = []
    with style():
        figure, panels = new_figure(2, 2, width=PAGE, height=5.2)
        tables += _by_position(panels[0, 0], model, found, "copy")
        tables += _by_position(panels[0, 1], long, found, "position_loss")
        tables += _front(panels[1, 0], long, found)
        tables += _starts(panels[1, 1], long, found)
        panels[0, 0].set(ylabel=r"copy weight $\alpha_i$", xlabel="position $i$", ylim=(0, 0.65))
        panels[0, 1].axhline(1, color="0.6", linewidth=0.7, zorder=0)
        panels[0, 1].set(ylabel="loss / chance", xlabel="position $i$", xscale="log")
        panels[1, 0].set(ylabel="front $i_c$", xlabel=LABELS["P"])
        panels[1, 1].set(ylabel="above the global minimum", xlabel="positions that copied at first", yscale="symlog")
        for axes, shown in zip(panels.flat, (model, long, long, long), strict=True):
            axes.set_title(f"$L$ = {shown.L}", loc="left")
        panels[0, 0].legend(title=LABELS["P"])
        panels[0, 1].legend(title=LABELS["P"])
        panels[1, 0].legend()
        return save(figure, pd.concat(tables, ignore_index=True), out / "front")


def _networks(preset: Preset) -> pd.DataFrame:
    """Return one row a head: its model's numbers, its start, U, and copy weight and loss by position."""
    rows = []
    for task, result in results(preset, "front"):
        values, L = result.values, task.head.L
        for k, start in enumerate(values["start"]):
            first = {"uniform": 0, "copy": L}.get(start) if ":" not in start else int(start.split(":")[1])
            arrays = {name: result.arrays[name][k] for name in ("copy", "position_loss")}
            rows.append({"V": task.head.V, "L": L, "P": task.head.P, "first": first, "U": values["U"][k], **arrays})
    return pd.DataFrame(rows)


def _by_position(axes: Axes, model: Model, found: pd.DataFrame, name: str) -> list[pd.DataFrame]:
    """Draw a quantity by position at each P: the network of lowest energy, and where theory ends from its start."""
    own, tables, action = found[found["L"] == model.L], [], action_for(model)
    assert isinstance(action, FrontMap)
    place = np.arange(2, model.L + 1)
    shown = np.unique(np.geomspace(1, model.L - 1, 24).astype(int)) - 1
    for k, P in enumerate(sorted(own["P"].unique())):
        unit = 1 - 1 / model.V if name == "position_loss" else 1.0
        network = own.loc[own[own["P"] == P]["U"].idxmin()]
        rows = action.rows(model.at(P=P).parameters())
        states = values_of(rows, rows.descended(int(network["first"])))["positions"]
        theory = states["loss" if name == "position_loss" else name] / unit
        best = network[name][1:] / unit
        draw_theory(axes, place, theory, color=f"C{k}", label=f"{P:g}")
        draw_networks(axes, place[shown], best[shown], color=f"C{k}", markersize=3)
        columns = {"panel": name, "L": model.L, "P": P, "position": place}
        pairs = (("theory", theory), ("network", best))
        tables += [pd.DataFrame({**columns, "kind": kind, "y": y}) for kind, y in pairs]
    return tables


def _front(axes: Axes, model: Model, found: pd.DataFrame) -> list[pd.DataFrame]:
    """Draw i_c against P: last position with wα > 1/2."""
    own = found[found["L"] == model.L]
    P = np.geomspace(own["P"].min() / 2.5, own["P"].max() * 1.1, NODES)
    action, rows = action_for(model), []
    assert isinstance(action, FrontMap)
    for x in P:
        for branch in action.branches(model.at(P=x).parameters()):
            kind = {0.0: "from even attention", float(model.L): "from copying"}.get(branch.start, "global minimum")
            reached = branch.values["coordinates"]["front"]
            rows.append({"panel": "front", "L": model.L, "P": x, "kind": kind, "y": reached})
    table = pd.DataFrame(rows)
    for kind, colour in {"global minimum": "C1", "from even attention": "C0", "from copying": "C3"}.items():
        lines = table[table["kind"] == kind]
        dashes: Branch = "global" if colour == "C1" else "metastable"
        draw_theory(axes, lines["P"], lines["y"], branch=dashes, color=colour, label=kind)
    networks = []
    for _, row in own.iterrows():
        w = _gain(model, row)
        copies = np.flatnonzero(w * row["copy"] > 0.5)
        colour = {0: "C0", model.L: "C3"}.get(row["first"], "C1")
        reached = float(copies.max() + 1) if copies.size else 1.0
        if row["first"] in (0, model.L) or row["U"] == own[own["P"] == row["P"]]["U"].min():
            draw_networks(axes, [row["P"]], [reached], color=colour, markersize=4)
            kind = f"network from {row['first']}"
            networks.append({"panel": "front", "L": model.L, "P": row["P"], "kind": kind, "y": reached})
    return [table, pd.DataFrame(networks)]


def _gain(model: Model, row: pd.Series) -> float:
    """Return the readout's gain that goes with a head's copy weights, other weights being even."""
    alpha, keys = row["copy"][1:], np.arange(2, model.L + 1)
    q = np.mean(alpha**2 + (1 - alpha) ** 2 / (keys - 1))
    return float(alpha.mean() / (q + 1 / model.at(P=row["P"]).parameters().strength))


def _starts(axes: Axes, model: Model, found: pd.DataFrame) -> list[pd.DataFrame]:
    """Draw U above the lowest one against where the front began, networks beside descents of the theory."""
    own, action, tables = found[found["L"] == model.L], action_for(model), []
    assert isinstance(action, FrontMap)
    for k, P in enumerate(sorted(own["P"].unique())):
        rows = own[own["P"] == P].sort_values("first")
        states = action.rows(model.at(P=P).parameters())
        starts = np.unique(np.linspace(0, model.L, 65).astype(int))
        theory = np.array([states.descended(int(first)).action for first in starts]) - states.lowest().action
        # One draw of the data shifts all energies alike: heads are compared with that from even attention.
        above = rows["U"].to_numpy() - rows["U"].iloc[0] + theory[0]
        draw_theory(axes, starts, theory, color=f"C{k}", label=f"{P:g}")
        draw_networks(axes, rows["first"], above, color=f"C{k}", markersize=4)
        columns = {"panel": "starts", "L": model.L, "P": P}
        tables += [
            pd.DataFrame({**columns, "kind": kind, "position": x, "y": y})
            for kind, x, y in (("theory", starts, theory), ("network", rows["first"], above))
        ]
    return tables
