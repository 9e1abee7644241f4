"""Factorised heads, G = W_Qᵀ W_K: Adam's jumps under the nuclear norm, and the posterior's way to Gaussian G.

V = 8, L = 16. Upper row: order parameters of the lowest minimum against P at d = 16, theory and networks; faint: the
same head with a Gaussian prior on G itself. Lower left: where the jumps come for other key dimensions. Lower right: how
far posterior averages at key dimension d are from those with Gaussian G, beside the first order in 1/d. The numbers are
also written as tables (factorised_heads.md).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from figures._sweeps import draw_rows, kept, networks, results
from figures._tables import with_error, write_page
from figures.factorised._factorised import Draws, free_minimum, measured_jump, pattern_of, rate
from phasekit.drawing.plotting import LABELS, PAGE, draw_filtered, draw_networks, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.drawing.transition import minima_rows
from phasekit.model import Model
from phasekit.theory.action import SoftmaxNuclear
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions
from phasekit.theory.transitions.jumps import jumps_of
from phasekit.theory.transitions.table import parameters_without_P

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR = Model(V=8, L=16, score="linear", key_dim=16)
SOFTMAX = LINEAR.at(score="softmax")
#: Where networks of rank below L − 1 jump, within 10 %: no theory says it.
GUESSED = {4: 272.0, 8: 318.0}
#: The order parameter of the posterior; P of both are well above the transition of Gaussian G.
POSTERIOR = {"softmax": "aG", "linear": "cG^2"}
#: Where the lines of the third panel are computed.
LINE_DIMENSIONS = (4, 5, 6, 8, 11, 13, 15, 16, 32, 64, 128, 256)
#: Random starts of free minimisation beside the patterns.
FREE_STARTS = 2
COLOURS = {"P1": "C0", "P2": "C1", "P_star": "C2", "linear": "C1", "softmax": "C2"}
SYMBOLS = {"P1": "$P_1$ (pooling)", "P2": "$P_2$ (copying)", "P_star": "$P^*$ (softmax)"}


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the four panels and write the table."""
    trained = networks_with_patterns(preset)
    jumps, laws = jump_rows(trained), posterior_rows(preset)
    rates = pd.DataFrame([{"score": score, **rates_of(rows)} for score, rows in laws.groupby("score", sort=False)])
    judged = free_rows()
    parts = [jumps.assign(kind="jump"), laws.assign(kind="posterior"), judged.assign(kind="free minimum")]
    with style():
        figure, grid = new_figure(2, 2, width=PAGE, height=5.6)
        panels = grid.ravel()
        for axes, model in zip(panels[:2], (LINEAR, SOFTMAX), strict=True):
            parts += _draw_order(axes, model, trained[model])
        panels[1].sharex(panels[0])
        _draw_jumps(panels[2], jumps)
        _draw_posterior(panels[3], laws)
        files = save(figure, pd.concat(parts, ignore_index=True), out / "factorised_heads")
    sections = [
        ("Jumps of factorised heads: theory and networks (V = 8, L = 16)", jump_text(jumps)),
        ("Lowest energy on infinite data: theory and free minimisation", judged.map(_digits)),
        ("Posterior at key dimension d, HMC (d = inf: Gaussian G)", posterior_text(laws)),
        ("Rate of approach: fitted slope in 1/d, and the first order predicted from Gaussian G", rates_text(rates)),
    ]
    notes = [
        "jumps: P of equal energy, ± standard error over data sets, which share a shift against infinite data",
        "with d < L, a data set's noise chooses among the subspaces that theory holds for equal, and lowers the energy",
        "softmax heads with d < L − 1 have no room for the pattern that theory assumes: its P* is a lower bound",
        "nu: exponent of |O(d) − O(∞)| ∝ d^(−nu) between d = 16 and 64",
    ]
    return [*files, write_page(out / "factorised_heads.md", sections, notes)]


def _digits(value: object) -> object:
    return f"{value:.7g}" if isinstance(value, float) else value


