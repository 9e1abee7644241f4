"""Networks of other scores against their theory: energies, jumps or none, hysteresis, P*, and sparsemax's shift.

Ensembles under Adam from both ends, V = 8, positional inputs, unit variances: the sweeps ``score_*`` of ``sims/``.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from figures._sweeps import measured, networks
from figures._tables import with_error, write_table
from figures.scores._scores import (
    APART,
    CROSSOVERS,
    JUMPS,
    NARROW,
    SCALING,
    SPARSEMAX,
    beside_theory,
    counts,
    gaps,
    label,
)
from phasekit.drawing.presets import Preset
from phasekit.measure import Size
from phasekit.model import Model
from phasekit.theory.corrections.sampling_force import sparsemax_on_drawn_data
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

#: Sweeps that thresholds are measured on.
LOCATED = (JUMPS, NARROW, SCALING)
#: Allowed relative difference of energies, mean over data sets.
ENERGY = 0.005


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tables as CSV and Markdown."""
    located = {size.model: size for name in LOCATED for law in measured(preset, name) for size in law.sizes}
    models = networks(preset, *LOCATED, CROSSOVERS)
    passages = pd.DataFrame([passage(model, rows, located.get(model)) for model, rows in models.items()])
    passages = passages.sort_values(["score", "L"], ignore_index=True)
    shifts = pd.DataFrame(
        [row for model, rows in networks(preset, SPARSEMAX).items() for row in shift(model, rows)]
    ).sort_values(["L", "P/kappa", "kappa"], ignore_index=True)
    sections = [
        ("Passages to copying, V = 8", passages_for_people(passages)),
        ("From both ends", ends_for_people(passages)),
        ("Sparsemax: what finite data do", shifts_for_people(shifts)),
    ]
    numbers = pd.concat([passages, shifts.assign(score="sparsemax")], ignore_index=True)
    return write_table(out / "table_scores", sections, numbers, _notes(passages, shifts))


def passage(model: Model, rows: pd.DataFrame, size: Size | None) -> dict[str, object]:
    """Compare the networks of one model with its theory."""
    found = find_transitions(model)
    first = found.order == "first"
    at = found.passage("P_star" if first else "P_x").P
    near, ends = beside_theory(model, rows), gaps(rows)
    off = near.assign(off=near["U"] / near["theory_U"] - 1)
    means = off.groupby(["P", "branch"])["off"].mean()
    row: dict[str, object] = {
        "score": label(model),
        "L": model.L,
        "order": found.order,
        "P": at,
        **counts(rows),
        "energy_off": means.loc[means.abs().idxmax()],
        "energy_off_one": off.loc[off["off"].abs().idxmax(), "off"],
        "verdict": "pass" if means.abs().max() <= ENERGY else "FAIL",
        "largest_gap": (ends["high"] - ends["low"]).abs().max(),
    }
    for branch in ("low", "high"):
        own = means[means.index.get_level_values("branch") == branch]
        row[f"energy_off_{branch}"] = own.loc[own.abs().idxmax()] if len(own) else math.nan
    if size is not None and size.measured is not None:
        row |= {"measured": size.measured.value, "measured_error": size.measured.total_error}
    if first:
        low, high = found.passage("P_star").jump["aG"]
        apart = ends[ends["apart"]]
        closest = apart[apart["P"] == _closest(apart["P"], at)]
        row |= {
            "jump_low": low,
            "jump_high": high,
            "jump_at": closest["P"].iloc[0] if len(closest) else math.nan,
            "found_low": closest["low"].mean(),
            "found_high": closest["high"].mean(),
            "spinodal_low": found.passage("P_star").spinodals[0] / at,
            "spinodal_high": found.passage("P_star").spinodals[1] / at,
        }
    share = ends.groupby("P")["apart"].mean()
    row["apart"] = "; ".join(f"{P / at:.3g}: {value:.0%}" for P, value in share.items())
    return row


def _closest(P: pd.Series, at: float) -> float:
    return float(P.iloc[int((P - at).abs().to_numpy().argmin())]) if len(P) else math.nan


def shift(model: Model, rows: pd.DataFrame) -> list[dict[str, object]]:
    """Compare sparsemax at each P with the theory on infinite data, and with that of its rows on drawn data."""
    result = []
    for P, here in rows.groupby("P"):
        there = model.at(P=float(P))
        infinite, drawn = find_minima(there), sparsemax_on_drawn_data(there, rows=1024)
        ends = gaps(here)
        best = here[here["fate"].isin(["kept", "higher energy"])]
        sets = best.loc[best.groupby("data_seed")["U"].idxmin()]
        result.append(
            {
                "L": model.L,
                "kappa": model.kappa,
                "P": P,
                "P/kappa": round(P / model.kappa, 1),
                "aG_infinite": infinite.order_parameters["aG"][0],
                "aG_drawn": drawn.aG,
                "aG": sets["aG"].mean(),
                "aG_error": sets["aG"].std(ddof=1) / math.sqrt(len(sets)),
                "U_infinite": infinite.action[0],
                "U_drawn": drawn.U,
                "U": sets["U"].mean(),
                "U_error": sets["U"].std(ddof=1) / math.sqrt(len(sets)),
                "force": drawn.force * model.L,
                "ends_differ": (ends["advantage"].abs() / ends["U"]).max(),
                "largest_gap": (ends["high"] - ends["low"]).abs().max(),
                **counts(here),
            }
        )
    return result


