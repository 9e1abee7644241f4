"""P swept up and down with chains carried along: no loop for linear attention, a loop around P* for softmax.

The work that is lost on the way up and down, in units of the temperature, compares heads with different order
parameters; both attentions at L = 64, and linear attention at L = 16 too.

Points: means over Langevin chains that begin at each P where they ended at the last one; error bars (mostly hidden by
the points) from the scatter of independent chains. Lines: the posterior's theory. Root mean squares for linear
attention, whose sign is a symmetry; their theory is left out where fluctuations are critical.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from figures._tables import with_error
from figures.evidence._evidence import loops, over_chains
from figures.posterior._posteriors import COLOURS, NAMES, critical, theory_lines
from phasekit.drawing.plotting import PAGE, draw_networks, draw_theory, mark_passages, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import pieces
from phasekit.evidence import Loop
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"up": "^", "down": "v"}
TICKS = (50, 100, 200, 500, 1000, 2000)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each sweep."""
    parts, found = [], list(loops(preset))
    with style():
        figure, panels = new_figure(1, len(found), width=PAGE, height=2.9)
        for axes, (model, loop) in zip(panels, found, strict=True):
            transitions = find_transitions(model, "posterior")
            rows = pd.concat([sampled(loop), _theory(transitions, loop, preset)], ignore_index=True)
            work, error = loop.work()
            parts.append(rows.assign(score=model.score.name, L=model.L, work=work, work_error=error))
            _draw(axes, rows)
            lost = with_error(work, error).replace("-", "−")
            axes.set_title(f"{model.score.name} posterior, $L$ = {model.L}\nwork lost: {lost}", loc="left", fontsize=8)
            axes.set(xlabel="$P$", xscale="log", ylim=(0, None))
            axes.set_ylabel("$a_G$" if model.score.normalised else "root mean square")
            shown = [P for P in TICKS if loop.data.P[0] <= P <= loop.data.P[-1]]
            axes.set_xticks(shown, [str(P) for P in shown])
            axes.minorticks_off()
            mark_passages(axes, transitions)
            for name in dict.fromkeys(rows["quantity"]):
                axes.plot([], [], color=COLOURS[name], label=NAMES[name])
            if model.score.normalised:
                for way, marker in MARKERS.items():
                    axes.plot([], [], marker, color="C1", markerfacecolor="white", label=f"taken {way}")
            axes.legend(loc="upper left")
        return save(figure, pd.concat(parts, ignore_index=True), out / "hysteresis")


def sampled(loop: Loop) -> pd.DataFrame:
    """Return one row per way, P and quantity: mean and error over chains, as root mean squares where signs are free."""
    data = loop.data
    wanted = {"aG": data["aG"]} if "aG" in data else {f"{n}_{n}": data[n] ** 2 for n in ("c1", "cG")}
    rows: list[dict[str, Any]] = []
    for name, values in wanted.items():
        for way in MARKERS:
            means, errors = over_chains(values.sel(direction=way))
            for P, mean, error in zip(data.P.to_numpy(), means, errors, strict=True):
                root = np.sqrt(mean) if name != "aG" else None
                value, spread = (mean, error) if root is None else (root, error / (2 * root))
                rows.append({"P": P, "quantity": name, "way": way, "value": value, "error": spread})
    return pd.DataFrame(rows)


def _theory(found: Transitions, loop: Loop, preset: Preset) -> pd.DataFrame:
    """Return the lines of the theory, way "theory", as root mean squares where signs are free."""
    rows = theory_lines(found, loop.data.P, preset).rename(columns={"theory": "value"}).assign(way="theory")
    rows = rows[rows["quantity"].isin(NAMES)]
    if not found.model.score.normalised:
        rows["value"] = np.sqrt(rows["value"]).mask(critical(rows["P"], found))
    return rows


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    for name, part in rows.groupby("quantity"):
        colour = COLOURS[str(name)]
        for branch, line in pieces(part[part["way"] == "theory"]):
            draw_theory(axes, line["P"], line["value"], branch=branch, color=colour)
        for way, marker in MARKERS.items():
            points = part[part["way"] == way]
            draw_networks(
                axes, points["P"], points["value"], error=points["error"], marker=marker, color=colour, markersize=3.5
            )
