"""The posterior table of docs/theory.md, section 9: theory, HMC, SGLD at three steps and extrapolated.

HMC averages over data sets, SGLD runs on the first of them and is compared with HMC on the same data. Linear attention
is compared by second moments of (c1, cG), which no sign changes: the theory's are product of means plus covariance.
Chains that disagree have a verdict instead of a mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from figures._sweeps import networks
from figures._tables import with_error, write_table
from figures.posterior._posteriors import over_data, theory_rows, well_rows
from phasekit.drawing.presets import Preset
from phasekit.evidence import to_zero_step
from phasekit.samplers.diagnostics import MIXED

SHOWN = ("c1_c1", "cG_cG", "aG", "q", "loss")
#: SGLD at zero step and HMC must agree within so many standard errors of their difference.
AGREE = 3.0


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tables as CSV and Markdown."""
    tables, steps = [], []
    for model, chains in networks(preset, "table_posterior").items():
        sampled = chains["procedure"] == "hmc"
        hmc = well_rows(chains[sampled])
        P = tuple(np.unique(hmc["P"]).tolist())
        rows = over_data(hmc).merge(theory_rows(model, P), on=["P", "quantity"])
        tables.append(rows.assign(score=model.score.name))
        sgld = {step: well_rows(part) for step, part in chains[~sampled].groupby("step", sort=False)}
        steps.append(sgld_rows(hmc[hmc["data_seed"] == 0], sgld).assign(score=model.score.name))
    table, zero = (pd.concat(parts, ignore_index=True) for parts in (tables, steps))
    sections = [
        ("Theory and HMC", _for_people(table[table["quantity"].isin(SHOWN)])),
        ("SGLD extrapolated to zero step, and HMC on the same data", _steps_for_people(zero)),
    ]
    numbers = pd.concat([table.assign(part="theory"), zero.assign(part="zero step")], ignore_index=True)
    judged = zero.dropna(subset="z")
    largest = f", largest |z| = {judged['z'].abs().max():.2g}" if len(judged) else ""
    notes = [
        f"SGLD at zero step agrees with HMC within {AGREE:g} standard errors in {(judged['z'].abs() <= AGREE).sum()} "
        f"of {len(zero)} comparisons{largest}; {len(zero) - len(judged)} could not be made because chains disagree.",
        "c1_c1 and cG_cG are second moments, theory: product of means plus covariance. Errors of HMC are standard "
        "errors over data sets; mcse is the chains' own.",
        "χ² above a few per degree of freedom means that the bias is not linear in the step up to the longest.",
    ]
    return write_table(out / "table_posterior", sections, numbers, notes)


def sgld_rows(hmc: pd.DataFrame, sgld: dict[float, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per P and quantity: means at each step, at zero step, and z against ``hmc`` on the same data."""
    runs = {str(step): rows.set_index(["P", "quantity"]) for step, rows in sorted(sgld.items(), reverse=True)}
    exact = hmc.set_index(["P", "quantity"])
    found = []
    for key in dict.fromkeys(key for key in exact.index if key[1] in SHOWN):
        parts = {step: run.loc[[key]].iloc[0] for step, run in {"HMC": exact, **runs}.items()}
        verdicts = [str(part["verdict"]) for part in parts.values()]
        row: dict[str, Any] = {"P": key[0], "quantity": key[1]}
        row["verdict"] = MIXED if set(verdicts) == {MIXED} else "; ".join(verdicts)
        for step, part in parts.items():
            known = part["verdict"] == MIXED
            row |= {f"{name} {step}": part[name] if known else np.nan for name in ("mean", "mcse")}
        if row["verdict"] == MIXED:
            means, errors = ([row[f"{name} {step}"] for step in runs] for name in ("mean", "mcse"))
            limit = to_zero_step([float(step) for step in runs], means, errors)
            row |= {"zero": limit.value, "zero_error": limit.error, "slope": limit.slope, "chi2": limit.chi2}
            row["z"] = (limit.value - row["mean HMC"]) / np.hypot(limit.error, row["mcse HMC"])
        found.append(row)
    return pd.DataFrame(found).reindex(columns=[*dict.fromkeys([*found[0], "zero", "zero_error", "chi2", "z"])])


def _for_people(table: pd.DataFrame) -> pd.DataFrame:
    several = table.groupby(["score", "P", "quantity"])["branch"].transform("count") > 1
    return pd.DataFrame(
        {
            "score": table["score"],
            "P": table["P"],
            "": table["quantity"],
            "theory": [f"{v:.5g}" + (f" (branch {b})" if s else "")
                       for v, b, s in zip(table["theory"], table["branch"], several, strict=True)],
            "HMC": [_mean(*row) for row in table[["mean", "error"]].to_numpy()],
            "mcse": [f"{v:.1g}" for v in table["mcse"]],
            "difference, %": [f"{v:.2g}" for v in 100 * (table["mean"] / table["theory"] - 1)],
            "data sets": table["data"],
            "chains disagree": table["left_out"],
        }
    )  # fmt: skip


def _steps_for_people(table: pd.DataFrame) -> pd.DataFrame:
    columns = {
        **{f"step {step}": [_mean(*row) for row in table[[f"mean {step}", f"mcse {step}"]].to_numpy()]
           for step in _steps(table)},
        "zero step": [_mean(*row) for row in table[["zero", "zero_error"]].to_numpy()],
        "HMC": [_mean(*row) for row in table[["mean HMC", "mcse HMC"]].to_numpy()],
        "z": [f"{v:.2f}" for v in table["z"]],
        "χ² (1)": [f"{v:.2g}" for v in table["chi2"]],
    }  # fmt: skip
    labels = {"score": table["score"], "P": table["P"], "": table["quantity"]}
    return pd.DataFrame({**labels, **columns, "verdict": table["verdict"]})


def _steps(table: pd.DataFrame) -> list[str]:
    return [str(name).removeprefix("mean ") for name in table if str(name).startswith("mean 0")]


def _mean(value: float, error: float) -> str:
    return "chains disagree" if np.isnan(value) else with_error(value, error)
