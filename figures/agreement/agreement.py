"""Claim C4, theory beside Adam and SGLD over P, L and V: copying and loss of linear and softmax attention.

Left: the map estimator's lowest minimum, and networks trained with Adam and filtered to their lowest minimum. Right:
the posterior, and SGLD extrapolated to zero step. P is in multiples of each estimator's own threshold P0: P1 for linear
attention, P* for softmax attention, or the steepest point P× where it passes smoothly. Below each order parameter: how
far the loss is from theory, with standard errors over data sets; points of one P are drawn beside each other. All
quantities are in the tables (agreement.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import colormaps

from figures._tables import write_page
from figures.agreement._agreement import all_comparisons, theory
from figures.agreement._agreement_tables import METHODS, notes, sections
from figures.posterior._posteriors import theory_lines
from phasekit.drawing.plotting import LABELS, PAGE, draw_networks, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Estimator, Model
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The order parameter that is drawn for each score, and the ticks.
ORDER = {"linear": "cG", "softmax": "aG"}
TICKS = {"linear": (0.5, 1, 2, 4), "softmax": (0.5, 1, 2)}
COLUMNS: tuple[Estimator, ...] = ("map", "posterior")
#: P over the threshold where lines begin and end.
RANGE = {"linear": (0.4, 7.0), "softmax": (0.4, 2.5)}
#: Between these multiples of P1 fluctuations of linear attention are too large for their Gaussian approximation.
CRITICAL = (0.7, 1.49)
MARKS = {"map": "o", "posterior": "s"}
THRESHOLDS = {"linear": "$P_1$", "softmax": r"$P^*$ or $P_\times$"}
#: Points of one P are drawn at factors so far apart.
ASIDE = 0.03


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the panels and write the tables."""
    points = all_comparisons(preset)
    lines = pd.concat(list(lines_of(points, preset)), ignore_index=True)
    sizes = [(int(V), int(L)) for V, L in points[["V", "L"]].drop_duplicates().sort_values(["V", "L"]).to_numpy()]
    with style():
        figure, panels = new_figure(4, 2, width=PAGE, height=8.0, sharey="row", height_ratios=[1.3, 1.0, 1.3, 1.0])
        for k, (score, order) in enumerate(ORDER.items()):
            for estimator, upper, lower in zip(COLUMNS, *panels[2 * k : 2 * k + 2], strict=True):
                line, here = (t[(t["score"] == score) & (t["estimator"] == estimator)] for t in (lines, points))
                ordered = [t[t["quantity"] == order] for t in (line, here)]
                _draw(upper, ordered[0], ordered[1], sizes, MARKS[estimator])
                _draw_deviations(lower, here[here["quantity"] == "loss"], sizes, MARKS[estimator])
                upper.set_title(f"{score}: {METHODS[estimator]} and the {estimator}", loc="left")
                lower.set_xlabel(f"$P$ / {THRESHOLDS[score]} of the {estimator}")
            panels[2 * k, 0].set_ylabel(LABELS[order])
            panels[2 * k + 1, 0].set_ylabel("loss off theory (%)")
            for axes in panels[2 * k : 2 * k + 2].flat:
                axes.set(xscale="log", xlim=RANGE[score])
                axes.set_xticks(TICKS[score], [str(tick) for tick in TICKS[score]])
                axes.minorticks_off()
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
        files = save(figure, pd.concat([points.assign(kind="runs"), lines.assign(kind="theory")]), out / "agreement")
    return [*files, write_page(out / "agreement.md", sections(points), notes(points))]


def lines_of(points: pd.DataFrame, preset: Preset) -> Iterator[pd.DataFrame]:
    """Yield the theory's lowest branch of every model and estimator that has points, at more P."""
    for score, estimator, V, L, at in points.groupby(["score", "estimator", "V", "L", "threshold"], sort=False).groups:
        model = Model(V=int(V), L=int(L), score=str(score))
        ends = [at * end for end in RANGE[str(score)]]
        if model.score.normalised:
            rows = theory_lines(find_transitions(model, estimator), ends, preset).query("branch == 'global'")
        else:
            P = np.union1d(np.geomspace(ends[0], ends[1], preset.points), [at, 1.001 * CRITICAL[1] * at])
            rows = theory(model, tuple(P.tolist()), estimator).assign(piece=1)
        rows = rows.assign(ratio=rows["P"] / at)
        if (score, estimator) == ("linear", "posterior"):
            critical = rows["ratio"].between(*CRITICAL) & rows["quantity"].isin(["c1", "cG"])
            rows["theory"] = rows["theory"].mask(critical)
        yield rows.assign(score=score, estimator=estimator, V=V, L=L)


def _draw(axes: Axes, lines: pd.DataFrame, points: pd.DataFrame, sizes: list[tuple[int, int]], marker: str) -> None:
    """Draw an order parameter: a colour for each size."""
    colours = _colours(sizes)
    for V, L in sizes:
        line, here = (t[(t["V"] == V) & (t["L"] == L)] for t in (lines, points))
        for _, piece in line.groupby("piece"):
            draw_theory(axes, piece["ratio"], piece["theory"], color=colours[V, L], linewidth=1.0)
        draw_networks(
            axes, here["ratio"], here["mean"], error=here["error"], color=colours[V, L], marker=marker, markersize=3.2,
            label=f"$V$ = {V}, $L$ = {L}",
        )  # fmt: skip


def _draw_deviations(axes: Axes, points: pd.DataFrame, sizes: list[tuple[int, int]], marker: str) -> None:
    """Draw how far a quantity is from theory, in per cent."""
    axes.axhline(0, color="0.3", linewidth=0.8, zorder=0)
    for k, (V, L) in enumerate(sizes):
        here = points[(points["V"] == V) & (points["L"] == L)]
        x = here["ratio"] * (1 + ASIDE * (k - (len(sizes) - 1) / 2))
        error = 100 * here["error"] / here["theory"]
        draw_networks(
            axes, x, 100 * here["difference"], error=error, color=_colours(sizes)[V, L], marker=marker, markersize=3.0
        )


def _colours(sizes: list[tuple[int, int]]) -> dict[tuple[int, int], Any]:
    """Return a hue for each V that gets darker with L: there are more sizes than colours that are told apart."""
    hues = dict(zip(sorted({V for V, _ in sizes}), ("Blues", "Oranges", "Greens"), strict=False))
    lengths = {V: [L for other, L in sizes if other == V] for V in hues}
    return {
        (V, L): colormaps[hues[V]](0.95 if len(lengths[V]) == 1 else 0.45 + 0.5 * k / (len(lengths[V]) - 1))
        for V in hues
        for k, L in enumerate(lengths[V])
    }
