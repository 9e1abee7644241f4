"""Fluctuations of the order parameters before the transitions: growing towards P1, nearly flat up to P* (claim C6).

Susceptibility here is the variance of an order parameter over the posterior in units of its variance without data, from
the draws of a sweep up and down in P (hysteresis.py), well by well; error bars are Monte Carlo errors. Lines: the
inverse Hessian of the theory's reduced action S. Linear attention: second moments of c1 and cG below P1, variances with
the sign folded out above. Its Hessian vanishes at P1, where samples of a finite head cannot diverge: dotted, the second
moments under exp(-S) by quadrature, whatever the shape of S. Softmax attention: aG, each way of the sweep by itself.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from figures.evidence._evidence import loops
from phasekit.drawing.plotting import SYMBOLS, draw_theory, mark_transition, new_figure, save, shade_window, style
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop, posterior_passage, susceptibility
from phasekit.model import Model
from phasekit.samplers.diagnostics import MIXED
from phasekit.theory.action import action_for
from phasekit.theory.action.row_sample import row_sample
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Passage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A sweep stays at each P for a short time: these bounds on R̂ and effective draws are loose.
BOUNDS = {"rhat_max": 1.2, "ess_min": 20.0}
NAMES = {"c1": "$c_1$", "cG": "$c_G$", "aG": "$a_G$"}
COLOURS = {"c1": "C0", "cG": "C1", "aG": "C1"}
#: aG that tells softmax attention's upper well from the lower one.
UPPER = 0.07
#: Quadrature over z, in the prior's standard deviations: far enough for any P up to P1.
_REACH, _NODES = 16.0, 241


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw both panels against P over the transition's."""
    tables = []
    with style():
        figure, panels = new_figure(2, height=5.0)
        for axes, (model, loop) in zip(panels, loops(preset), strict=True):
            place = posterior_passage(model)
            rows = pd.concat([sampled(loop, place.P), theory(loop, place, preset)], ignore_index=True)
            tables.append(rows.assign(score=model.score.name, relative=rows["P"] / place.P))
            _draw(axes, tables[-1])
            mark_transition(axes, 1.0, place.name)
            if place.window is not None:
                shade_window(axes, (place.window[0] / place.P, place.window[1] / place.P))
            axes.set_title(f"{model.score.name} attention, $V$ = {model.V}, $L$ = {model.L}", loc="left")
            axes.set(xlabel=f"$P$ / {SYMBOLS[place.name]}", ylabel="variance / prior variance", yscale="log")
        return save(figure, pd.concat(tables, ignore_index=True), out / "susceptibility")


def prior_variances(model: Model) -> dict[str, float]:
    """Return the variance of each order parameter without data.

    Linear attention: c1 + cG and cG are sums of independent Gaussian logits (docs/theory.md, section 4). Softmax: the
    variance of one row's copy weight over the prior, over L rows.
    """
    L, sigma = model.L, model.sigma_g
    if not model.score.normalised:
        copying = sigma**2 / (L**2 * (L - 1))
        return {"c1": sigma**2 / L**2 + copying, "cG": copying}
    row = row_sample(model.score, L, float(model.V), model.sigma_w, sigma).cumulants(0.0, 0.0)
    return {"aG": row.gg / (L * (1 - 1 / L) ** 2)}


def sampled(loop: Loop, transition: float) -> pd.DataFrame:
    """Return one row per P, quantity and way; chains of one way that don't agree are left out."""
    model, prior = loop.model, prior_variances(loop.model)
    # Linear attention: all chains are of one law. Softmax: each way by itself, one may drift while the other stays.
    groups = [("up",), ("down",)] if model.score.normalised else [("up", "down")]
    rows: list[dict[str, Any]] = []
    for P, ways in product(loop.data.P.to_numpy(), groups):
        found = susceptibility(loop.samples(P, ways), **BOUNDS).isel(dataset=0)
        folded = not model.score.normalised and transition < P
        for name, scale in prior.items():
            here = found.sel(quantity=name).isel(well=0)
            value, error = (here.folded, here.folded_error) if folded else (here.variance, here.error)
            if str(found.verdict.values) != MIXED:
                value, error = np.nan, np.nan
            row = {"P": P, "quantity": name, "way": "+".join(ways), "mean": float(here["mean"])}
            numbers = {"value": float(value) / scale, "error": float(error) / scale}
            rows.append({**row, **numbers, "kind": "sampled", "verdict": str(found.verdict.values)})
    return pd.DataFrame(rows).dropna(subset="value")


