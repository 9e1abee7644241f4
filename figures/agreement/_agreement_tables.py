"""The tables of figures/agreement/agreement.py: how far runs are from theory, then every model and P."""

from __future__ import annotations

import numpy as np
import pandas as pd

from figures._tables import with_error
from figures.agreement._agreement import QUANTITIES
from figures.agreement._zero_step import LONGEST
from phasekit.model import Estimator

METHODS: dict[Estimator, str] = {"map": "Adam", "posterior": "SGLD"}


def sections(points: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the summary, and a table of every model and P for each score and estimator."""
    titles = {"map": "map estimator and Adam", "posterior": "posterior and SGLD at zero step"}
    return [
        ("How far runs are from theory", summary_text(summary(points))),
        *(
            (f"{score} attention: {titles[str(estimator)]}", _for_people(part, METHODS[estimator]))
            for (score, estimator), part in points.groupby(["score", "estimator"], sort=False)
        ),
    ]


def summary(points: pd.DataFrame) -> pd.DataFrame:
    """Return per score, estimator, side of the threshold and quantity: points, |difference|, |σ| ≤ 3, χ²."""
    rows = []
    sides = np.where(points["ratio"] < 1, "below", "above")
    groups = points.assign(side=sides).groupby(["score", "estimator", "quantity", "side"], sort=False)
    for (score, estimator, quantity, side), part in groups:
        known = part.dropna(subset=["difference", "sigma"])
        size = known["difference"].abs()
        rows.append(
            {
                "score": score,
                "estimator": estimator,
                "quantity": quantity,
                "side": side,
                "points": len(part),
                "unknown": len(part) - len(known),
                "median": size.median(),
                "largest": size.max(),
                "within": int((known["sigma"].abs() <= 3).sum()),
                "chi2": (known["sigma"] ** 2).sum(),
            }
        )
    return pd.DataFrame(rows)


def summary_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return the summary as text."""
    return pd.DataFrame(
        {
            "score": table["score"],
            "runs": table["estimator"].map(METHODS),
            "": table["quantity"],
            "P": table["side"] + " threshold",
            "points": [f"{n - u} of {n}" for n, u in zip(table["points"], table["unknown"], strict=True)],
            "median |difference|": [_percent(value) for value in table["median"]],
            "largest": [_percent(value) for value in table["largest"]],
            "within 3 standard errors": table["within"],
            "χ²": [
                f"{chi2:.0f} of {n - u}" if n > u else ""
                for chi2, n, u in table[["chi2", "points", "unknown"]].to_numpy()
            ],
        }
    )


def notes(points: pd.DataFrame) -> list[str]:
    """Return what was filtered or left out, and how the numbers were made."""
    counts = (
        points.drop_duplicates(["score", "estimator", "V", "L", "P"]).groupby("estimator")[["runs", "left_out"]].sum()
    )
    adam, sgld = counts.loc["map"], counts.loc["posterior"]
    ratios = points.groupby("score", sort=False)["ratio"].unique()
    multiples = "; ".join(f"{score}: {', '.join(f'{r:g}' for r in sorted(values))}" for score, values in ratios.items())
    return [
        f"Adam: {adam['left_out']} of {adam['runs']} networks ended above the lowest minimum of their data set, or had "
        "not converged, and were left out.",
        f"SGLD: {sgld['left_out']} of {sgld['runs']} data sets were left out because chains disagree at some step.",
        f"P₀ is P₁ of linear attention; of softmax P*, or P× where it passes smoothly. P/P₀: {multiples}.",
        f"SGLD's steps are shares of the inverse of the energy's stiffest curvature, at most {LONGEST:g} in units of "
        "the prior; its bias, of first order in the step, is extrapolated away. The column 'step' is the longest.",
        "c1 and cG of linear attention under the posterior are root mean squares.",
        "χ²: sum of squared deviations in standard errors, over so many points. Standard errors of a few data sets are "
        "rough; a χ² many times the number of points says that a difference, however small, is there.",
        "Points without a percentage: theory and runs are both exactly 0 (or chains disagree).",
    ]


def _for_people(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return one row per model and P, with a cell for each quantity."""
    rows = []
    for (V, L, ratio, P), part in table.groupby(["V", "L", "ratio", "P"], sort=False):
        quantities = part.set_index("quantity")
        first = part.iloc[0]
        cells = {
            f"{name}: theory; {method}": _cell(quantities.loc[name])
            for name in QUANTITIES[first["score"], first["estimator"]]
        }
        sampled = first["estimator"] == "posterior"
        left = f"{first['left_out']} of {first['runs']}"
        rows.append(
            {"V": V, "L": L, "P/P₀": f"{ratio:g}", "P": P, **cells}
            | ({"step": f"{first['step']:g}", "data sets left out": left} if sampled else {"networks left out": left})
        )
    return pd.DataFrame(rows)


def _cell(row: pd.Series) -> str:
    if np.isnan(row["mean"]):
        return f"{row['theory']:.4g}; chains disagree"
    known = np.isfinite(row["sigma"]) and np.isfinite(row["difference"])
    away = f" ({100 * row['difference']:+.2g} %, {row['sigma']:+.1f} σ)" if known else ""
    measured = with_error(row["mean"], row["error"]) if row["theory"] != 0 else f"{row['mean']:.1g}"
    return f"{row['theory']:.4g}; {measured}{away}"


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.2g} %"
