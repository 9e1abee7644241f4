"""Fluctuations of the order parameters before the transitions, towards P1 and up to P* (claim C6).

Susceptibility here is the variance of an order parameter over the posterior in units of its variance without data, from
the draws of a sweep up and down in P (hysteresis.py), well by well; error bars are Monte Carlo errors. Lines: the
inverse Hessian of the theory's reduced action S. Linear attention: second moments of c1 and cG below P1, variances with
the sign folded out above. Its Hessian vanishes at P1, where samples of a finite head cannot diverge: dotted, the second
moments under exp(-S) by quadrature, whatever the shape of S. Softmax attention: aG, each way of the sweep by itself;
its lines diverge where a well ends, at the spinodals (grey window). Both attentions at L = 64; linear at L = 16 too.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from figures.evidence._evidence import loops
from figures.posterior._posteriors import theory_lines
from phasekit.drawing.plotting import (
    PAGE,
    SYMBOLS,
    Branch,
    draw_networks,
    draw_theory,
    mark_passages,
    new_figure,
    save,
    style,
)
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop, susceptibility
from phasekit.model import Model
from phasekit.samplers.diagnostics import MIXED
from phasekit.theory.action import action_for
from phasekit.theory.action.row_averages import rows_of
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import Transitions, find_transitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A sweep stays at each P for a short time: these bounds on R̂ and effective draws are loose.
BOUNDS = {"rhat_max": 1.2, "ess_min": 20.0}
COLOURS = {"c1": "C0", "cG": "C1", "aG, lower well": "C2", "aG, upper well": "C3"}
#: aG that tells softmax attention's upper well from the lower one.
UPPER = 0.07
#: Quadrature over z, in the prior's standard deviations: far enough for any P up to P1.
_REACH, _NODES = 16.0, 241


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw a panel for each sweep, against P over the transition's."""
    tables, models = [], list(loops(preset))
    with style():
        figure, panels = new_figure(1, len(models), width=PAGE, height=2.9)
        for axes, (model, loop) in zip(panels, models, strict=True):
            found = find_transitions(model, "posterior")
            place = found.passages[0]
            rows = pd.concat([sampled(loop, place.P), theory(found, loop, preset)], ignore_index=True)
            tables.append(rows.assign(score=model.score.name, L=model.L, relative=rows["P"] / place.P))
            _draw(axes, tables[-1])
            axes.set_title(f"{model.score.name} posterior, $L$ = {model.L}", loc="left")
            axes.set_xlabel(f"$P$ / {SYMBOLS[place.name]}")
            mark_passages(axes, found, unit=place.P)
        panels[0].set_ylabel("variance / prior variance")
        for name, colour in COLOURS.items():
            draw_networks(panels[0], [], [], color=colour, markersize=3.5, label=_written(name))
        panels[0].plot([], [], "x", color="0.3", markersize=4, label="chains disagree")
        panels[0].plot([], [], color="0.3", linestyle=":", label="quadrature of $e^{-S}$")
        figure.legend(loc="outside lower center", ncols=6, handletextpad=0.3, columnspacing=1.2)
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
    row = rows_of(model.score, L, sigma).prior
    return {"aG": row.gg / (L * (1 - 1 / L) ** 2)}


def sampled(loop: Loop, transition: float) -> pd.DataFrame:
    """Return one row per P, quantity and way; no value where chains of one way don't agree."""
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
            well = {"aG": "aG, upper well" if float(here["mean"]) > UPPER else "aG, lower well"}.get(name, name)
            row = {"P": P, "quantity": well, "way": "+".join(ways)}
            numbers = {"value": float(value) / scale, "error": float(error) / scale}
            rows.append({**row, **numbers, "kind": "sampled", "verdict": str(found.verdict.values)})
    return pd.DataFrame(rows)


def theory(found: Transitions, loop: Loop, preset: Preset) -> pd.DataFrame:
    """Return the lines of the theory: P, quantity, value, and kind: "theory", or "integrated" below P1."""
    model, prior, ends = found.model, prior_variances(found.model), loop.data.P.to_numpy()[[0, -1]]
    if model.score.normalised:
        rows = theory_lines(found, ends, preset).query("quantity == 'variance' and branch != 'saddle'")
        well = np.where(rows["piece"] > rows["piece"].median(), "aG, upper well", "aG, lower well")
        return rows.assign(quantity=well, value=rows["theory"] / prior["aG"], kind="theory").drop(columns="theory")
    P1 = found.passages[0].P
    near = P1 * (1 + np.array([-1, 1])[:, None] * np.geomspace(1e-3, 0.3, 24)).ravel()
    grid = np.unique(np.concatenate([np.geomspace(ends[0], ends[1], 3 * preset.slow_points), near]))
    covariance = find_minima(model.grid(P=grid), "posterior").covariance
    assert covariance is not None
    lines = dict(zip(prior, (covariance.first[:, 0], covariance.second[:, 0]), strict=True))
    below = grid[grid <= P1]
    moments = pd.DataFrame([integrated(model, float(each)) for each in below])
    parts = [
        pd.DataFrame({"P": P, "quantity": name, "value": values / scale, "kind": kind, "branch": "global", "piece": 1})
        for name, scale in prior.items()
        for P, values, kind in ((grid, lines[name], "theory"), (below, moments[name].to_numpy(), "integrated"))
    ]
    return pd.concat(parts, ignore_index=True)


def integrated(model: Model, P: float) -> dict[str, float]:
    """Return ⟨c1²⟩ and ⟨cG²⟩ under exp(-S), with the reduced action S of linear attention: finite at P1."""
    p, action = model.at(P=P).parameters(), action_for(model, "posterior")
    z = np.meshgrid(*[np.linspace(-_REACH, _REACH, _NODES)] * 2, indexing="ij")
    S = action.jet((z[0], z[1]), p).value
    weight = np.exp(S.min() - S)
    moments = [float((weight * x**2).sum() / weight.sum()) for x in action.order((z[0], z[1]), p)]
    return dict(zip(action.order_parameters, moments, strict=True))


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw lines and points; lines that diverge leave the picture. Crosses: where chains disagree."""
    points = rows[rows["kind"] == "sampled"]
    axes.set(yscale="log", ylim=(0.6 * points["value"].min(), 2 * points["value"].max()))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    for name, part in rows.groupby("quantity"):
        look: dict[str, Any] = {"color": COLOURS[str(name)]}
        for kind, line in part[part["kind"] != "sampled"].groupby("kind"):
            for (branch, _), piece in line.sort_values("P").groupby(["branch", "piece"]):
                shown: Branch = "saddle" if kind == "integrated" else branch  # dotted
                draw_theory(axes, piece["relative"], piece["value"], branch=shown, **look)
        here = points[points["quantity"] == name]
        draw_networks(axes, here["relative"], here["value"], error=here["error"], markersize=3.5, **look)
        lost = here[here["value"].isna()]
        axes.plot(lost["relative"], [0.03] * len(lost), "x", markersize=4, transform=axes.get_xaxis_transform(), **look)


def _written(name: str) -> str:
    return name.replace("aG", "$a_G$").replace("c1", "$c_1$").replace("cG", "$c_G$")