def theory(loop: Loop, place: Passage, preset: Preset) -> pd.DataFrame:
    """Return one row per P, quantity and branch of the theory, lowest action first."""
    model, P, transition = loop.model, loop.data.P.to_numpy(), place.P
    points = preset.slow_points * (1 if model.score.normalised else 6)  # linear attention is fast
    near = transition * (1 + np.array([-0.1, -0.03, -0.01, 0.01, 0.03, 0.1]))
    if place.window is not None:
        low, high = place.window
        near = np.array([1.003 * low, transition, 0.97 * high, 0.997 * high])
    grid = np.unique(np.concatenate([np.geomspace(P[0], P[-1], points), near]))
    prior = prior_variances(model)
    rows: list[dict[str, Any]] = []
    for each in grid:
        found = find_minima(model.at(P=float(each)), "posterior")
        for branch in np.flatnonzero(found.converged):
            copying = float(found.order_parameters["aG" if model.score.normalised else "cG"][branch])
            for name, scale in prior.items():
                variance = found.variance(name)
                assert variance is not None
                value = float(variance[branch]) / scale
                rows.append({"P": each, "quantity": name, "branch": branch, "copying": copying, "value": value})
    table = pd.DataFrame(rows).assign(kind="theory")
    if model.score.normalised:
        return table
    finite = [
        {"P": each, "quantity": name, "value": value / prior[name], "kind": "integrated"}
        for each in grid[grid <= transition]
        for name, value in integrated(model, float(each)).items()
    ]
    return pd.concat([table, pd.DataFrame(finite)], ignore_index=True)


def integrated(model: Model, P: float) -> dict[str, float]:
    """Return ⟨c1²⟩ and ⟨cG²⟩ under exp(-S), with the reduced action S of linear attention: finite at P1."""
    p, action = model.at(P=P).parameters(), action_for(model, "posterior")
    z = np.meshgrid(*[np.linspace(-_REACH, _REACH, _NODES)] * 2, indexing="ij")
    S = action.jet((z[0], z[1]), p).value
    weight = np.exp(S.min() - S)
    moments = [float((weight * x**2).sum() / weight.sum()) for x in action.order((z[0], z[1]), p)]
    return dict(zip(action.order_parameters, moments, strict=True))


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    lines, points = rows[rows["kind"] == "theory"], rows[rows["kind"] == "sampled"]
    for name, part in lines.groupby("quantity"):
        colour = COLOURS[str(name)]
        if name == "aG":
            for copies, branch in part.groupby(part["copying"] > UPPER):
                colour = "C1" if copies else "C0"
                draw_theory(axes, branch["relative"], branch["value"], branch="metastable", color=colour)
                best = branch[branch["branch"] == 0]
                draw_theory(axes, best["relative"], best["value"], color=colour)
        else:
            best = part[part["branch"] == 0]
            draw_theory(axes, best["relative"], best["value"], color=colour)
    for name, part in rows[rows["kind"] == "integrated"].groupby("quantity"):
        draw_theory(axes, part["relative"], part["value"], branch="saddle", color=COLOURS[str(name)])
    for name, part in points.groupby("quantity"):
        upper = (part["mean"] > UPPER) & (name == "aG")
        for is_upper, shown in part.groupby(upper):
            colour = COLOURS[str(name)] if name != "aG" else "C1" if is_upper else "C0"
            axes.errorbar(
                shown["relative"], shown["value"], yerr=shown["error"], linestyle="none", marker="o", color=colour,
                markerfacecolor="white", markersize=3.5, elinewidth=0.8, zorder=3,
            )  # fmt: skip
    labels = {"C0": "$c_1$", "C1": "$c_G$"} if "c1" in set(rows["quantity"]) else {
        "C0": "$a_G$, lower well", "C1": "$a_G$, upper well"
    }  # fmt: skip
    for colour, text in labels.items():
        axes.plot([], [], color=colour, label=text)
    if "c1" in set(rows["quantity"]):
        axes.plot([], [], color="0.3", linestyle=":", label="quadrature of $e^{-S}$")
    axes.legend(loc="upper left" if "c1" not in set(rows["quantity"]) else "best")
