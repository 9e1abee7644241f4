"""How the posterior theory's error closes with size: aG of softmax attention, theory minus HMC, at matched P over L.

V = 8. P in multiples of P0, where aG of the theory passes 0.1 (P* where it jumps). The theory is that of many
positions; at finite L fluctuations of the mean field smear the passage. Upper panel: the gap of aG; lower panel: the
same gap as a relative shift of P, gap/(d aG/d ln P), because the passage itself gets steeper with L. Lines: powers of L
fitted from L = 16 on, where the gap is seen there. Where theory has a second, metastable minimum, chains start in the
global one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter, NullLocator
from scipy.optimize import curve_fit

from figures._sweeps import networks
from figures._tables import with_error, write_page
from figures._theory import passing
from figures.posterior._posteriors import over_data, theory_rows, well_rows
from phasekit.drawing.plotting import LABELS, draw_networks, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Powers are fitted from here on.
FITTED = 16
#: Half the relative distance over which d aG/d ln P is taken.
APART = 0.01
#: A power is fitted if the gap at the first length is so many errors wide.
SEEN = 2.0
#: Points at one L are drawn at factors so far apart.
ASIDE = 0.025


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels and write the table."""
    sampled = networks(preset, "size_dependence")
    rows = pd.concat([gap_rows(model, chains) for model, chains in sampled.items()], ignore_index=True)
    powers = power_rows(rows)
    with style():
        figure, panels = new_figure(2, height=4.6, sharex=True)
        for axes, name in zip(panels, ("gap", "shift"), strict=True):
            _draw(axes, name, rows, powers)
        panels[0].set(ylabel="$a_G$: theory − HMC")
        panels[1].set(ylabel="as a shift of ln $P$", xlabel=LABELS["L"], xscale="log")
        sizes = np.unique(rows["L"])
        panels[1].set_xticks(sizes, [str(L) for L in sizes])
        panels[1].xaxis.set_minor_locator(NullLocator())
        panels[0].set_title(f"softmax posterior, $V$ = {next(iter(sampled)).V}", loc="left")
        panels[0].legend(loc="upper right")
        table = pd.concat([rows.assign(kind="gap"), powers.assign(kind="power")], ignore_index=True)
        files = save(figure, table, out / "size_dependence")
    sections = [("Theory minus HMC by size", gaps_text(rows)), ("Powers of L", powers_text(powers))]
    notes = [
        "Errors are standard errors over data sets, at least what the chains' own make.",
        f"Powers are fitted to L ≥ {FITTED}; P₀ is the P at which a_G of the theory passes 0.1.",
    ]
    return [*files, write_page(out / "size_dependence.md", sections, notes)]


def gap_rows(model: Model, chains: pd.DataFrame) -> pd.DataFrame:
    """Return one row per P: L, ratio, P, branches, theory, mean, error, gap, shift, shift_error, data, left_out."""
    middle, found = passing(model), []
    for P, part in chains.groupby("P"):
        theory = theory_rows(model, (P * (1 - APART), P, P * (1 + APART))).query("quantity == 'aG'")
        lowest = theory[theory["branch"] == 0]["theory"].to_numpy()
        (row,) = over_data(well_rows(part).query("quantity == 'aG'")).to_dict("records")
        gap, slope = lowest[1] - row["mean"], (lowest[2] - lowest[0]) / np.log((1 + APART) / (1 - APART))
        row |= {
            "L": model.L,
            "ratio": round(P / middle, 2),
            "branches": int((theory["P"] == P).sum()),
            "starts": "+".join(sorted(set(part["start"]))),
            "theory": lowest[1],
            "gap": gap,
        }
        found.append(row | {"shift": gap / slope, "gap_error": row["error"], "shift_error": row["error"] / slope})
    return pd.DataFrame(found)


def power_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the exponent of L of gap and shift at each ratio, with its standard error: y ∝ L^exponent."""
    found = []
    for ratio, part in rows[rows["L"] >= FITTED].groupby("ratio"):
        for name in ("gap", "shift"):
            known = part[part[name].notna()]
            at_first = known[known["L"] == FITTED]
            if len(known) < 3 or not (at_first[name] > SEEN * at_first[f"{name}_error"]).any():
                continue
            value, error, prefactor = _power(known["L"], known[name], known[f"{name}_error"])
            found.append(
                {"ratio": ratio, "quantity": name, "exponent": value, "exponent_error": error, "prefactor": prefactor}
            )
    return pd.DataFrame(found, columns=["ratio", "quantity", "exponent", "exponent_error", "prefactor"])


def _power(L: pd.Series, y: pd.Series, error: pd.Series) -> tuple[float, float, float]:
    """Fit y = prefactor·(L/FITTED)^exponent to values of either sign; return exponent, its error, prefactor."""
    (prefactor, exponent), covariance = curve_fit(
        lambda L, prefactor, exponent: prefactor * (L / FITTED) ** exponent,
        L.to_numpy(float), y.to_numpy(float), (y.max(), -2.0), error.to_numpy(float), absolute_sigma=True,
    )  # fmt: skip
    return float(exponent), float(np.sqrt(covariance[1, 1])), float(prefactor)


def _draw(axes: Axes, name: str, rows: pd.DataFrame, powers: pd.DataFrame) -> None:
    for k, (ratio, part) in enumerate(rows.groupby("ratio")):
        x, error = part["L"] * (1 + ASIDE * (k - 1)), part[f"{name}_error"]
        look = {"color": f"C{k}", "marker": "os^"[k % 3], "markersize": 3.5, "label": f"$P/P_0$ = {ratio:g}"}
        draw_networks(axes, x, part[name], error=error, **look)
        for law in powers[(powers["ratio"] == ratio) & (powers["quantity"] == name)].itertuples():
            L = np.geomspace(FITTED, rows["L"].max(), 200)
            axes.plot(L, law.prefactor * (L / FITTED) ** law.exponent, color=f"C{k}", linewidth=0.8)
    axes.axhline(0, color="0.6", linewidth=0.7, zorder=0)
    axes.yaxis.set_minor_formatter(NullFormatter())


def gaps_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the gaps as text."""
    return pd.DataFrame(
        {
            "L": rows["L"],
            "P/P₀": [f"{ratio:g}" for ratio in rows["ratio"]],
            "P": rows["P"],
            "minima": rows["branches"],
            "starts": rows["starts"],
            "aG, theory": [f"{value:.5f}" for value in rows["theory"]],
            "HMC": [with_error(*pair) for pair in rows[["mean", "error"]].to_numpy()],
            "theory − HMC": [with_error(*pair) for pair in rows[["gap", "gap_error"]].to_numpy()],
            "as a shift of ln P": [with_error(*pair) for pair in rows[["shift", "shift_error"]].to_numpy()],
            "data sets": rows["data"],
            "chains disagree": rows["left_out"],
        }
    )


def powers_text(powers: pd.DataFrame) -> pd.DataFrame:
    """Return the fitted powers as text."""
    return pd.DataFrame(
        {
            "P/P₀": [f"{ratio:g}" for ratio in powers["ratio"]],
            "": powers["quantity"],
            "exponent of L": [with_error(*pair) for pair in powers[["exponent", "exponent_error"]].to_numpy()],
        }
    )
