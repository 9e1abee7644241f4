"""Scaling laws of P1, P2 and P*, with local exponents; and P* against L ln² L, its corrected forms and a power law.

Two pictures. The first: P₁ against V (token+position inputs, L = 10⁷), P₂ against L (V = 8) and against V (L = 10⁷),
P* against L (V = 8). The second: P* from L = 16 to 10⁹ relative to each law.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from figures.laws._laws import COPYING_L, COPYING_V, JUMP, ONSET, ONSET_SHORT, Law, length_within, quoted
from phasekit.drawing.plotting import LABELS, SYMBOLS, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.theory.scaling import compare_laws, exponent, local_exponent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How laws are drawn in both pictures: colour, dashes, words.
LOOKS: dict[str, tuple[str, Any, str]] = {
    "numeric": ("C0", "-", "numeric"),
    "exact": ("C2", "--", "closed form"),
    "self_consistent": ("C2", "--", "self-consistent"),
    "any_regime": ("C6", (0, (1, 1.5)), "any regime"),
    "large_L": ("C1", "-.", r"leading form"),
    "leading": ("C1", "-.", "leading form"),
    "L_ln2_L": ("C1", "-.", r"$L\,\ln^2 L$"),
    "power law": ("C3", ":", "power law"),
}
#: What the first picture shows of each threshold; the second one holds all laws of P* against each other.
SHOWN = ("numeric", "exact", "self_consistent", "large_L", "leading", "L_ln2_L")


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both pictures."""
    laws = [(law, law.compute(preset.points)) for law in (ONSET, COPYING_L, COPYING_V, JUMP)]
    return [*thresholds(laws, out / "scaling_laws"), *jump_laws(laws[-1][1], out / "scaling_jump")]


def thresholds(laws: list[tuple[Law, xr.Dataset]], stem: Path) -> list[Path]:
    """Draw each threshold beside its local exponent."""
    short = ONSET_SHORT.compute(laws[0][1].sizes["V"])
    tables = [rows_of(ONSET_SHORT, short), *(rows_of(law, data) for law, data in laws)]
    with style():
        figure, panels = new_figure(len(laws), 2, height=6.4)
        for (left, right), (law, data) in zip(panels, laws, strict=True):
            _draw_threshold(left, law, data)
            _draw_exponent(right, law, data)
        left, right = panels[0]
        for axes, name in ((left, "P1"), (right, "local_exponent")):
            draw_theory(axes, short["V"], short[name], color="0.5", linewidth=0.9)
        left.text(0.97, 0.5, _fixed(ONSET_SHORT), transform=left.transAxes, ha="right", color="0.4", fontsize=7)
        right.text(0.62, 0.3, _fixed(ONSET_SHORT), transform=right.transAxes, ha="right", color="0.4", fontsize=7)
        for name, words in (("numeric", "numeric"), ("exact", "closed form"), ("leading", "leading form")):
            panels[0, 0].plot([], [], color=LOOKS[name][0], linestyle=LOOKS[name][1], label=words)
        figure.legend(loc="outside lower center", ncols=3, handlelength=2.4)
        return save(figure, pd.concat(tables, ignore_index=True), stem)


def rows_of(law: Law, data: xr.Dataset) -> pd.DataFrame:
    """Return a law as rows, one per value of the axis, threshold in column ``numeric``."""
    rows = data.to_dataframe().reset_index().rename(columns={law.quantity: "numeric", law.axis: "value"})
    rows.insert(0, "threshold", law.quantity)
    rows.insert(1, "axis", law.axis)
    return rows


def _draw_threshold(axes: Axes, law: Law, data: xr.Dataset) -> None:
    x = data[law.axis].to_numpy()
    for name, values in _variants(law, data).items():
        colour, dashes, _ = LOOKS[name]
        draw_theory(axes, x, values, color=colour, linestyle=dashes)
    axes.set(xscale="log", yscale="log", xlabel=LABELS[law.axis], ylabel=SYMBOLS[law.quantity])
    inputs = "tokens" if law.model.inputs == "token+position" else "positional"
    axes.set_title(f"{_fixed(law)}, {inputs}", loc="left", fontsize=7)


