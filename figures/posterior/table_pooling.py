"""The posterior of linear attention with token+position inputs, whose pooling is a vector: theory and HMC.

Second moments (s² of the mean row sum, s₂, q), which no sign changes, and the loss; each with HMC's standard error over
data sets and how far the theory is from it. docs/theory.md, section 6, quotes this table.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures._tables import with_error, write_table
from figures.posterior._samplings import Sampling, over_data, well_rows
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.samplers import HMC
from phasekit.theory.minima import find_minima

SMALL = Model(V=4, L=12, score="linear", inputs="token+position")
LARGE = SMALL.at(V=8, L=24)
#: Data set sizes, data sets, draws of HMC, chains from each end. Where s grows fast, chains need the long runs.
EFFORT = {
    "quick": ({SMALL: (40, 160), LARGE: (200,)}, 3, 200, 3),
    "full": ({SMALL: (20, 40, 80, 160, 320, 640), LARGE: (100, 200, 400, 800)}, 4, 1000, 4),
}
NAMES = {"s_s": "s²", "s2": "s₂", "q": "q", "loss": "loss"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the table as CSV and Markdown."""
    models = EFFORT[preset.name][0]
    rows = pd.concat([compared(model, P, preset) for model, sizes in models.items() for P in sizes], ignore_index=True)
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
    (caveat,) = {find_minima(model.at(P=1.0), "posterior").caveat for model in models}
    return write_table(
        out / "table_pooling", [("Token+position inputs", for_people)], rows, [f"The theory is {caveat}."]
    )


def compared(model: Model, P: int, preset: Preset) -> pd.DataFrame:
    """Return one row per quantity: theory, HMC's mean, its error, data sets."""
    _, data, draws, members = EFFORT[preset.name]
    samples = Sampling(model, (P,), HMC(leaps=8), draws, 2, 300, data, members).samples()
    found = over_data(with_mean_square(well_rows(samples))).set_index("quantity")
    theory = theory_of(model.at(P=float(P)))
    rows = found.loc[list(theory)].assign(theory=list(theory.values()))
    return rows.reset_index().assign(V=model.V, L=model.L)


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
