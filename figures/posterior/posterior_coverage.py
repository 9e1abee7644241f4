"""How much of the attention the two patterns cover under the posterior, beside the minimum that Adam finds.

Posterior: theory, and HMC from both ends (the samples of posterior_transitions). The theory's coverage is a ratio of
means; it isn't drawn around P1 of linear attention, where its Gaussian covariance diverges. The minimum: 1 in theory,
and trained heads. The table has the samples' ratio of means too, which says whether the two kinds of average differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from figures._sweeps import draw_rows, kept, networks, networks_of_one
from figures._tables import with_error, write_page
from figures.posterior._posteriors import CRITICAL, critical, theory_lines, theory_rows, well_rows
from figures.posterior.posterior_transitions import MARKERS, TICKS
from phasekit.drawing.plotting import LABELS, draw_networks, draw_theory, mark_passages, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import pieces
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSTERIOR, MAP = "C3", "0.45"


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels and write the table."""
    tables = []
    with style():
        figure, panels = new_figure(2, height=5.4)
        for axes, (model, chains) in zip(panels, networks(preset, "posterior").items(), strict=True):
            found = find_transitions(model, "posterior")
            heads = draw_rows(networks_of_one(preset, f"{model.score.name}_transition")[1])
            tables.append(coverage_rows(found, chains, heads, preset))
            _draw(axes, found, tables[-1])
            axes.set_title(f"{model.score.name}, $L$ = {model.L}; thresholds of the posterior", loc="left")
            axes.set(xlabel=LABELS["P"], ylabel=LABELS["coverage"], xscale="log")
            axes.set_xticks(TICKS[model.score.name], [str(P) for P in TICKS[model.score.name]])
            axes.minorticks_off()
            mark_passages(axes, found)
        panels[0].set(yscale="log", ylim=(0.005, 4), yticks=(0.01, 0.1, 1))
        panels[1].set(ylim=(0, 1.18), yticks=np.linspace(0, 1, 6))
        panels[1].fill_between([], [], color="0.9", linewidth=0, label="two minima")
        handles = {
            label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=2)
        rows = pd.concat(tables, ignore_index=True)
        files = save(figure, rows, out / "posterior_coverage")
    sections = [("Coverage under the posterior", table_text(rows))]
    return [*files, write_page(out / "posterior_coverage.md", sections, _notes(rows))]


def coverage_rows(found: Transitions, chains: pd.DataFrame, heads: pd.DataFrame, preset: Preset) -> pd.DataFrame:
    """Return one row per point, of kinds "theory" (P, branch, value), "HMC" and "Adam" (P, data_seed, value).

    HMC has the mean of each well with its error, the ratio of means, and ``theory``: the branch nearest to it.
    """
    model, P = found.model, chains["P"]
    measured = well_rows(chains).query("quantity == 'coverage'").drop(columns="quantity")
    measured = measured.merge(of_means(chains, preset), on=["P", "data_seed", "well"], how="left")
    exact = theory_rows(model, tuple(np.unique(P).tolist())).query("quantity == 'coverage'")
    measured["theory"] = [
        _nearest(exact["theory"][exact["P"] == each].to_numpy(), mean)
        for each, mean in measured[["P", "mean"]].to_numpy()
    ]
    lines = theory_lines(found, P, preset).query("quantity == 'coverage' and branch != 'saddle'")
    parts = {
        "theory": lines.rename(columns={"theory": "value"}),
        "HMC": measured.rename(columns={"mean": "value", "mcse": "error"}),
        "Adam": heads[heads["P"].between(P.min(), P.max())].rename(columns={"coverage": "value"}),
    }
    shown = ["P", "branch", "piece", "value", "error", "of_means", "theory", "verdict", "well", "starts", "data_seed"]
    rows = [part.reindex(columns=shown).assign(kind=kind, score=model.score.name) for kind, part in parts.items()]
    return pd.concat(rows, ignore_index=True).dropna(axis="columns", how="all")


def _nearest(values: NDArray[np.float64], mean: float) -> float:
    return float(values[np.abs(values - mean).argmin()]) if np.isfinite(mean) else np.nan


