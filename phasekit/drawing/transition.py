"""A model's way through its transitions: every branch continued in P, with trained networks on it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter
from numpy.typing import ArrayLike

from phasekit.drawing.plotting import (
    LABELS,
    Branch,
    draw_filtered,
    draw_networks,
    draw_theory,
    mark_passages,
    new_figure,
    style,
)
from phasekit.errors import InputError
from phasekit.fates import sort_networks
from phasekit.model import Estimator, Model, given_model, in_words
from phasekit.theory.action import action_for
from phasekit.theory.action.base import Curved
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Transitions, find_transitions, stationary_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from phasekit.heads import Ensemble

#: How far the picture goes on both sides of what happens, as a factor of P.
_AROUND = 6.0
_POINTS = 300
_PANELS = (1.7, 1.2, 0.9)
_NO_PATTERN = 1e-8
_WIDTH = 60  # characters of a line of the title


def plot_transition(
    model: Model,
    networks: Ensemble | pd.DataFrame | None = None,
    *,
    estimator: Estimator = "map",
    between: tuple[float, float] | None = None,
) -> tuple[Figure, pd.DataFrame]:
    """Draw order parameters, loss and coverage against P: theory's branches, and trained networks.

    Parameters
    ----------
    model : Model
        Its P plays no role.
    networks : Ensemble or DataFrame, optional
        Trained heads of this model at several P; a table has columns ``P``, both order parameters, ``loss``,
        ``coverage``, ``data_seed`` and ``fate`` ("kept" ones are filled in, others are drawn faintly).
    estimator : "map" or "posterior"
    between : pair of float, optional
        The P to draw; without it, from a sixth of the first threshold to six times the last.

    Returns
    -------
    figure : matplotlib Figure
        Not known to pyplot: ``figure.savefig("transition.png")``; a notebook shows it after ``%matplotlib inline``.
    table : DataFrame
        The numbers behind it; column ``kind`` is "theory" or "network".

    Raises
    ------
    InputError
        If there is no theory for the model, or nothing happens at any P and ``between`` isn't given.
    ArithmeticError
        If the search for transitions failed.
    """
    model = given_model(model.at(P=None), "a grid has no single course")
    found = find_transitions(model, estimator)
    rows = None if networks is None else _rows(networks)
    ends = between or _range(found, rows)
    theory = branches_of(found, ends).assign(kind="theory")
    with style():
        figure, panels = new_figure(3, height=5.4, sharex=True, height_ratios=_PANELS)
        names = action_for(model, estimator).order_parameters
        for axes, shown in zip(panels, (names, ("loss",), ("coverage",)), strict=True):
            for k, name in enumerate(shown):
                draw_course(axes, theory, rows, name, f"C{k + (0 if axes is panels[0] else 2)}")
            axes.set_ylabel(", ".join(LABELS[name] for name in shown))
            mark_passages(axes, found, symbol=axes is panels[0])
        seen = theory["P"] if rows is None else pd.concat([theory["P"], rows["P"]])
        panels[-1].set(xlabel=LABELS["P"], xscale="log", xlim=(seen.min(), seen.max()))
        panels[-1].xaxis.set_minor_formatter(NullFormatter())
        words = in_words(model, estimator, varied=["P"])
        panels[0].set_title("\n".join(textwrap.wrap(words, _WIDTH)), loc="left", fontsize=7)
        legend_of_course(figure, panels[0], theory, rows)
    parts = [theory] if rows is None else [theory, rows.assign(kind="network")]
    return figure, pd.concat(parts, ignore_index=True)


def branches_of(found: Transitions, between: tuple[float, float]) -> pd.DataFrame:
    """Return every branch against P: minima and saddle points where they form one curve, else minima alone."""
    if isinstance(action_for(found.model, found.estimator), Curved):
        return stationary_curve(found, between)
    P = np.unique([*np.geomspace(*between, _POINTS), *(x.P for x in found.passages if between[0] < x.P < between[1])])
    return minima_rows(found.model, P, found.estimator)


def minima_rows(model: Model, P: ArrayLike, estimator: Estimator = "map") -> pd.DataFrame:
    """Return all minima against P, one row each: branch "global" (lowest action) or "metastable"."""
    minima = find_minima(model.grid(P=P), estimator)
    columns = {
        "P": np.broadcast_to(np.asarray(P, dtype=float)[:, None], minima.action.shape),
        "branch": np.broadcast_to(np.arange(minima.action.shape[1]), minima.action.shape),
        "action": minima.action,
        **minima.order_parameters,
        "loss": minima.loss,
        "coverage": minima.coverage,
        "copying_share": np.where(minima.averages["q"] > 0, minima.copying_share, np.nan),
    }
    rows = pd.DataFrame({name: values.ravel() for name, values in columns.items()})[minima.converged.ravel()]
    rows["branch"] = np.where(rows["branch"] == 0, "global", "metastable")
    return rows.sort_values(["branch", "P"], ignore_index=True)


def pieces(curve: pd.DataFrame) -> list[tuple[Branch, pd.DataFrame]]:
    """Split branches into lines: each one's branch and its rows, joined to the first row of the next piece."""
    if "piece" not in curve:
        return [(branch, curve[curve["branch"] == branch]) for branch in ("global", "metastable")]
    numbers = sorted(curve["piece"].unique())
    lines = []
    for number in numbers:
        own = curve[curve["piece"] == number]
        branch: Branch = own["branch"].iloc[0]
        lines.append((branch, pd.concat([own, curve[curve["piece"] == number + 1].head(1)])))
    return lines


