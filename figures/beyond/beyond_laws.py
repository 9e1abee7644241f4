"""What a mask, an encoding and the frequencies of tokens do to the transition (theory only).

Upper panels: the copying order parameter over (L, P) without a mask, with the line of jumps, and with a causal mask,
with the P at which the last position begins to copy. Lower left: thresholds against L for each encoding; dotted where
there is no jump. Lower right: the loss of Zipf tokens against P behind the jump; dotted: what tokens too rare to be
known leave of it, for a head that copies perfectly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from phasekit.drawing.plotting import LABELS, PAGE, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.action.token_data import loss as loss_of_tokens
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions, transition_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL = Model(V=8, L=8)
#: Points along L and P of the diagrams and the longest context, by preset.
SIZES = {"tiny": (3, 4, 16), "quick": (14, 20, 256), "full": (30, 40, 1024)}
ENCODINGS = ("one-hot", "relative", "rotary:16", "sinusoidal:1")
LONGEST = {"tiny": 16, "quick": 512, "full": 4096}
EXPONENTS = (0.5, 1.0, 1.5, 2.0)
ZIPF = Model(V=10_000, L=64)
#: Log odds at which the copy entry has all the weight.
ALL = 300.0


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the four panels."""
    with style():
        figure, panels = new_figure(2, 2, width=PAGE, height=5.4)
        tables = [
            *(_diagram(axes, mask, preset) for axes, mask in zip(panels[0], ("none", "causal"), strict=True)),
            _thresholds(panels[1, 0], preset),
            _tails(panels[1, 1], preset),
        ]
        figure.colorbar(panels[0, 1].collections[0], ax=panels[0], label=LABELS["aG"])
        return save(figure, pd.concat(tables, ignore_index=True), out / "beyond_laws")


def _diagram(axes: Axes, mask: str, preset: Preset) -> pd.DataFrame:
    """Draw aG of the global minimum over (L, P), and the threshold across it."""
    columns, rows, longest = SIZES[_known(preset, SIZES)]
    L, P = np.unique(np.rint(np.geomspace(8, longest, columns))), np.geomspace(30, 60 * longest, rows)
    model = MODEL.at(mask=mask)
    aG = find_minima(model.grid(P=P, L=L)).order_parameters["aG"][..., 0]
    axes.pcolormesh(L, P, aG, shading="nearest", cmap="viridis", vmin=0, vmax=0.6, rasterized=True)
    lines = transition_table(model.grid(L=L))
    name = "P_end" if mask == "causal" else "P_star"
    axes.plot(L, lines[name], color="white", linewidth=1.2)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["L"], ylabel=LABELS["P"])
    line_of = "causal mask, line: $P_{\\mathrm{end}}$" if mask == "causal" else "no mask, line: $P^*$"
    axes.set_title(line_of, loc="left")
    grid = {"P": np.repeat(P, L.size), "L": np.tile(L, P.size), "y": aG.ravel()}
    line = {"P": lines[name].values, "L": L, "y": np.nan, "line": name}
    return pd.concat([pd.DataFrame({"panel": mask, **each}) for each in (grid, line)])


def _thresholds(axes: Axes, preset: Preset) -> pd.DataFrame:
    """Draw P* or the steepest point against L."""
    L = 2 ** np.arange(4, int(np.log2(LONGEST[_known(preset, LONGEST)])) + 1)
    rows: list[dict[str, Any]] = []
    for k, word in enumerate(ENCODINGS):
        for length in L:
            found = find_transitions(MODEL.at(L=int(length), encoding=word))
            P = found.passages[0].P
            rows.append({"panel": "encodings", "encoding": word, "L": length, "P": P, "order": found.order})
        own = pd.DataFrame([row for row in rows if row["encoding"] == word])
        jumps = own["P"].where(own["order"] == "first")
        draw_theory(axes, own["L"], own["P"], color=f"C{k}", linestyle=":")
        draw_theory(axes, own["L"], jumps, color=f"C{k}", label=word)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["L"], ylabel="$P^*$ or $P_\\times$")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks([length for length in (16, 64, 256, 1024, 4096) if length <= L[-1]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_title(f"$V$ = {MODEL.V}", loc="left")
    axes.plot([], [], color="0.3", linestyle=":", label="no jump")
    axes.legend()
    return pd.DataFrame(rows)


def _tails(axes: Axes, preset: Preset) -> pd.DataFrame:
    """Draw the loss of the global minimum, and what tokens too rare to be known leave of it."""
    P, tables = np.geomspace(300, 1e7, 80 if preset.name != "tiny" else 12), []
    for k, zeta in enumerate(EXPONENTS):
        grid = ZIPF.at(tokens=f"zipf:{zeta}").grid(P=P)
        total = find_minima(grid).loss[:, 0]
        rare = loss_of_tokens(np.full(P.shape, ALL), grid.parameters())
        draw_theory(axes, P, total, color=f"C{k}", label=f"ζ = {zeta:g}")
        draw_theory(axes, P, rare, color=f"C{k}", linestyle=":")
        columns = {"panel": "tails", "exponent": zeta, "P": P}
        tables += [pd.DataFrame({**columns, "kind": kind, "y": y}) for kind, y in (("loss", total), ("rare", rare))]
    axes.set(xscale="log", yscale="log", xlabel=LABELS["P"], ylabel=LABELS["loss"], ylim=(1e-4, 1.3))
    axes.set_title(f"$V$ = {ZIPF.V}, $L$ = {ZIPF.L}", loc="left")
    axes.plot([], [], color="0.3", linestyle=":", label="tokens too rare")
    axes.legend()
    return pd.concat(tables)


def _known(preset: Preset, sizes: dict[str, Any]) -> str:
    return preset.name if preset.name in sizes else "quick"
