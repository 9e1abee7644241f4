"""Laws of P* for every score: how fast the data needed grow with L in each regime of t = P*σ_w²/(κV).

Left: P* over its leading law. Right: local exponent. Points: P* of the two-level action; lines: the self-consistent
closed form; dashed: the law. Exponents and ratios are also written as a table (score_laws.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures._tables import page
from figures.scores._score_laws import CASES, STRENGTH, Case, V, closed_along, follow
from phasekit.drawing.plotting import LABELS, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.files import atomic
from phasekit.theory.closed_forms import REGIMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: log₂ of the first and the last L, and the step between points.
DECADES = (8, 24)
STEP = {"quick": 2, "full": 1}
#: Values of L of a line.
LINE = 65
#: Values of log₂ L in the table.
SHOWN = (8, 16, 24)

_COLOURS = {name: f"C{k}" for k, name in enumerate(dict.fromkeys(case.name for case in CASES))}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the picture, and write the table."""
    first, last = DECADES
    L = np.exp2(np.arange(first, last + 1, STEP.get(preset.name) or STEP["quick"], dtype=np.float64))
    found = [(case, follow(case, L)) for case in CASES]
    with style():
        figure, panels = new_figure(len(STRENGTH), 2, height=5.6, sharex=True)
        for (left, right), regime in zip(panels, STRENGTH, strict=True):
            for case, rows in found:
                if case.regime == regime:
                    _draw(left, right, case, rows)
            left.axhline(1, color="0.6", linewidth=0.6, zorder=0)
            left.set(xscale="log", ylabel=r"$P^*$ / law")
            left.set_title(_words(regime), loc="left", fontsize=7)
            right.set(xscale="log", ylabel=r"$d\,\ln P^* / d\,\ln L$")
        panels[0, 0].text(
            *(0.98, 0.54, "SSA n = 2: as 1.5-entmax"),
            **{"transform": panels[0, 0].transAxes, "ha": "right", "va": "top", "fontsize": 5.5},
        )
        for axes in panels[-1]:
            axes.set_xlabel(LABELS["L"])
        for name, colour in _COLOURS.items():
            panels[0, 0].plot([], [], "o-", color=colour, label=name, markersize=2.5)
        figure.legend(loc="outside lower center", ncols=3)
        files = save(figure, pd.concat([rows for _, rows in found], ignore_index=True), out / "score_laws")
    text, md = page([("Laws of P*", table(found))], NOTES), out / "score_laws.md"
    with atomic(md) as path:
        path.write_text(text, encoding="utf-8")
    print(text)
    return [*files, md]


def table(found: list[tuple[Case, pd.DataFrame]]) -> pd.DataFrame:
    """Return exponents, ratios and errors as text, one line per score and regime."""
    lines = []
    for case, rows in found:
        shown = [rows.iloc[(np.log2(rows["L"]) - k).abs().argmin()] for k in SHOWN]
        error = (rows["numeric"] / rows["closed"] - 1).abs()
        lines.append(
            {
                "regime": REGIMES[case.law] if case.law in REGIMES else REGIMES[case.regime],
                "score": case.name,
                "exponent of L": ", ".join(f"{row['exponent_L']:.3f}" for row in shown),
                "L → ∞": case.exponents[0],
                "of V": f"{shown[-1]['exponent_V']:.3f}",
                "V → ∞": case.exponents[1],
                "P*/law": ", ".join(f"{row['numeric'] / row['law']:.3f}" for row in shown),
                "error of the closed form": ", ".join(f"{100 * error.loc[row.name]:.1g} %" for row in shown),
            }
        )
    return pd.DataFrame(lines)


NOTES = (
    f"Measured at L = {', '.join(f'2^{k}' for k in SHOWN)}, V = 10^{np.log10(V):.0f}, σ_g = κ = 1; exponents are local "
    "ones, those of V at the last L.",
    f"σ_w is such that t = {', '.join(f'L^{power:g}' for power in STRENGTH.values())} in the three regimes.",
    "P* of the two-level action (positional inputs); for sparsemax P_x, the steepest point of its smooth passage.",
)


def _draw(left: Axes, right: Axes, case: Case, rows: pd.DataFrame) -> None:
    colour, x = _COLOURS[case.name], rows["L"].to_numpy()
    line = closed_along(case, np.geomspace(x[0], x[-1], LINE))
    for axes, name in ((left, "ratio"), (right, "exponent_L")):
        draw_theory(axes, line["L"], line[name], color=colour, linewidth=0.9)
    left.plot(x, rows["numeric"] / rows["law"], "o", color=colour, markersize=2.5)
    right.plot(x, rows["exponent_L"], "o", color=colour, markersize=2.5)
    draw_theory(right, x, rows["law_exponent_L"], color=colour, linestyle="--", linewidth=0.7)


def _words(regime: str) -> str:
    relation = REGIMES[regime].replace("≫", r"\gg ").replace("≪", r"\ll ")
    return f"${relation}$ ($t = L^{{{STRENGTH[regime]:g}}}$)"
