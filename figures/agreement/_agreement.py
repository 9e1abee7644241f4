"""Theory beside Adam and SGLD over P, L and V: the comparisons, one row each (claim C4).

Adam's lowest minimum is compared with the map estimator, SGLD at zero step (:mod:`figures.agreement._zero_step`) with
the posterior, each at multiples of its own threshold P0: P1 for linear attention; for softmax attention P*, or the
steepest point P× where it passes smoothly.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from figures._sweeps import draw_rows, networks
from figures.posterior._posteriors import over_data, theory_rows
from phasekit.drawing.presets import Preset
from phasekit.model import Estimator, Model

#: What is compared. Order parameters of linear attention under the posterior: roots of second moments.
QUANTITIES = {
    ("linear", "map"): ("c1", "cG", "loss", "U"),
    ("linear", "posterior"): ("c1", "cG", "loss", "q"),
    ("softmax", "map"): ("aG", "loss", "U"),
    ("softmax", "posterior"): ("aG", "loss", "q"),
}
ROOTS = {"c1": "c1_c1", "cG": "cG_cG"}


def all_comparisons(preset: Preset) -> pd.DataFrame:
    """Return the comparisons of all models, those of linear attention first."""
    found = networks(preset, "agreement")
    models = sorted(found, key=lambda model: (model.score.name, model.V, model.L))
    return pd.concat([comparisons(model, found[model]) for model in models], ignore_index=True)


def comparisons(model: Model, rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per estimator, P and quantity.

    Columns V, L, score, estimator, threshold, ratio, P, quantity, theory, mean, error (standard error over data sets,
    at least what the runs' own errors make), data (data sets averaged over), runs, left_out (networks that were
    filtered out, or data sets whose chains disagree), step (the longest), stiffest, difference (relative), sigma.
    """
    parts = []
    adam = rows["procedure"] == "adam"
    found: dict[Estimator, pd.DataFrame] = {"map": adam_rows(model, rows[adam]), "posterior": sgld_rows(rows[~adam])}
    for estimator, measured in found.items():
        predicted = theory(model, tuple(np.unique(measured["P"]).tolist()), estimator)
        measured = measured.merge(predicted, on=["P", "quantity"])
        where = rows[adam == (estimator == "map")].groupby("P", as_index=False)[["ratio", "threshold"]].first()
        parts.append(measured.merge(where, on="P").assign(estimator=estimator))
    table = pd.concat(parts, ignore_index=True).assign(V=model.V, L=model.L, score=model.score.name)
    away = table["mean"] - table["theory"]
    unknown = (table["theory"] == 0) | (table["error"] == 0)
    return table.assign(difference=(away / table["theory"]).mask(unknown), sigma=(away / table["error"]).mask(unknown))


def theory(model: Model, P: tuple[float, ...], estimator: Estimator) -> pd.DataFrame:
    """Return the lowest branch at each P: P, quantity, theory."""
    rows = theory_rows(model, P, estimator)
    table = rows[rows["branch"] == 0].pivot(index="P", columns="quantity", values="theory")
    if estimator == "posterior" and model.score.name == "linear":
        table = table.assign(**{name: np.sqrt(table[square]) for name, square in ROOTS.items()})
    found = table[list(QUANTITIES[model.score.name, estimator])]
    return found.melt(ignore_index=False, value_name="theory", var_name="quantity").reset_index()


def adam_rows(model: Model, networks: pd.DataFrame) -> pd.DataFrame:
    """Return networks at the lowest minimum, averaged over data sets."""
    names = list(QUANTITIES[model.score.name, "map"])
    draws = draw_rows(networks).groupby("P")[names]
    mean, error, data = (
        table.melt(ignore_index=False, var_name="quantity").set_index("quantity", append=True)["value"]
        for table in (draws.mean(), draws.sem(), draws.count())
    )
    runs = networks.groupby("P")["fate"].agg(runs="size", left_out=lambda fates: int((fates != "kept").sum()))
    table = pd.DataFrame({"mean": mean, "error": error, "data": data}).reset_index()
    return table.merge(runs.reset_index(), on="P")


def sgld_rows(zero: pd.DataFrame) -> pd.DataFrame:
    """Return SGLD at zero step, averaged over the data sets whose chains agree at every step.

    Moments of linear attention, whose sign is a symmetry, become root mean squares.
    """
    names = {square: name for name, square in ROOTS.items()}
    table = over_data(zero.assign(quantity=zero["quantity"].replace(names)))
    squares = table["quantity"].isin(ROOTS)
    root = np.sqrt(table["mean"].clip(lower=0)).where(squares, table["mean"])
    table = table.assign(mean=root, error=table["error"] * (0.5 / root).where(squares, 1.0))
    settings = {"runs": ("data_seed", "nunique"), "step": ("longest_step", "max"), "stiffest": ("stiffest", "max")}
    return table.drop(columns="mcse").merge(zero.groupby("P", as_index=False).agg(**settings), on="P")
