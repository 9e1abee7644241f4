"""Networks of other scores beside their theory: what the figure and the table of ``score_networks`` share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from phasekit.fates import FATES
from phasekit.model import Model
from phasekit.theory.minima import find_minima

#: Sweeps of ``sims/``. Sparsemax is apart: finite data shift it.
JUMPS, SCALING, NARROW = "score_jumps", "score_jump_scaling", "score_narrow_jump"
CROSSOVERS, SPARSEMAX = "score_crossovers", "score_sparsemax"
#: Networks from the two ends are apart if their aG differ by more than this (as in `phasekit.measure`).
APART = 0.01


def label(model: Model) -> str:
    """Return how a model's score is called in pictures and tables."""
    numbers = {name: f"{value:g}" for name, value in model.score.describe().items() if name != "name"}
    name = model.score.name
    if name == "ssa":
        return f"SSA, n = {numbers['n']}"
    if name == "entmax":
        return f"{numbers['alpha']}-entmax"
    return f"softmax, T = {numbers['T']}" if name == "temperature" else name


def beside_theory(model: Model, rows: pd.DataFrame) -> pd.DataFrame:
    """Add the theory's minimum that each network belongs to: the one with the nearest aG.

    Columns ``theory_U``, ``theory_aG``, ``minima`` (how many there are at that P) and ``branch``: "only", or "low" and
    "high", by aG, where there are two. Networks that failed or didn't converge are left out.
    """
    used = rows[rows["fate"].isin(["kept", "higher energy"])].reset_index(drop=True)
    P = np.unique(used["P"])
    found = find_minima(model.grid(P=P))
    at = np.searchsorted(P, used["P"])
    aG, action = found.order_parameters["aG"][at], found.action[at]
    nearest = np.nanargmin(np.abs(np.log(aG / used["aG"].to_numpy()[:, None])), axis=1)
    every = np.arange(len(used))
    count = found.count[at]
    lower = (aG < aG[every, nearest][:, None]).any(axis=1)
    return used.assign(
        theory_U=action[every, nearest],
        theory_aG=aG[every, nearest],
        minima=count,
        branch=np.where(count == 1, "only", np.where(lower, "high", "low")),
    )


def gaps(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each P and data set: lowest aG and U from either end, and whether the ends are apart."""
    used = rows[rows["fate"].isin(["kept", "higher energy"])]
    best = used.loc[used.groupby(["P", "data_seed", "start"])["U"].idxmin()]
    wide = best.pivot(index=["P", "data_seed"], columns="start", values=["aG", "U"]).dropna()
    gap = wide["aG", "copy"] - wide["aG", "uniform"]
    table = pd.DataFrame(
        {
            "low": wide["aG", "uniform"],
            "high": wide["aG", "copy"],
            "advantage": wide["U", "copy"] - wide["U", "uniform"],
            "U": wide["U"].min(axis=1),
            "apart": gap > APART,
        }
    )
    return table.reset_index()


def counts(rows: pd.DataFrame) -> dict[str, Any]:
    """Return how many networks met each fate, and how many data sets there are."""
    fates = rows["fate"].value_counts()
    return {
        "networks": len(rows),
        "seeds": rows["data_seed"].nunique(),
        **{fate: int(fates.get(fate, 0)) for fate in FATES},
    }
