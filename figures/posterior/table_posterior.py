"""The posterior table of docs/theory.md, section 9: theory, HMC, SGLD at three steps and extrapolated.

HMC averages over data sets, SGLD runs on the first of them and is compared with HMC on the same data. Linear attention
is compared by second moments of (c1, cG), which no sign changes: the theory's are product of means plus covariance.
Where chains settle in two wells, each well is compared with its own branch of the theory (0 is the lowest), and SGLD's
with HMC's. Chains that disagree otherwise have a verdict instead of a mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from figures._sweeps import networks
from figures._tables import with_error, write_table
from figures.posterior._posteriors import by_branch, over_data, theory_rows, well_rows
from phasekit.drawing.presets import Preset
from phasekit.evidence import to_zero_step
from phasekit.samplers.diagnostics import COEXISTENCE, MIXED

SHOWN = ("c1_c1", "cG_cG", "aG", "q", "loss")


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tables as CSV and Markdown."""
    tables, steps = [], []
    for model, chains in networks(preset, "table_posterior").items():
        sampled = chains["procedure"] == "hmc"
        theory = theory_rows(model, tuple(np.unique(chains["P"]).tolist()))
        if not model.score.normalised:  # the second minimum, with cG < 0, is not sampled from these starts
            theory = theory[theory["branch"] == 0]
        hmc = by_branch(well_rows(chains[sampled]), theory)
        labels = {"score": model.score.name, "L": model.L}
        tables.append(over_data(hmc).merge(theory, on=["P", "quantity", "branch"]).assign(**labels))
        sgld = {s: by_branch(well_rows(part), theory) for s, part in chains[~sampled].groupby("step", sort=False)}
        steps.append(sgld_rows(hmc[hmc["data_seed"] == 0], sgld).assign(**labels))
    table, zero = (pd.concat(parts, ignore_index=True) for parts in (tables, steps))
    sections = [
        ("Theory and HMC", _for_people(table[table["quantity"].isin(SHOWN)])),
        *(
            (f"SGLD extrapolated to zero step, and HMC on the same data: L = {L}", _steps_for_people(part))
            for L, part in zero.groupby("L")
        ),
    ]
    numbers = pd.concat([table.assign(part="theory"), zero.assign(part="zero step")], ignore_index=True)
    judged = zero.dropna(subset="z")
    notes = [
        f"SGLD at zero step against HMC, {len(judged)} comparisons: χ² = {(judged['z'] ** 2).sum():.1f}. Quantities of "
        f"one run go together, runs are independent: {agreement(judged)} degrees of freedom. "
        f"{len(zero) - len(judged)} comparisons could not be made because chains disagree.",
        "c1_c1 and cG_cG are second moments, theory: product of means plus covariance. Errors of HMC are standard "
        "errors over data sets; mcse is the chains' own.",
        "χ² of the steps, above a few per degree of freedom, means that the bias is not linear in the step up to the "
        "longest. There is none for two steps.",
    ]
    return write_table(out / "table_posterior", sections, numbers, notes)


def agreement(judged: pd.DataFrame) -> str:
    """Say how z is spread over runs, one quantity at a time: these are independent."""
    parts = judged.groupby("quantity")["z"]
    return ", ".join(f"{name} alone {(z**2).sum():.1f} for {len(z)}" for name, z in parts)


def sgld_rows(hmc: pd.DataFrame, sgld: dict[float, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per P, quantity and branch: means at each step and at zero step; z against ``hmc``."""
    keys = ["P", "quantity", "branch"]
    runs = {str(step): rows.set_index(keys) for step, rows in sorted(sgld.items(), reverse=True)}
    exact = hmc.set_index(keys)
    found = []
    for key in dict.fromkeys(key for key in exact.index if key[1] in SHOWN):
        parts = {step: run.loc[[key]].iloc[0] for step, run in {"HMC": exact, **runs}.items() if key in run.index}
        verdicts = list(dict.fromkeys(str(part["verdict"]) for part in parts.values()))
        row: dict[str, Any] = {**dict(zip(keys, key, strict=True)), "verdict": "; ".join(verdicts)}
        for step, part in parts.items():
            known = part["verdict"] in (MIXED, COEXISTENCE)
            row |= {f"{name} {step}": part[name] if known else np.nan for name in ("mean", "mcse")}
        if len(parts) == 1 + len(runs) and verdicts in ([MIXED], [COEXISTENCE]):
            means, errors = ([row[f"{name} {step}"] for step in runs] for name in ("mean", "mcse"))
            limit = to_zero_step([float(step) for step in runs], means, errors)
            row |= {"zero": limit.value, "zero_error": limit.error, "slope": limit.slope}
            row["chi2"] = limit.chi2 if limit.freedom else np.nan
            row["z"] = (limit.value - row["mean HMC"]) / np.hypot(limit.error, row["mcse HMC"])
        found.append(row)
    return pd.DataFrame(found).reindex(columns=[*dict.fromkeys([*found[0], "zero", "zero_error", "chi2", "z"])])


def _for_people(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **{name: table[name] for name in ("score", "L", "P", "branch")},
            "": table["quantity"],
            "theory": [f"{v:.5g}" for v in table["theory"]],
            "HMC": [with_error(*row) for row in table[["mean", "error"]].to_numpy()],
            "mcse": [f"{v:.1g}" for v in table["mcse"]],
            "difference, %": [f"{v:.2g}" for v in 100 * (table["mean"] / table["theory"] - 1)],
            "data sets": table["data"],
            "chains disagree": table["left_out"],
        }
    )  # fmt: skip


def _steps_for_people(table: pd.DataFrame) -> pd.DataFrame:
    columns = {
        **{f"step {step}": [with_error(*row) for row in table[[f"mean {step}", f"mcse {step}"]].to_numpy()]
           for step in _steps(table)},
        "zero step": [with_error(*row) for row in table[["zero", "zero_error"]].to_numpy()],
        "HMC": [with_error(*row) for row in table[["mean HMC", "mcse HMC"]].to_numpy()],
        "z": [f"{v:.2f}" for v in table["z"]],
        "χ² of the steps (1)": [f"{v:.2g}" if np.isfinite(v) else "" for v in table["chi2"]],
    }  # fmt: skip
    labels = {**{name: table[name] for name in ("score", "L", "P", "branch")}, "": table["quantity"]}
    return pd.DataFrame({**labels, **columns, "verdict": table["verdict"]})


def _steps(table: pd.DataFrame) -> list[str]:
    return [
        str(name).removeprefix("mean ") for name in table.dropna(axis=1, how="all") if str(name).startswith("mean 0")
    ]
