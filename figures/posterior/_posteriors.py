"""Sampled heads beside the posterior's theory, as rows that scripts share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from phasekit.drawing.presets import Preset
from phasekit.model import Estimator, Model
from phasekit.samplers.diagnostics import COEXISTENCE, MIXED
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Transitions, stationary_curve

#: Multiples of P1 between which fluctuations of linear attention are too large for their Gaussian approximation.
CRITICAL = (0.7, 1.5)
#: The order parameters of sampled heads: of linear attention, whose sign is a symmetry, second moments.
NAMES = {"c1_c1": "$c_1$", "cG_cG": "$c_G$", "aG": "$a_G$"}
COLOURS = {"c1_c1": "C0", "cG_cG": "C1", "aG": "C1"}


def critical(P: pd.Series, found: Transitions) -> pd.Series:
    """Say where the theory of linear attention is outside its range, around P1."""
    return P.between(*(factor * found.passage("P1").P for factor in CRITICAL))


def well_rows(chains: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set, well of chains and quantity: P, data_seed, well, starts, verdict, mean, mcse.

    ``chains`` has a row for each chain (:func:`figures._sweeps.networks`). Chains that agree are one well. Coexisting
    wells have a row each, and chains that disagree otherwise a row without a mean: nothing is averaged over chains that
    disagree. The error ``mcse`` is the larger of what the chains' own errors make, and their scatter.
    """
    names = [str(name).removesuffix("_mcse") for name in chains if str(name).endswith("_mcse")]
    rows = []
    for (P, seed, well), part in chains.groupby(["P", "data_seed", "well"]):
        known = part["verdict"].iloc[0] in (MIXED, COEXISTENCE)
        starts = "+".join(sorted(set(part["start"]))) if known else ""
        labels = {"P": P, "data_seed": seed, "verdict": part["verdict"].iloc[0], "well": max(well, 0), "starts": starts}
        for name in (name for name in names if part[name].notna().all()):
            own = float(np.sqrt((part[f"{name}_mcse"] ** 2).sum())) / len(part)
            error = np.fmax(own, part[name].std(ddof=1) / np.sqrt(len(part)))
            numbers = {"mean": part[name].mean(), "mcse": error} if known else {"mean": np.nan, "mcse": np.nan}
            rows.append({**labels, "quantity": name, **numbers})
    return pd.DataFrame(rows)


def theory_rows(model: Model, P: tuple[float, ...], estimator: Estimator = "posterior") -> pd.DataFrame:
    """Return the theory's branches, lowest action first: P, branch, quantity, theory.

    For the map estimator ``U`` is the action. For the posterior, order parameters of linear attention are also given as
    what sign-blind samples measure, their second moments ``c1_c1``, ``c1_cG``, ``cG_cG``: product of the means plus
    covariance.
    """
    rows = []
    for each in P:
        found = find_minima(model.at(P=float(each)), estimator)
        for branch in np.flatnonzero(found.converged):
            values = {name: float(v[branch]) for name, v in found.order_parameters.items()}
            values |= {name: float(found.averages[name][branch]) for name in ("s2", "q")}
            values |= {name: float(getattr(found, name)[branch]) for name in ("loss", "coverage")}
            if estimator == "map":
                values["U"] = float(found.action[branch])
            if not model.score.normalised and found.covariance is not None:
                c1, cG, spread = values["c1"], values["cG"], [float(part[branch]) for part in found.covariance]
                values |= {"c1_c1": c1**2 + spread[0], "c1_cG": c1 * cG + spread[1], "cG_cG": cG**2 + spread[2]}
            rows += [{"P": each, "branch": branch, "quantity": n, "theory": v} for n, v in values.items()]
    return pd.DataFrame(rows)


def theory_lines(found: Transitions, P: ArrayLike, preset: Preset) -> pd.DataFrame:
    """Return the lines of the theory over a range of P, for :func:`figures._theory.pieces`.

    Columns P, branch, piece, quantity, theory. Normalised scores: minima and saddles along their curve through the
    folds; ``variance`` of aG among the posterior's quantities. Linear attention: the lowest minimum (the second,
    with cG < 0, is never sampled from the starts that are used).
    """
    ends = float(np.min(P)), float(np.max(P))
    if found.model.score.normalised:
        curve = stationary_curve(found, ends, 4 * preset.slow_points)
        shown = curve.reindex(columns=["P", "branch", "piece", "aG", "loss", "coverage", "variance"])
        return shown.melt(["P", "branch", "piece"], var_name="quantity", value_name="theory")
    rows = theory_rows(found.model, tuple(np.geomspace(*ends, 6 * preset.slow_points).tolist()), found.estimator)
    return rows[rows["branch"] == 0].assign(branch="global", piece=1)


def by_branch(wells: pd.DataFrame, theory: pd.DataFrame) -> pd.DataFrame:
    """Give every well of chains the branch of :func:`theory_rows` whose loss is nearest, 0 where chains disagree."""
    both = wells[wells["quantity"] == "loss"].merge(theory[theory["quantity"] == "loss"], on="P")
    both["away"] = (both["mean"] - both["theory"]).abs().fillna(0.0)
    nearest = both.loc[both.groupby(["P", "data_seed", "well"])["away"].idxmin()]
    return wells.merge(nearest[["P", "data_seed", "well", "branch"]], on=["P", "data_seed", "well"])


def over_data(rows: pd.DataFrame) -> pd.DataFrame:
    """Average :func:`well_rows` over data sets whose chains agree: mean, error, data, left_out.

    The error is the standard error over data sets (which holds the chains' own), or the chains' own for one data set.
    With a column ``branch`` (:func:`by_branch`) coexisting wells are averaged, too, each by itself.
    """
    found = []
    keys = ["P", "quantity", "branch"] if "branch" in rows else ["P", "quantity"]
    for key, part in rows.groupby(keys, sort=False):
        mixed = part[part["verdict"].isin([MIXED, COEXISTENCE] if "branch" in rows else [MIXED])]
        n = len(mixed)
        error = mixed["mean"].std(ddof=1) / np.sqrt(n) if n > 1 else mixed["mcse"].iloc[0] if n else np.nan
        left_out = part["data_seed"].nunique() - n
        mcse = np.sqrt((mixed["mcse"] ** 2).sum()) / n if n else np.nan
        found.append(
            {
                **dict(zip(keys, key, strict=True)),
                "mean": mixed["mean"].mean(),
                "mcse": mcse,
                "error": np.fmax(error, mcse),
                "data": n,
                "left_out": left_out,
            }
        )
    return pd.DataFrame(found)