def of_means(chains: pd.DataFrame, preset: Preset) -> pd.DataFrame:
    """Return ⟨‖patterns‖²⟩/⟨‖A‖²⟩ over the draws of each well: P, data_seed, well, of_means."""
    draws = {name: kept(preset, "posterior", f"draws_{name}") for name in ("coverage", "q")}
    rows = []
    for (task, well), part in chains[chains["well"] >= 0].groupby(["task", "well"]):
        coverage, q = (draws[name][str(task)][part["member"].to_numpy()] for name in ("coverage", "q"))
        ratio = float((coverage * q).mean() / q.mean())
        rows.append({"P": part["P"].iloc[0], "data_seed": part["data_seed"].iloc[0], "well": well, "of_means": ratio})
    return pd.DataFrame(rows, columns=["P", "data_seed", "well", "of_means"])


def table_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Return HMC beside the theory's branch that is nearest to it, as text."""
    hmc = rows[rows["kind"] == "HMC"]
    return pd.DataFrame(
        {
            "score": hmc["score"],
            "P": hmc["P"].astype(int),
            "chains from": hmc["starts"],
            "theory": [f"{value:.4f}" if np.isfinite(value) else "" for value in hmc["theory"]],
            "HMC": [
                with_error(value, error) if np.isfinite(value) else verdict
                for value, error, verdict in hmc[["value", "error", "verdict"]].to_numpy()
            ],
            "HMC, ratio of means": [f"{value:.4f}" if np.isfinite(value) else "" for value in hmc["of_means"]],
        }
    )


def _draw(axes: Axes, found: Transitions, rows: pd.DataFrame) -> None:
    """Draw one model: lines of the theory, points of HMC and of Adam, and the transition."""
    onset, line = 0.0, rows[rows["kind"] == "theory"]
    if not found.model.score.normalised:
        onset = find_transitions(found.model).passage("P1").P
        line = line.assign(value=line["value"].mask(critical(line["P"], found)))
        ends = [factor * found.passage("P1").P for factor in CRITICAL]
        axes.axvspan(*ends, color="0.93", linewidth=0, zorder=-1, label="theory outside its range")
    for branch, part in pieces(line):
        draw_theory(axes, part["P"], part["value"], branch=branch, color=POSTERIOR)
    covered = np.array([max(onset, line["P"].min()), line["P"].max()])
    draw_theory(axes, covered, np.ones(2), color=MAP, label="minimum, theory")
    heads = rows[rows["kind"] == "Adam"]
    draw_networks(axes, heads["P"], heads["value"], color=MAP, markersize=2.5, label="minimum, Adam")
    axes.plot([], [], color=POSTERIOR, label="posterior, theory")
    for starts, marker in MARKERS.items():
        part = rows[(rows["kind"] == "HMC") & (rows["starts"] == starts) & rows["value"].notna()]
        name = "all chains" if "+" in starts else f"from {starts}"
        label = f"posterior, HMC, {name}" if len(part) else None
        draw_networks(
            axes, part["P"], part["value"], error=part["error"], marker=marker, color=POSTERIOR, markersize=3.5,
            label=label,
        )  # fmt: skip


def _notes(rows: pd.DataFrame) -> list[str]:
    """Return what the columns are, how far the two averages are apart, and the coverage of Adam's minima."""
    hmc, heads = rows[(rows["kind"] == "HMC") & rows["value"].notna()], rows[rows["kind"] == "Adam"]
    apart = ((hmc["of_means"] / hmc["value"] - 1).abs()).max()
    lowest = "; ".join(f"{score}: {part['value'].min():.4f}" for score, part in heads.groupby("score", sort=False))
    return [
        "HMC: the mean over draws of each draw's coverage. Ratio of means: mean squared norm of the patterns over that "
        f"of A, which is what the theory gives; the two differ by up to {100 * apart:.2g} %.",
        f"Between {CRITICAL[0]:g} and {CRITICAL[1]:g} P1 the theory of linear attention is outside its range: its "
        "Gaussian covariance diverges at P1.",
        f"Lowest coverage of a minimum found by Adam, over the same P (mean over networks of a data set): {lowest}.",
    ]