def _range(found: Transitions, rows: pd.DataFrame | None) -> tuple[float, float]:
    places = [passage.P for passage in found.passages] + ([] if rows is None else [rows["P"].min(), rows["P"].max()])
    if not places:
        raise InputError("between", None, "must be given: this model has no passage to draw the surroundings of")
    around = _AROUND if rows is None else 1.0
    return float(min(places) / around), float(max(places) * around)


def _rows(networks: Ensemble | pd.DataFrame) -> pd.DataFrame:
    """Return networks as a table with a fate for each."""
    rows = networks if isinstance(networks, pd.DataFrame) else pd.DataFrame(networks.rows())
    if "q" in rows:  # an attention matrix that is zero has no pattern, and its coverage is 0/0
        rows = rows.assign(coverage=rows["coverage"].where(rows["q"] > _NO_PATTERN))
    if "fate" in rows:
        return rows
    fates = rows.groupby(["P", "data_seed"], sort=False)[["U", "converged", "failed"]].apply(
        lambda part: pd.Series(sort_networks(*(part[name].to_numpy() for name in part))[0], index=part.index)
    )
    return rows.assign(fate=fates.droplevel([0, 1]).reindex(rows.index))


def draw_course(axes: Axes, theory: pd.DataFrame, rows: pd.DataFrame | None, name: str, colour: str) -> None:
    """Draw one quantity against P: theory's branches, and the networks kept; those of higher energy faintly."""
    for branch, line in pieces(theory):
        draw_theory(axes, line["P"], line[name], branch=branch, color=colour)
    if rows is not None:
        kept = rows[rows["fate"] == "kept"].groupby(["P", "data_seed"], as_index=False).mean(numeric_only=True)
        others = rows[rows["fate"] == "higher energy"]
        draw_filtered(axes, others["P"], others[name])
        draw_networks(axes, kept["P"], kept[name], color=colour)


def legend_of_course(
    figure: Figure, axes: Axes, theory: pd.DataFrame, rows: pd.DataFrame | None, columns: int = 2
) -> None:
    """Say below a figure what its lines and circles are, and count the networks that were filtered out."""
    words = {"global": "global minimum", "metastable": "metastable minimum", "saddle": "saddle point"}
    for branch, label in words.items():
        if (theory["branch"] == branch).any():
            draw_theory(axes, [], [], branch=branch, color="0.3", label=label)  # type: ignore[arg-type]
    if rows is not None:
        counts = rows["fate"].value_counts()
        draw_networks(axes, [], [], color="0.3", label=f"networks, {counts.get('kept', 0)} kept of {len(rows)}")
        for fate in counts.index.drop("kept", errors="ignore"):
            draw_filtered(axes, [], [], label=f"{counts[fate]} {fate}")
    figure.legend(loc="outside lower center", ncols=columns)
