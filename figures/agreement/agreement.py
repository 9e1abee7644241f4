"""Claim C4, theory beside Adam and SGLD over P, L and V: order parameters and loss of linear and softmax attention.

Left: the map estimator's lowest minimum, and networks trained with Adam and filtered to their lowest minimum. Right:
the posterior, and SGLD extrapolated to zero step. P is in multiples of each estimator's own threshold P0: P1 for linear
attention, the P at which aG passes 0.1 for softmax attention. Errors are standard errors over data sets. The numbers
are also written as tables (agreement.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter, NullLocator

from figures._tables import page
from figures.agreement._agreement import comparisons, models, theory
from figures.agreement._agreement_tables import METHODS, notes, sections
from phasekit.drawing.plotting import LABELS, PAGE, draw_networks, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.files import atomic
from phasekit.model import Estimator, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Panels from top to bottom; columns: estimator and the size that differs, the other being that of the middle model.
PANELS = (("linear", "c1"), ("linear", "cG"), ("linear", "loss"), ("softmax", "aG"), ("softmax", "loss"))
COLUMNS: tuple[tuple[Estimator, str], ...] = (("map", "L"), ("map", "V"), ("posterior", "L"), ("posterior", "V"))
MIDDLE = {"V": 8, "L": 16}
#: P over the threshold where lines are computed, beside the measured ones (softmax's posterior: a second each).
LINES = {
    ("linear", "map"): tuple(np.geomspace(0.4, 7, 60).tolist()),
    ("linear", "posterior"): tuple(np.geomspace(0.4, 7, 40).tolist()),
    ("softmax", "map"): tuple(np.geomspace(0.4, 2.5, 60).tolist()),
    ("softmax", "posterior"): (0.4, 0.9, 1.0, 1.1, 1.5, 2.5),
}
#: Between these multiples of P1 fluctuations of linear attention are too large for their Gaussian approximation.
CRITICAL = (0.7, 1.49)
MARKS = {"map": "o", "posterior": "s"}
TICKS = {"linear": (0.5, 1, 2, 4), "softmax": (0.5, 1, 2)}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the panels and write the tables."""
    points = pd.concat([comparisons(model, preset) for model in models(preset)], ignore_index=True)
    lines = pd.concat(list(lines_of(points)), ignore_index=True)
    with style():
        figure, panels = new_figure(len(PANELS), len(COLUMNS), width=PAGE, height=8.0, sharey="row")
        for row, (score, name) in zip(panels, PANELS, strict=True):
            for axes, (estimator, varied) in zip(row, COLUMNS, strict=True):
                shown = [_select(table, score, name, estimator, varied) for table in (lines, points)]
                _draw(axes, *shown, varied, MARKS[estimator])
                axes.set(xscale="log")
                axes.set_xticks(TICKS[score], [str(tick) for tick in TICKS[score]])
                axes.xaxis.set_minor_locator(NullLocator())
                axes.xaxis.set_minor_formatter(NullFormatter())
            row[0].set(ylabel=f"{score}: {LABELS[name]}")
        for axes, (estimator, varied) in zip(panels[0], COLUMNS, strict=True):
            fixed = "L" if varied == "V" else "V"
            axes.set_title(f"{METHODS[estimator]}, ${fixed}$ = {MIDDLE[fixed]}", loc="left")
            axes.legend(loc="upper left")
        for axes, (estimator, _) in zip(panels[-1], COLUMNS, strict=True):
            axes.set(xlabel="$P/P_0$ (map)" if estimator == "map" else "$P/P_0$ (posterior)")
        files = save(figure, pd.concat([points.assign(kind="runs"), lines.assign(kind="theory")]), out / "agreement")
    text, md = page(sections(points), notes(points, preset)), out / "agreement.md"
    with atomic(md) as path:
        path.write_text(text, encoding="utf-8")
    print(text)
    return [*files, md]


def lines_of(points: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the theory's lowest branch of every model and estimator that has points, at more P."""
    for (score, estimator, V, L, at), part in points.groupby(["score", "estimator", "V", "L", "threshold"], sort=False):
        model = Model(V=int(V), L=int(L), score=str(score))
        P = tuple(at * ratio for ratio in LINES[score, estimator])
        more = theory(model, P, estimator).assign(ratio=lambda rows, at=at: rows["P"] / at)
        rows = pd.concat([more, part[["P", "ratio", "quantity", "theory"]]], ignore_index=True).sort_values("P")
        if (score, estimator) == ("linear", "posterior"):
            critical = rows["ratio"].between(*CRITICAL) & rows["quantity"].isin(["c1", "cG"])
            rows["theory"] = rows["theory"].mask(critical)
        yield rows.assign(score=score, estimator=estimator, V=V, L=L)


def _select(table: pd.DataFrame, score: str, name: str, estimator: str, varied: str) -> pd.DataFrame:
    fixed = "L" if varied == "V" else "V"
    return table[
        (table["score"] == score)
        & (table["quantity"] == name)
        & (table["estimator"] == estimator)
        & (table[fixed] == MIDDLE[fixed])
    ]


def _draw(axes: Axes, lines: pd.DataFrame, points: pd.DataFrame, varied: str, marker: str) -> None:
    for k, (size, line) in enumerate(lines.groupby(varied)):
        draw_theory(axes, line["ratio"], line["theory"], color=f"C{k}", linewidth=1.0)
        here = points[points[varied] == size].dropna(subset="mean")
        draw_networks(
            axes, here["ratio"], here["mean"], error=here["error"], color=f"C{k}", marker=marker, markersize=3.2,
            label=f"${varied}$ = {size}",
        )  # fmt: skip
