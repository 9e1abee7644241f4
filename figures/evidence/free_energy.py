"""One peak that moves, or two that trade places: densities of the order parameter, and the free energy between peaks.

Left and middle: densities of all draws of a sweep up and down in P (hysteresis.py): |c1 + cG| of linear attention,
whose sign is a symmetry, has one peak that moves away from 0; aG of softmax attention has two within the window of two
minima, one for each way. Their heights say how many chains came which way, not what they weigh. Right: what they
weigh, from umbrella sampling next to P*, with its error; theory with (solid) and without (dashed) the factors of order
one that fluctuations add to the mean field. Every curve has its minimum at 0: of the two wells theory and samples weigh
the right one differently, by about one unit of F.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from figures.evidence._evidence import loops, umbrella_windows
from phasekit.drawing.plotting import PAGE, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop, Undecided, barrier, density, free_energy, theory_free_energy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Where densities are shown: before, at and after the transitions.
SHOWN_P = {"linear": (550, 860, 1300, 2200), "softmax": (1000, 1437, 2000)}
BINS = 36
#: Both attentions are shown at this length.
CONTEXT = 64


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the panels."""
    models = {model: loop for model, loop in loops(preset) if model.L == CONTEXT}
    peaks = pd.concat([densities(loop) for loop in models.values()], ignore_index=True)
    profile, P, about = profiles(preset)
    table = pd.concat([peaks, profile], ignore_index=True)
    with style():
        figure, (linear, softmax, lowest) = new_figure(1, 3, width=PAGE, height=2.8)
        for axes, model in zip((linear, softmax), models, strict=True):
            part = peaks[peaks["score"] == model.score.name]
            for k, (size, lines) in enumerate(part.groupby("P")):
                axes.plot(lines["x"], lines["value"], color=f"C{k}", label=f"$P$ = {size}")
            axes.set(ylabel="density")
            axes.set_title(f"{model.score.name} posterior, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.legend(loc="upper right")
        linear.set(xlabel="$|c_1 + c_G|$", xlim=(0, None), ylim=(0, 1.4 * linear.get_ylim()[1]))
        softmax.set(xlabel="$a_G$", yscale="log", ylim=(0.2, 300))
        _draw_profile(lowest, profile)
        lowest.set_title(f"softmax posterior, $P$ = {P},\n{about}", loc="left", fontsize=7)
        lowest.set(xlabel="$a_G$", ylabel=r"$F = -\ln p(a_G)$", ylim=(-0.7, 18))
        lowest.legend(loc="upper left", bbox_to_anchor=(0.05, 1))
        return save(figure, table, out / "free_energy")


def densities(loop: Loop) -> pd.DataFrame:
    """Return the density of the order parameter at each of :data:`SHOWN_P`, draws of both ways together."""
    data, score = loop.data.isel(dataset=0), loop.model.score
    symmetric = not score.normalised
    values = abs(data["c1"] + data["cG"]) if symmetric else data["aG"]
    rows = []
    for P in sorted({int(values.P.sel(P=wanted, method="nearest")) for wanted in SHOWN_P[score.name]}):
        draws = values.sel(P=P)
        ways = [density(draws.sel(direction=way).to_numpy(), symmetric=symmetric) for way in ("up", "down")]
        # Each way has kernels of its own width: one width for a narrow and a wide well would fray the wide one.
        x = np.unique(np.concatenate([way.x for way in ways]))
        mean = sum(np.interp(x, way.x, way.density, left=0.0, right=0.0) for way in ways) / len(ways)
        if symmetric:  # the half that is shown of an even density
            x, mean = x[x >= 0], 2 * mean[x >= 0]
        peaks = len(density(draws.to_numpy(), symmetric=symmetric).peaks)
        shown = pd.DataFrame({"x": x, "value": mean})
        rows.append(shown.assign(score=score.name, P=P, kind="density", peaks=peaks))
    return pd.concat(rows, ignore_index=True)


def profiles(preset: Preset) -> tuple[pd.DataFrame, int, str]:
    """Return rows of F along aG, sampled and of theory; P; and the sampled barriers in words."""
    model, data = umbrella_windows(preset)
    P, found = round(model.P or 0), free_energy(data, bins=BINS)
    sampled = found.profile.F.to_dataframe().reset_index()
    sampled = sampled.rename(columns={"a": "x", "F": "value"}).assign(error=found.error, kind="umbrella")
    theory = theory_free_energy(model, preset.points)
    lines = [
        pd.DataFrame({"x": theory.a, "value": theory[name], "kind": kind})
        for name, kind in (("F", "theory"), ("leading", "mean field"))
    ]
    rows = pd.concat([sampled, *lines], ignore_index=True).assign(score="softmax", P=P)
    rows["rhat_max"], rows["overlap"] = found.rhat.max(), found.overlap
    try:
        wells = barrier(found)
    except Undecided:
        return rows, P, "too few draws for a barrier"
    if wells is None:
        return rows, P, "one well"
    numbers = {
        "from_low": wells.from_low, "from_high": wells.from_high, "difference": wells.difference
    }  # fmt: skip
    for name, (value, error) in numbers.items():
        rows[name], rows[f"{name}_error"] = value, error
    low, high = (f"{value:.1f} ± {error:.1f}" for value, error in (wells.from_low, wells.from_high))
    return rows, P, f"barriers {low} and {high}"


def _draw_profile(axes: Axes, rows: pd.DataFrame) -> None:
    theory, mean_field, sampled = (rows[rows["kind"] == kind] for kind in ("theory", "mean field", "umbrella"))
    draw_theory(axes, theory["x"], theory["value"], color="C0", label="theory")
    draw_theory(axes, mean_field["x"], mean_field["value"], branch="metastable", color="C0", label="mean field alone")
    axes.errorbar(
        sampled["x"], sampled["value"], yerr=sampled["error"], linestyle="none", marker="o", color="C1",
        markerfacecolor="white", markersize=3, elinewidth=0.8, zorder=3, label="umbrella sampling",
    )  # fmt: skip
