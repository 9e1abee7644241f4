"""The posterior table of docs/theory.md, section 9: theory, HMC, SGLD at three steps and extrapolated.

HMC averages over data sets, SGLD runs on the first of them and is compared with HMC on the same data. Linear attention
is compared by second moments of (c1, cG), which no sign changes: the theory's are product of means plus covariance.
Chains that disagree have a verdict instead of a mean.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from figures._tables import with_error, write_table
from figures.posterior._samplings import Sampling, over_data, theory_rows, well_rows
from phasekit.drawing.presets import Preset
from phasekit.evidence import to_zero_step
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD
from phasekit.samplers.diagnostics import MIXED

MODELS = {Model(V=8, L=16, score="linear"): (64, 512), Model(V=8, L=16, score="softmax"): (128, 256, 320)}
#: Data sets, HMC draws, SGLD draws, SGLD chains from each end.
EFFORT = {"quick": (4, 400, 300, 16), "full": (16, 1000, 1000, 32)}
#: Steps of SGLD; a draw is recorded every THINNED/step updates, after the same time of warm-up.
STEPS, THINNED, WARMUP = (0.02, 0.01, 0.005), 0.4, 20.0
#: In the middle of softmax's rise heads relax several times as slowly: so many times fewer chains run so much longer.
SLOW = {("softmax", 256): 4}
SHOWN = ("c1_c1", "cG_cG", "aG", "q", "loss")
#: SGLD at zero step and HMC must agree within so many standard errors of their difference.
AGREE = 3.0


def main(out: Path, preset: Preset) -> list[Path]:
    """Write the tables as CSV and Markdown."""
    tables, steps = [], []
    for model, P in MODELS.items():
        data, draws, _, _ = EFFORT[preset.name]
        hmc = well_rows(Sampling(model, P, HMC(leaps=8), draws, 2, 300, data).samples())
        rows = over_data(hmc).merge(theory_rows(model, P), on=["P", "quantity"])
        tables.append(rows.assign(score=model.score.name))
        steps.append(sgld_rows(model, P, hmc[hmc["data_seed"] == 0], preset).assign(score=model.score.name))
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


def sgld_rows(model: Model, P: tuple[int, ...], hmc: pd.DataFrame, preset: Preset) -> pd.DataFrame:
    """Return one row per P and quantity: means at each step, at zero step, and z against ``hmc`` on the same data."""
    runs = {}
    for step in STEPS:
        rows = pd.concat([well_rows(sgld(model, each, step, preset).samples()) for each in P])
        runs[step] = rows.set_index(["P", "quantity"])
    exact = hmc.set_index(["P", "quantity"])
    found = []
    for each in P:
        for name in SHOWN:
            if (each, name) not in exact.index:
                continue
            parts = [run.loc[[(each, name)]] for run in (exact, *runs.values())]
            verdicts = [part["verdict"].iloc[0] for part in parts]
            row = {"P": each, "quantity": name, "verdict": MIXED if set(verdicts) == {MIXED} else "; ".join(verdicts)}
            for step, part in zip(("HMC", *STEPS), parts, strict=True):
                alone = part["verdict"].iloc[0] == MIXED
                row[f"mean {step}"] = part["mean"].iloc[0] if alone else np.nan
                row[f"mcse {step}"] = part["mcse"].iloc[0] if alone else np.nan
            if row["verdict"] == MIXED:
                means, errors = ([row[f"{kind} {step}"] for step in STEPS] for kind in ("mean", "mcse"))
                limit = to_zero_step(STEPS, means, errors)
                row |= {"zero": limit.value, "zero_error": limit.error, "slope": limit.slope, "chi2": limit.chi2}
                row["z"] = (limit.value - row["mean HMC"]) / np.hypot(limit.error, row["mcse HMC"])
            found.append(row)
    return pd.DataFrame(found).reindex(columns=[*dict.fromkeys([*found[0], "zero", "zero_error", "chi2", "z"])])


def sgld(model: Model, P: int, step: float, preset: Preset) -> Sampling:
    """Return SGLD at one P and step."""
    _, _, draws, members = EFFORT[preset.name]
    longer = SLOW.get((model.score.name, P), 1)
    return Sampling(
        model,
        (P,),
        SGLD(step=step),
        draws=longer * draws,
        thin=round(THINNED / step),
        warmup=round(longer * WARMUP / step),
        members=members // longer,
        dtype="float32",
    )


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
           for step in STEPS},
        "zero step": [_mean(*row) for row in table[["zero", "zero_error"]].to_numpy()],
        "HMC": [_mean(*row) for row in table[["mean HMC", "mcse HMC"]].to_numpy()],
        "z": [f"{v:.2f}" for v in table["z"]],
        "χ² (1)": [f"{v:.2g}" for v in table["chi2"]],
    }  # fmt: skip
    labels = {"score": table["score"], "P": table["P"], "": table["quantity"]}
    return pd.DataFrame({**labels, **columns, "verdict": table["verdict"]})


def _mean(value: float, error: float) -> str:
    return "chains disagree" if np.isnan(value) else with_error(value, error)
