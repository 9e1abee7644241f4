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

from figures._sweeps import draw_rows, networks_of_one
from figures._tables import with_error, write_page
from figures._theory import MIDDLE
from figures.posterior._samplings import theory_rows, well_rows
from figures.posterior.posterior_transitions import CRITICAL, LINEAR, MARKERS, SOFTMAX, sampling, theory_lines
from phasekit.drawing.plotting import (
    LABELS,
    draw_networks,
    draw_theory,
    mark_transition,
    new_figure,
    save,
    shade_window,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.samplers import Samples, diagnose
from phasekit.theory.transitions import find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSTERIOR, MAP = "C3", "0.45"
TICKS = {"linear": (64, 128, 256, 512), "softmax": (1000, 1500, 2000, 2500)}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels and write the table."""
    models = (LINEAR, SOFTMAX)
    rows = pd.concat([coverage_rows(model, preset) for model in models], ignore_index=True)
    with style():
        figure, panels = new_figure(2, height=5.4)
        for axes, model in zip(panels, models, strict=True):
            _draw(axes, model, rows[rows["score"] == model.score.name])
            axes.set_title(f"{model.score.name} attention, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            ticks = TICKS[model.score.name]
            axes.set(xlabel=LABELS["P"], ylabel=LABELS["coverage"], xscale="log")
            axes.set_xticks(ticks, [str(P) for P in ticks])
            axes.minorticks_off()
        panels[0].set(yscale="log", ylim=(0.005, 3), yticks=(0.01, 0.1, 1))
        panels[1].set(ylim=(0, 1.2))
        figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        files = save(figure, rows, out / "posterior_coverage")
    sections = [("Coverage under the posterior", table_text(rows))]
    return [*files, write_page(out / "posterior_coverage.md", sections, _notes(rows))]


def coverage_rows(model: Model, preset: Preset) -> pd.DataFrame:
    """Return one row per point, of kinds "theory" (P, branch, value), "HMC" and "Adam" (P, data_seed, value).

    HMC has the mean of each well with its error, the ratio of means, and ``theory``: the branch nearest to it.
    """
    runs = sampling(model, preset)
    samples = runs.samples()
    measured = well_rows(samples).query("quantity == 'coverage'").drop(columns="quantity")
    measured = measured.merge(of_means(samples), on=["P", "data_seed", "well"], how="left")
    exact = theory_rows(model, runs.P).query("quantity == 'coverage'").set_index("P")["theory"]
    measured["theory"] = [
        min(exact[[P]], key=lambda value, m=mean: abs(value - m)) if np.isfinite(mean) else np.nan
        for P, mean in measured[["P", "mean"]].to_numpy()
    ]
    heads = draw_rows(networks_of_one(preset, f"{model.score.name}_transition")[1])
    parts = {
        "theory": _branches(model, preset),
        "HMC": measured.rename(columns={"mean": "value", "mcse": "error"}),
        "Adam": heads[heads["P"].between(min(runs.P), max(runs.P))].rename(columns={"coverage": "value"}),
    }
    shown = ["P", "branch", "low", "value", "error", "of_means", "theory", "verdict", "well", "starts", "data_seed"]
    rows = [part.reindex(columns=shown).assign(kind=kind, score=model.score.name) for kind, part in parts.items()]
    return pd.concat(rows, ignore_index=True).dropna(axis="columns", how="all")


def _branches(model: Model, preset: Preset) -> pd.DataFrame:
    """Return the theory's branches: P, branch, value, and whether aG is low (softmax: before the jump)."""
    rows = theory_lines(model, preset).pivot(index=["P", "branch"], columns="quantity", values="theory").reset_index()
    low = np.zeros(len(rows), dtype=bool) if model is LINEAR else rows["aG"] < MIDDLE
    return rows.assign(low=low).rename(columns={"coverage": "value"})


def of_means(samples: Samples) -> pd.DataFrame:
    """Return ⟨‖patterns‖²⟩/⟨‖A‖²⟩ over the draws of each well: P, data_seed, well, of_means."""
    found = []
    for d, wells in enumerate(diagnose(samples).wells):
        one = samples.posterior.isel(dataset=d)
        for w, well in enumerate(wells):
            draws = one.isel(chain=list(well.chains))
            ratio = float((draws.coverage * draws.q).mean() / draws.q.mean())
            found.append({"P": int(one.P), "data_seed": int(one.data_seed), "well": w, "of_means": ratio})
    return pd.DataFrame(found, columns=["P", "data_seed", "well", "of_means"])


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


def _draw(axes: Axes, model: Model, rows: pd.DataFrame) -> None:
    """Draw one model: lines of the theory, points of HMC and of Adam, and the transition."""
    found = find_transitions(model, "posterior").values
    line = rows[rows["kind"] == "theory"].sort_values("P")
    if model is LINEAR:  # the second minimum, with cG < 0, is not sampled from these starts
        line = line[line["branch"] == 0]
        critical = line["P"].between(*(factor * found["P1"] for factor in CRITICAL))
        draw_theory(axes, line["P"], line["value"].mask(critical), color=POSTERIOR)
        mark_transition(axes, found["P1"], "P1")
    else:
        shade_window(axes, found["spinodals"])
        mark_transition(axes, found["P_star"], "P_star")
        for _, part in line.groupby("low"):
            best = (part["branch"] == 0) | np.isclose(part["P"], found["P_star"], rtol=1e-9)  # at P* both are lowest
            draw_theory(axes, part["P"], part["value"], branch="metastable", color=POSTERIOR)
            draw_theory(axes, part["P"], part["value"].where(best), color=POSTERIOR)
    onset = find_transitions(model).values["P1"] if model is LINEAR else 0.0
    covered = line["P"][line["P"] > onset]
    draw_theory(axes, covered, np.ones(len(covered)), color=MAP, label="minimum, theory")
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