def passages_for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return thresholds and energies as text."""
    return pd.DataFrame(
        {
            "score": table["score"],
            "L": table["L"],
            "order": table["order"],
            "P* or P×, theory": [f"{P:.2f}" for P in table["P"]],
            "P*, networks": [_threshold(row) for row in table.to_dict("records")],
            "off, %": [_off(row) for row in table.to_dict("records")],
            "U off theory, lower branch, %": _percents(table, "energy_off_low"),
            "upper branch, %": _percents(table, "energy_off_high"),
            "any P, %": _percents(table, "energy_off"),
            "one data set, %": _percents(table, "energy_off_one"),
            "verdict": table["verdict"],
        }
    )


def ends_for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return jumps and hysteresis as text."""
    rows = table.to_dict("records")
    return pd.DataFrame(
        {
            "score": table["score"],
            "L": table["L"],
            "aG at P*, theory": [_pair(row, "jump_low", "jump_high") for row in rows],
            "networks": [_pair(row, "found_low", "found_high") for row in rows],
            "two minima, P/P*": [_pair(row, "spinodal_low", "spinodal_high", 3) for row in rows],
            "ends apart at P/P* or P/P×": table["apart"],
            "largest gap": [f"{row['largest_gap']:.4f}" for row in rows],
            "data sets": table["seeds"],
            "filtered": [f"{row['higher energy']} of {row['networks']}" for row in rows],
            "not converged": table["not converged"] + table["failed"],
        }
    )


def shifts_for_people(table: pd.DataFrame) -> pd.DataFrame:
    """Return sparsemax's rows as text."""
    rows = table.to_dict("records")
    return pd.DataFrame(
        {
            "L": table["L"],
            "P/κ": table["P/kappa"],
            "κ": table["kappa"],
            "aG, infinite data": [f"{row['aG_infinite']:.4f}" for row in rows],
            "sampling force": [f"{row['aG_drawn']:.4f}" for row in rows],
            "networks": [with_error(row["aG"], row["aG_error"]) for row in rows],
            "U, infinite data": [f"{row['U_infinite']:.3f}" for row in rows],
            "U, sampling force": [f"{row['U_drawn']:.3f}" for row in rows],
            "U, networks": [with_error(row["U"], row["U_error"]) for row in rows],
            "force × L": [f"{row['force']:.2f}" for row in rows],
            "data sets": table["seeds"],
        }
    )


def _threshold(row: dict[str, float]) -> str:
    return with_error(row["measured"], row["measured_error"]) if _known(row, "measured") else ""


def _off(row: dict[str, float]) -> str:
    if not _known(row, "measured"):
        return ""
    return with_error(100 * (row["measured"] / row["P"] - 1), 100 * row["measured_error"] / row["P"])


def _pair(row: dict[str, float], low: str, high: str, digits: int = 4) -> str:
    return f"{row[low]:.{digits}f} → {row[high]:.{digits}f}" if _known(row, low) else ""


def _known(row: dict[str, float], name: str) -> bool:
    return name in row and math.isfinite(row[name])


def _percents(table: pd.DataFrame, name: str) -> list[str]:
    return ["" if math.isnan(value) else f"{100 * value:+.2f}" for value in table[name]]


def _notes(passages: pd.DataFrame, shifts: pd.DataFrame) -> list[str]:
    passed = int((passages["verdict"] == "pass").sum())
    off = (shifts["U"] / shifts["U_drawn"] - 1).abs().max()
    away = (shifts["U"] / shifts["U_infinite"] - 1).abs().max()
    copying, without = ((shifts["aG"] - shifts[name]).abs().max() for name in ("aG_drawn", "aG_infinite"))
    return [
        f"Energies: the largest difference of the mean over data sets at any P from the theory's minimum with the "
        f"nearest aG; {passed} of {len(passages)} rows stay within {ENERGY:.1%}.",
        "P* of networks: where the energies of both branches cross, on data sets that show both; error from resampling "
        "the data sets, and from the interpolation.",
        f'"apart": the share of data sets on which heads from the two ends differ in aG by more than {APART}. '
        '"filtered": heads in a minimum that is not their data set\'s lowest.',
        f"Sparsemax: with the sampling force the theory is within {off:.2%} of networks in U and within {copying:.4f} "
        f"in aG; without it U is up to {away:.1%} and aG up to {without:.3f} off. Heads from both ends agree in U to "
        f"{shifts['ends_differ'].max():.0e} (relative) and in aG to {shifts['largest_gap'].max():.4f}: there is no "
        "second minimum.",
        '"force × L": the standard deviation of what sampling noise adds to a weight, over the uniform weight 1/L.',
    ]
