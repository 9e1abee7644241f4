"""Thresholds located in the data of trained networks, against V and L, beside the theory at the same sizes.

P₁ and P₂ against V (linear attention, token+position inputs), P₂ against L (positional), P* against L (softmax): the
sweeps ``linear_scaling_V``, ``linear_scaling_L`` and ``softmax_scaling`` of ``sims/``, with stores in ``build/runs``.
Above the thresholds, below how far networks lie from the theory. No threshold is located with the theory's help.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from figures._sweeps import measured
from phasekit.drawing.plotting import LABELS, PAGE, SYMBOLS, draw_networks, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.measure import Measurement
from phasekit.theory.transitions import transition_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: What is shown: sweep and threshold.
SHOWN = (
    ("linear_scaling_V", "P1"),
    ("linear_scaling_V", "P2"),
    ("linear_scaling_L", "P2"),
    ("softmax_scaling", "P_star"),
)
DATA: dict[str, Any] = {"fmt": "x", "color": "0.4", "markersize": 4, "elinewidth": 0.8}
COLOURS = {"P1": "C0", "P2": "C1", "P_star": "C2"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Run what is missing of the sweeps, measure, and draw."""
    wanted = {name: [quantity for sweep, quantity in SHOWN if sweep == name] for name, _ in SHOWN}
    found = {name: measured(preset, name, own_data="P1" in quantities) for name, quantities in wanted.items()}
    laws = [next(law for law in found[name] if law.quantity == quantity) for name, quantity in SHOWN]
    with style():
        figure, axes = new_figure(2, len(laws), width=PAGE, height=3.2, sharex="col", height_ratios=[1.6, 1.0])
        for law, (upper, lower) in zip(laws, axes.T, strict=True):
            _draw_law(upper, law)
            _draw_deviation(lower, law)
        _legend(figure, axes[1, 0])
        return save(figure, pd.concat([_rows(law) for law in laws], ignore_index=True), out / "measured_scaling")


def _draw_law(axes: Axes, law: Measurement) -> None:
    assert law.along is not None
    sizes = np.array([size.size for size in law.sizes])
    between = np.unique(np.geomspace(sizes.min(), sizes.max(), 30).round())
    model = law.sizes[0].model
    line = transition_table(model.grid(**{law.along: between}))[law.quantity]
    draw_theory(axes, between, line, color="0.3")
    rows = _rows(law)
    colour = COLOURS[law.quantity]
    draw_networks(axes, rows["size"], rows["measured"], error=rows["total_error"], color=colour)
    axes.set(xscale="log", yscale="log", ylabel=SYMBOLS[law.quantity])
    axes.set_title(f"{model.score.name}, {model.inputs}", loc="left", fontsize=7)
    axes.set_yticks([float(f"{P:.2g}") for P in np.geomspace(rows["measured"].min(), rows["measured"].max(), 4)])
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    if law.exponent is not None and law.predicted is not None:
        lines = [f"exponent in {LABELS[law.along]}", f"{law.exponent.exponent:.4f} ± {law.exponent.error:.4f}"]
        lines.append(f"theory {law.predicted.exponent:.3f}")
        if law.own_data is not None:
            lines.append(f"on these data {law.own_data.exponent:.3f}")
        axes.text(0.98, 0.02, "\n".join(lines), transform=axes.transAxes, ha="right", va="bottom", fontsize=6)


def _draw_deviation(axes: Axes, law: Measurement) -> None:
    assert law.along is not None
    rows = _rows(law)
    colour = COLOURS[law.quantity]
    if rows["own_data"].notna().any():
        deviation, error = (100 * rows[name] / rows["theory"] for name in ("own_data", "own_data_error"))
        axes.errorbar(rows["size"], deviation - 100, yerr=error, **DATA)
    deviation, error = (100 * rows[name] / rows["theory"] for name in ("measured", "total_error"))
    draw_networks(axes, rows["size"], deviation - 100, error=error, color=colour)
    axes.axhline(0, color="0.3", linewidth=0.8, zorder=0)
    limit = 1.15 * float((np.abs(deviation - 100) + error).max())
    axes.set(xlabel=LABELS[law.along], ylim=(-limit, limit))
    axes.set_xticks(_apart(rows["size"].tolist()))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if law.quantity == "P1":
        axes.set_ylabel("off theory (%)")


def _apart(sizes: list[float]) -> list[float]:
    """Return those sizes that differ enough for their labels to stand beside each other."""
    least = (sizes[-1] / sizes[0]) ** (1 / 6)
    ticks = sizes[:1]
    for size in sizes:
        if size > least * ticks[-1]:
            ticks.append(size)
    return ticks


def _legend(figure: Figure, axes: Axes) -> None:
    axes.plot([], [], color="0.3", label="theory")
    draw_networks(axes, [], [], color="0.3", label="trained networks")
    axes.errorbar([], [], yerr=[], **DATA, label="onset of the same data, without networks")
    figure.legend(loc="outside lower center", ncols=3)


def _rows(law: Measurement) -> pd.DataFrame:
    """Return one row a size: what was measured, with errors, and what stands beside it."""
    missing = float("nan")
    rows = []
    for size in law.sizes:
        row = {
            "sweep": law.sweep,
            "quantity": law.quantity,
            "along": law.along,
            "size": size.size,
            "theory": size.theory,
        }
        for name, estimate in (("measured", size.measured), ("own_data", size.own_data)):
            row[name] = missing if estimate is None else estimate.value
            row[f"{name}_error"] = missing if estimate is None else estimate.error
        row["total_error"] = missing if size.measured is None else size.measured.total_error
        rows.append(row)
    return pd.DataFrame(rows)
