"""P swept up and down with chains carried along: no loop for linear attention, a loop around P* for softmax.

Points: means over Langevin chains that begin at each P where they ended at the last one; error bars (mostly hidden by
the points) from the scatter of independent chains. Lines: the posterior's theory. Root mean squares for linear
attention, whose sign is a symmetry; their theory is left out where fluctuations are critical.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from figures.evidence._evidence import loops, over_chains
from figures.posterior._posteriors import theory_rows
from figures.posterior.posterior_transitions import CRITICAL
from phasekit.drawing.plotting import draw_theory, mark_transition, new_figure, save, shade_window, style
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"up": "^", "down": "v"}
NAMES = {"c1_c1": "$c_1$", "cG_cG": "$c_G$", "aG": "$a_G$"}
COLOURS = {"c1_c1": "C0", "cG_cG": "C1", "aG": "C1"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels."""
    parts, transitions = [], {}
    with style():
        figure, panels = new_figure(2, height=5.0)
        for axes, (model, loop) in zip(panels, loops(preset), strict=True):
            score = model.score.name
            transitions[score] = find_transitions(model, "posterior")
            rows = pd.concat([sampled(loop), _theory(transitions[score], loop, preset)], ignore_index=True)
            parts.append(rows[rows["quantity"].isin(NAMES)].assign(score=score))
            _draw(axes, parts[-1])
            area, error = loop.area()
            square = "$a_G$" if model.score.normalised else "$c_G^2$"
            axes.text(
                0.03, 0.72, f"loop area of {square} over ln $P$:\n{area:.2g} ± {error:.1g}",
                transform=axes.transAxes, ha="left", va="top", fontsize="small",
            )  # fmt: skip
            axes.set_title(f"{score} attention, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.set(xlabel="$P$", xscale="log")
        upper, lower = panels
        mark_transition(upper, transitions["linear"].passage("P1").P, "P1")
        mark_transition(lower, transitions["softmax"].passage("P_star").P, "P_star")
        shade_window(lower, transitions["softmax"].passage("P_star").spinodals)
        upper.set(ylabel="root mean square", ylim=(0, None))
        lower.set(ylabel="$a_G$", ylim=(-0.02, None))
        for axes, ticks in ((upper, (50, 100, 200, 400)), (lower, (400, 700, 1000, 1500, 2500))):
            axes.set_xticks(ticks, [str(P) for P in ticks])
            axes.minorticks_off()
        for name in ("c1_c1", "cG_cG"):
            upper.plot([], [], color=COLOURS[name], label=NAMES[name])
        for way, marker in MARKERS.items():
            lower.plot([], [], marker, color="C1", markerfacecolor="white", label=f"swept {way}")
        for axes in panels:
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
    """Return rows of the theory's branches: way "theory", branch 0 with the lowest action."""
    P = loop.data.P.to_numpy()
    special = [x for passage in found.passages if passage.window for x in (*passage.window, passage.P)]
    at = np.unique(np.concatenate([np.geomspace(P[0], P[-1], preset.slow_points), special]))
    rows = theory_rows(found.model, tuple(at.tolist())).rename(columns={"theory": "value"}).assign(way="theory")
    squares = rows["quantity"].isin(("c1_c1", "cG_cG"))
    rows.loc[squares, "value"] = np.sqrt(rows.loc[squares, "value"])
    if not found.model.score.normalised:
        critical = rows["P"].between(*(factor * found.passage("P1").P for factor in CRITICAL))
        rows.loc[critical, "value"] = np.nan
    return rows


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    for name, part in rows.groupby("quantity"):
        colour = COLOURS[str(name)]
        theory = part[part["way"] == "theory"].sort_values("P")
        for _, branch in theory.groupby((theory["value"] > 0.1) if name == "aG" else theory["branch"]):
            if name != "aG" and branch["branch"].iloc[0] > 0:  # metastable cG < 0, not reached by these sweeps
                continue
            best = branch[branch["branch"] == 0]
            draw_theory(axes, branch["P"], branch["value"], branch="metastable", color=colour)
            draw_theory(axes, best["P"], best["value"], color=colour)
        for way, marker in MARKERS.items():
            points = part[part["way"] == way]
            axes.errorbar(
                points["P"], points["value"], yerr=points["error"], linestyle="none", marker=marker, color=colour,
                markerfacecolor="white", markersize=4, elinewidth=0.8, zorder=3,
            )  # fmt: skip