def _draw_exponent(axes: Axes, law: Law, data: xr.Dataset) -> None:
    x = data[law.axis].to_numpy()
    for name, values in _variants(law, data).items():
        colour, dashes, _ = LOOKS[name]
        draw_theory(axes, x, local_exponent(x, values), color=colour, linestyle=dashes)
    axes.set_title(f"last decade:\n{quoted(exponent(data))}", loc="right", fontsize=7)
    axes.set(xscale="log", xlabel=LABELS[law.axis], ylabel="local exponent")
    if law.claimed is not None:
        axes.axhline(law.claimed, color="0.6", linewidth=0.6, zorder=0)


def _variants(law: Law, data: xr.Dataset) -> dict[str, NDArray[np.float64]]:
    """Return the numeric threshold and its closed forms by name, in the order of drawing."""
    closed = {str(n).removeprefix("closed_"): data[n].to_numpy() for n in data.data_vars if str(n).startswith("closed")}
    variants = {"numeric": data[law.quantity].to_numpy(), **closed}
    return {name: values for name, values in variants.items() if name in SHOWN}


def _fixed(law: Law) -> str:
    """Return what the law keeps fixed: "L = 10⁷"."""
    other = "L" if law.axis == "V" else "V"
    number = getattr(law.model, other)
    return f"{LABELS[other]} = {number if number < 1000 else f'$10^{{{np.log10(number):.0f}}}$'}"


def jump_laws(data: xr.Dataset, stem: Path) -> list[Path]:
    """Draw P* over L ln²L, its local exponent, and what is left after the best prefactor of each law."""
    L, P = data["L"].to_numpy(), data["P_star"].to_numpy()
    fits = {fit.law: fit for fit in compare_laws(data)}
    forms: dict[str, NDArray[np.float64]] = {
        name: data[f"closed_{name}"].to_numpy() for name in fits if name != "power law"
    }
    forms["power law"] = L ** fits["power law"].exponent
    table = {"L": L, "P_star": P, "local_exponent": data["local_exponent"].to_numpy()}
    with style():
        figure, (ratio, slope, rest) = new_figure(3, height=5.0, sharex=True)
        asymptote = forms["L_ln2_L"]
        draw_theory(ratio, L, P / asymptote, color="C0", label="numeric")
        draw_theory(slope, L, data["local_exponent"], color="C0")
        for name, form in forms.items():
            colour, dashes, label = LOOKS[name]
            look = {"color": colour, "linestyle": dashes}
            scaled = form * (fits[name].prefactor if name == "power law" else 1)
            label += f" ({fits[name].exponent:.3f})" if name == "power law" else ""
            draw_theory(ratio, L, scaled / asymptote, label=label, **look)
            draw_theory(slope, L, local_exponent(L, form), **look)
            residual = np.log(P / (fits[name].prefactor * form))
            draw_theory(rest, L, residual, label=f"rms {fits[name].rms:.3f}", **look)
            table |= {f"law_{name}": form, f"residual_{name}": residual}
        ratio.set(xscale="log", ylabel=r"$P^* \,/\, (L \ln^2\! L \cdot V/4(V{-}1))$")
        ratio.legend(loc="upper right")
        reached = f"$L\\,\\ln^2 L$ to 10 % only from $L \\approx 10^{{{length_within(0.1, JUMP.model.V):.0f}}}$"
        ratio.set_ylim(bottom=0.4)
        ratio.text(0.03, 0.02, reached, transform=ratio.transAxes, fontsize=7, color=LOOKS["L_ln2_L"][0])
        slope.set(ylabel=r"$d\,\ln P^* / d\,\ln L$", ylim=(1.0, 1.85))
        rest.set(xlabel=LABELS["L"], yticks=[-0.4, 0, 0.4, 0.8], ylabel=r"$\ln P^*$ − law")
        rest.legend(loc="upper right", ncols=1)
        ratio.set_title("softmax attention, $V$ = 8", loc="left")
        return save(figure, table, stem)