def networks_with_patterns(preset: Preset) -> dict[Model, pd.DataFrame]:
    """Return the trained networks of each model, with the pattern that each has learned."""
    matrices = kept(preset, "factorised_heads", "A")
    found = {}
    for model, rows in networks(preset, "factorised_heads").items():
        rows = rows[rows["procedure"] == "adam"]
        if len(rows):
            A = np.stack([matrices[row.task][row.member] for row in rows.itertuples()])
            found[model] = rows.assign(pattern=pattern_of(A, model.score.normalised))
    return found


def jump_rows(trained: dict[Model, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for each jump: theory (NaN below its validity), lower bound, networks."""
    rows: list[dict[str, Any]] = []
    for model in sorted(trained, key=lambda model: (model.score.name, model.key_dim)):
        if model.score.name == "softmax":
            bound = softmax_bound(model)
            valid = (model.key_dim or 0) >= model.L - 1
            expected = bound if valid else GUESSED[model.key_dim or 0]
            found = measured_jump(trained[model], expected, "nothing", "copying")
            rows.append(_jump_row(model, "P_star", bound if valid else np.nan, bound, found))
            continue
        values = _thresholds(model)
        for name, before, after in (("P1", "nothing", "pooling"), ("P2", "pooling", "copying")):
            found = measured_jump(trained[model], values[name], before, after)
            rows.append(_jump_row(model, name, values[name], values[name], found))
    return pd.DataFrame(rows)


def _jump_row(model: Model, name: str, theory: float, bound: float, found: Any) -> dict[str, Any]:
    labels = {"score": model.score.name, "key_dim": model.key_dim, "threshold": name}
    return {**labels, "theory": theory, "bound": bound, "networks": found.value, "networks_error": found.error}


def softmax_bound(model: Model) -> float:
    """Return P* of the full-rank copying pattern; a lower bound on P* where the key dimension has no room for it."""
    assert model.key_dim is not None
    (jump,) = jumps_of(SoftmaxNuclear(model.key_dim), parameters_without_P(model).ravel())
    return jump.P


def free_rows() -> pd.DataFrame:
    """Return theory's lowest energy beside that of free minimisation, below and above each jump."""
    rows = []
    for model in (LINEAR, SOFTMAX, LINEAR.at(key_dim=6), LINEAR.at(key_dim=64)):
        for P in (x * factor for x in _thresholds(model).values() for factor in (0.95, 1.05)):
            at = model.at(P=round(P, 1))
            theory, free = float(find_minima(at).action[0]), free_minimum(at, starts=FREE_STARTS)
            rows.append({"score": at.score.name, "key_dim": at.key_dim, "P": at.P, "S": theory, "S_free": free})
    return pd.DataFrame(rows)


def posterior_rows(preset: Preset) -> pd.DataFrame:
    """Return mean, error and predicted slope of each posterior average, a row for each key dimension."""
    rows = []
    for task, result in results(preset, "factorised_heads"):
        if "draws_H" not in result.arrays:
            continue
        model, d = task.head, task.head.key_dim
        found = Draws({name.removeprefix("draws_"): x for name, x in result.arrays.items()})
        for name in (POSTERIOR[model.score.name], "q", "loss"):
            mean, slope = found.mean(name), found.slope(name)
            row = {"score": model.score.name, "P": int(model.P or 0), "quantity": name}
            row |= {"d": np.inf if d is None else float(d), "mean": mean.value, "error": mean.error}
            row |= {"acceptance": float(result.values["acceptance"][0])}
            row |= {"slope": slope.value, "slope_error": slope.error} if d is None else {}
            rows.append(row | {"ends_differ": found.disagreement(name)})
    return pd.DataFrame(rows).sort_values(["score", "quantity", "d"], ignore_index=True)


def rates_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the rate of one score's order parameter, from d = 16 on, and the slope predicted from Gaussian G."""
    quantity = POSTERIOR[rows["score"].iloc[0]]
    rows = rows[(rows["quantity"] == quantity) & (rows["d"] >= 16)]
    limit = rows[np.isinf(rows["d"])].iloc[0]
    return {"quantity": quantity, "slope": limit["slope"], "slope_error": limit["slope_error"]} | rate(rows)


def jump_text(jumps: pd.DataFrame) -> pd.DataFrame:
    """Return the jumps as text."""
    off = jumps["networks"] - jumps["theory"]
    return pd.DataFrame(
        {
            "": [SYMBOLS[name].replace("$", "") for name in jumps["threshold"]],
            "d": jumps["key_dim"],
            "theory": [
                f"{t:.1f}" if t == t else f"above {b:.1f}" for t, b in zip(jumps["theory"], jumps["bound"], strict=True)
            ],
            "networks": [with_error(v, e) for v, e in zip(jumps["networks"], jumps["networks_error"], strict=True)],
            "networks / theory": (jumps["networks"] / jumps["bound"]).map("{:.3f}".format),
            "standard errors off": (off / jumps["networks_error"]).map("{:.0f}".format),
        }
    )


def posterior_text(laws: pd.DataFrame) -> pd.DataFrame:
    """Return the posterior averages as text, one column for each d."""
    rows = []
    for (score, P, name), part in laws.groupby(["score", "P", "quantity"], sort=False):
        cells = zip(part["d"], part["mean"], part["error"], strict=True)
        means = {f"d = {d:.0f}": with_error(mean, error) for d, mean, error in cells}
        rows.append({"score": score, "P": P, "": name, **means})
    return pd.DataFrame(rows)


def rates_text(rates: pd.DataFrame) -> pd.DataFrame:
    """Return fitted and predicted slopes as text."""
    return pd.DataFrame(
        {
            "score": rates["score"],
            "": rates["quantity"],
            "slope, fitted": [with_error(v, e) for v, e in zip(rates["a"], rates["a_error"], strict=True)],
            "slope, predicted": [with_error(v, e) for v, e in zip(rates["slope"], rates["slope_error"], strict=True)],
            "chi²/dof": [f"{c:.1f}/{n}" for c, n in zip(rates["chi2"], rates["dof"], strict=True)],
            "nu": [with_error(v, e) for v, e in zip(rates["nu"], rates["nu_error"], strict=True)],
        }
    )


@cache
def _thresholds(model: Model) -> dict[str, float]:
    return {passage.name: passage.P for passage in find_transitions(model).passages}


def _draw_order(axes: Axes, model: Model, networks: pd.DataFrame) -> list[pd.DataFrame]:
    """Draw order parameters against P; return the numbers."""
    names = ("c1", "cG") if model.score.name == "linear" else ("aG",)
    rows = networks[networks.groupby("P")["start"].transform("nunique") == networks["start"].nunique()].copy()
    P_shown = np.unique(rows["P"])
    P = np.geomspace(0.6 * P_shown[0], 1.3 * P_shown[-1], 400)
    thresholds = _thresholds(model)
    gaussian = minima_rows(model.at(key_dim=None), P).query("branch == 'global'")
    theory = minima_rows(model, np.unique([*P, *(x * (1 + e) for x in thresholds.values() for e in (-1e-9, 1e-9))]))
    if model.score.name == "linear":  # W = G = 0 is a minimum whatever the data, found by a network or not
        rows.loc[rows["U"] > rows["P"] / (2 * model.kappa) * (1 + 1e-9), "fate"] = "higher energy"
    kept, other = draw_rows(rows), rows[rows["fate"] == "higher energy"]
    lowest = theory.query("branch == 'global'")
    for name, colour in zip(names, ("C0", "C1") if len(names) == 2 else ("C2",), strict=True):
        axes.plot(gaussian["P"], gaussian[name], color=colour, linewidth=0.8, alpha=0.45)
        draw_theory(axes, lowest["P"], lowest[name], color=colour, label=LABELS[name])
        draw_filtered(axes, other["P"], other[name])
        draw_networks(axes, kept["P"], kept[name], color=colour)
    for symbol, at in thresholds.items():
        axes.axvline(at, ymax=0.78, color="0.7", linewidth=0.6, zorder=0)
        axes.annotate(  # below the legend
            SYMBOLS[symbol].split(" ")[0], (at, 0.78), (-2, 0), ("data", "axes fraction"), "offset points",
            color="0.25", ha="right", va="top",
        )  # fmt: skip
    axes.plot([], [], color="0.5", linewidth=0.8, alpha=0.6, label="Gaussian $G$")
    if len(names) == 2:
        draw_networks(axes, [], [], color="0.3", label="Adam, lowest")
        draw_filtered(axes, [], [], label="Adam, higher energy")
    axes.set(xscale="log", xlabel=LABELS["P"], ylabel="order parameters" if len(names) == 2 else LABELS["aG"])
    axes.set_xticks([100, 200, 400, 800])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(top=1.5 * max(other[name].max() for name in names) if len(names) == 2 else 0.68)
    axes.set_title(f"{model.score.name} attention, map, $d$ = {model.key_dim}", loc="left")
    axes.legend(loc="upper left", ncols=2, columnspacing=1.0)
    kind = {"score": model.score.name, "key_dim": model.key_dim}
    return [
        theory.assign(kind="theory", **kind),
        gaussian.assign(kind="theory, Gaussian G", score=model.score.name),
        rows.assign(kind="network", **kind),
    ]


def _draw_jumps(axes: Axes, jumps: pd.DataFrame) -> None:
    dimensions = np.array(LINE_DIMENSIONS)
    for name, rows in jumps.groupby("threshold", sort=False):
        colour, score = COLOURS[str(name)], rows["score"].iloc[0]
        models = [LINEAR.at(score=score, key_dim=int(d)) for d in dimensions]
        if score == "softmax":
            line = np.array([softmax_bound(model) for model in models])
            room, none = dimensions >= LINEAR.L - 1, dimensions <= LINEAR.L - 1
            axes.plot(dimensions[none], line[none], color=colour, linestyle=":", label="lower bound, $d < L - 1$")
            axes.plot(dimensions[room], line[room], color=colour, label=SYMBOLS[str(name)])
        else:
            line = np.array([_thresholds(model)[str(name)] for model in models])
            axes.plot(dimensions, line, color=colour, label=SYMBOLS[str(name)])
        limit = _thresholds(models[0].at(key_dim=None))[str(name)]
        axes.axhline(limit, color=colour, linewidth=0.8, alpha=0.45)
        draw_networks(axes, rows["key_dim"], rows["networks"], error=rows["networks_error"], color=colour)
    axes.plot([], [], color="0.5", linewidth=0.8, alpha=0.6, label="Gaussian $G$")
    axes.set(xscale="log", yscale="log", xlabel="key dimension $d$", ylabel="$P$ of the jump", ylim=(105, 2300))
    axes.set_xticks([4, 8, 16, 64, 256])
    axes.set_yticks([125, 250, 500, 1000, 2000])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0f}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_title("jumps of Adam's minimum", loc="left")
    axes.legend(loc="upper left", ncols=2, columnspacing=1.0)


def _draw_posterior(axes: Axes, laws: pd.DataFrame) -> None:
    names = {"aG": LABELS["aG"], "cG^2": "$c_G^2$"}
    for score, quantity in POSTERIOR.items():
        rows = laws[(laws["score"] == score) & (laws["quantity"] == quantity)]
        P = rows["P"].iloc[0]
        limit, finite = rows[np.isinf(rows["d"])].iloc[0], rows[np.isfinite(rows["d"])]
        gap = 1 - finite["mean"] / limit["mean"]
        error = np.hypot(finite["error"], limit["error"] * finite["mean"] / limit["mean"]) / limit["mean"]
        colour, d = COLOURS[score], np.array([16.0, 400.0])
        label = f"{score}, $P$ = {P}: {names[quantity]}"
        draw_networks(axes, finite["d"], gap, error=error, color=colour, label=label)
        first, spread = -limit["slope"] / limit["mean"], limit["slope_error"] / limit["mean"]
        axes.plot(d, first / d, color=colour)
        axes.fill_between(d, (first - spread) / d, (first + spread) / d, color=colour, alpha=0.2, linewidth=0)
    axes.plot([], [], color="0.4", label="first order in $1/d$, from Gaussian $G$")
    axes.set(xscale="log", yscale="log", xlabel="key dimension $d$", ylabel="relative distance", ylim=(3e-4, 2))
    axes.set_xticks([4, 8, 16, 64, 256])
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title("posterior averages (HMC): distance to Gaussian $G$", loc="left")
    axes.legend(loc="lower left")
