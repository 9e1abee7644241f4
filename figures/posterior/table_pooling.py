"""The posterior of linear attention with token+position inputs, whose pooling is a vector: theory and HMC.

Second moments (s² of the mean row sum, s₂, q), which no sign changes, and the loss; each with HMC's standard error over
data sets and how far the theory is from it. docs/theory.md, section 6, quotes this table.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures._sweeps import networks
from figures._tables import with_error, write_table
from figures.posterior._posteriors import over_data, well_rows
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.theory.minima import find_minima

NAMES = {"s_s": "s²", "s2": "s₂", "q": "q", "loss": "loss"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the table as CSV and Markdown."""
    sampled = networks(preset, "table_pooling")
    rows = pd.concat([compared(model, chains) for model, chains in sampled.items()], ignore_index=True)
    for_people = pd.DataFrame(
        {
            "V": rows["V"],
            "L": rows["L"],
            "P": rows["P"],
            "": rows["quantity"].map(NAMES),
            "theory": [f"{value:.4f}" for value in rows["theory"]],
            "HMC": [
                "chains disagree" if np.isnan(mean) else with_error(mean, error)
                for mean, error in rows[["mean", "error"]].to_numpy()
            ],
            "theory over HMC, %": [
                "" if np.isnan(value) else f"{value:+.1f}" for value in 100 * (rows["theory"] / rows["mean"] - 1)
            ],
            "data sets": rows["data"],
            "left out": rows["left_out"],
        }
    )
    (caveat,) = {find_minima(model.at(P=1.0), "posterior").caveat for model in sampled}
    return write_table(
        out / "table_pooling", [("Token+position inputs", for_people)], rows, [f"The theory is {caveat}."]
    )


def compared(model: Model, chains: pd.DataFrame) -> pd.DataFrame:
    """Return one row per P and quantity: theory, HMC's mean, its error, data sets."""
    found = over_data(with_mean_square(well_rows(chains)))
    theory = pd.DataFrame(
        [
            {"P": P, "quantity": name, "theory": value}
            for P in np.unique(chains["P"])
            for name, value in theory_of(model.at(P=float(P))).items()
        ]
    )
    return theory.merge(found, on=["P", "quantity"], how="left").assign(V=model.V, L=model.L)


def with_mean_square(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ⟨s²⟩ = ⟨c1²⟩ + 2⟨c1 cG⟩ + ⟨cG²⟩ (errors added up as if they were one: an upper bound)."""
    keys = ["P", "data_seed", "well", "starts", "verdict"]
    weights = {"c1_c1": 1.0, "c1_cG": 2.0, "cG_cG": 1.0}
    parts = rows[rows["quantity"].isin(weights)]
    weight = parts["quantity"].map(weights)
    scaled = parts.assign(mean=weight * parts["mean"], mcse=weight * parts["mcse"])
    sums = scaled.groupby(keys, as_index=False)[["mean", "mcse"]].sum(min_count=len(weights))
    return pd.concat([rows, sums.assign(quantity="s_s")], ignore_index=True)


def theory_of(model: Model) -> dict[str, float]:
    """Return what the theory says of each quantity, at its lowest minimum."""
    found = find_minima(model, "posterior")
    values = {"s_s": float(found.averages["s"][0]) ** 2, "s2": float(found.averages["s2"][0])}
    return values | {"q": float(found.averages["q"][0]), "loss": float(found.loss[0])}
