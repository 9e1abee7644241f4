"""Where the jump ends: critical points of SSA in n and of softmax in T and V, mean-field exponents, and networks.

Upper left: n_c(L), below which SSA copies smoothly; open squares: the posterior. Upper right: the (n, P) plane at
V = 8, L = 64, with networks that found two minima from the two ends (full) or one (open). Lower left: the shortest
context at which softmax at temperature T jumps. Lower right: how the jump closes along the line, and how aG moves
across it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from figures._sweeps import networks
from figures.scores._scores import CROSSOVERS, JUMPS, NARROW, gaps
from phasekit.drawing.plotting import LABELS, PAGE, SYMBOLS, draw_theory, new_figure, save, style
from phasekit.drawing.presets import Preset
from phasekit.model import Model
from phasekit.scores import SSA
from phasekit.theory.transitions import Family, critical_endpoint, critical_exponents, transition_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

#: Contexts, and where n_c is looked for.
CONTEXTS, BETWEEN, BETWEEN_TIED = (16, 4096), (1.001, 8.0), (1.001, 100.0)
PLANE = Model(V=8, L=64, score=SSA(n=2, b=1))
#: Under the posterior an endpoint takes a minute or more: contexts (one of them unless the preset is full), and where.
POSTERIOR_CONTEXTS, POSTERIOR_BETWEEN = (16, 32, 64), (1.2, 6.0)
POSTERIOR = "$V$ = 8, $b$ = 1, posterior"
TEMPERATURES, SHARPNESS = (0.2, 5.0), (1.05, 4.5)


def main(out: Path, preset: Preset) -> list[Path]:
    """Draw the four panels."""
    points = max(2, preset.points // 4)
    with style():
        figure, ((upper_left, upper_right), (lower_left, lower_right)) = new_figure(2, 2, width=PAGE, height=5.6)
        tables = [
            _sharpness(upper_left, points, preset),
            _plane(upper_right, points, preset),
            _temperature(lower_left, points),
            _exponents(lower_right),
        ]
        return save(figure, pd.concat(tables, ignore_index=True), out / "score_endpoints")


def _sharpness(axes: Axes, points: int, preset: Preset) -> pd.DataFrame:
    """Draw n_c(L)."""
    L = np.unique(np.geomspace(*CONTEXTS, points).round())
    lines = {
        "$V$ = 8, $b$ = 1": (8, 1.0, None),
        "$V$ = 64, $b$ = 1": (64, 1.0, None),
        "$V$ = 8, $b$ = 0.8": (8, 0.8, None),
        "$V$ = 8, $b$ = 1/$n$": (8, 1.0, lambda n: {"n": n, "b": 1 / n}),
    }
    tables = []
    for k, (label, (V, b, line)) in enumerate(lines.items()):
        model = Model(V=V, L=16, score=SSA(n=2, b=b))
        between = BETWEEN if line is None else BETWEEN_TIED
        found = critical_endpoint(model.grid(L=L), Family("n", between, line)).to_dataframe().reset_index()
        _smooth(axes, found["L"], found["n"], k, label)
        tables.append(found.assign(panel="n_c", label=label))
    sampled = posterior_endpoints(POSTERIOR_CONTEXTS if preset.name == "full" else POSTERIOR_CONTEXTS[:1])
    axes.plot(sampled["L"], sampled["n"], "s", color="C0", markerfacecolor="white", markersize=4, label=POSTERIOR)
    axes.set(xscale="log", yscale="log", xlabel=LABELS["L"], ylabel="$n_c$", ylim=(1, 30))
    _plain_ticks(axes.yaxis, (1, 2, 3, 5, 10, 20))
    axes.legend(fontsize="small")
    axes.set_title("SSA jumps above the line", loc="left")
    return pd.concat([*tables, sampled.assign(panel="n_c", label=POSTERIOR)], ignore_index=True)


def posterior_endpoints(contexts: tuple[int, ...]) -> pd.DataFrame:
    """Return n_c and P_c of SSA (V = 8, b = 1) under the posterior: L, n, P."""
    rows = []
    for L in contexts:
        found = critical_endpoint(PLANE.at(L=L), Family("n", POSTERIOR_BETWEEN), "posterior")
        rows.append({"L": L, "n": float(found["n"]), "P": float(found["P"])})
    return pd.DataFrame(rows)


def _plane(axes: Axes, points: int, preset: Preset) -> pd.DataFrame:
    """Draw the (n, P) plane at L = 64, with networks."""
    end = critical_endpoint(PLANE, Family("n", (1.01, 8)))
    n_c, P_c = float(end["n"]), float(end["P"])
    smooth = np.linspace(SHARPNESS[0], n_c, points)[:-1]
    jumps = n_c + (SHARPNESS[1] - n_c) * np.linspace(0, 1, 2 * points)[1:] ** 2
    below, above = transition_table(PLANE.grid(n=smooth)), transition_table(PLANE.grid(n=jumps))
    axes.plot([*smooth, n_c], [*below["P_x"], P_c], ":", color="0.3", label=f"{SYMBOLS['P_x']}, smooth")
    axes.plot([n_c, *jumps], [P_c, *above["P_star"]], color="C1", label=f"{SYMBOLS['P_star']}, jump")
    lower, upper = (above["spinodals"].sel(end=side).to_numpy() for side in ("lower", "upper"))
    axes.fill_between(
        [n_c, *jumps], [P_c, *lower], [P_c, *upper], color="C1", alpha=0.25, linewidth=0, label="two minima"
    )
    axes.plot(n_c, P_c, "o", color="C1", markersize=5, label="endpoint")
    tables = [above["P_star"].to_dataframe().reset_index(), below["P_x"].to_dataframe().reset_index()]
    for model, rows in networks(preset, CROSSOVERS, JUMPS, NARROW).items():
        if model.score.name != "ssa" or (model.V, model.L) != (PLANE.V, PLANE.L):
            continue
        share = gaps(rows).groupby("P")["apart"].mean()
        n = model.score.numbers["n"]
        for P, apart in share.items():
            axes.plot(n, P, "o", color="C0", markersize=3, markerfacecolor="C0" if apart > 0.5 else "white", zorder=3)
        tables.append(share.reset_index().assign(n=n))
    axes.plot([], [], "o", color="C0", markersize=3, label="networks, two minima")
    axes.plot([], [], "o", color="C0", markersize=3, markerfacecolor="white", label="networks, one minimum")
    axes.set(yscale="log", xlabel="$n$", ylabel="$P$", xlim=(0.9, SHARPNESS[1]))
    _plain_ticks(axes.yaxis, (100, 200, 500, 1000, 2000, 5000))
    axes.legend(fontsize="small")
    axes.set_title("SSA, $b$ = 1, $V$ = 8, $L$ = 64", loc="left")
    return pd.concat(tables, ignore_index=True).assign(panel="plane")


def _temperature(axes: Axes, points: int) -> pd.DataFrame:
    """Draw L_c(T) of softmax: the prior's standard deviation over T is all that counts."""
    T = np.geomspace(*TEMPERATURES, points)
    tables = []
    for k, V in enumerate((2, 8, 64)):
        grid = Model(V=V, L=16, score={"name": "temperature", "T": 1.0}).grid(T=T)
        found = critical_endpoint(grid, Family("L", (3, 1000))).to_dataframe().reset_index()
        _smooth(axes, found["T"], found["L"], k, f"$V$ = {V}")
        tables.append(found.assign(panel="L_c", V=V))
    axes.set(xscale="log", xlabel="$T$", ylabel="$L_c$")
    _plain_ticks(axes.xaxis, (0.2, 0.5, 1, 2, 5))
    axes.legend(fontsize="small")
    axes.set_title("softmax jumps above the line", loc="left")
    return pd.concat(tables, ignore_index=True)


def _smooth(axes: Axes, x: pd.Series, y: pd.Series, k: int, label: str) -> None:
    """Draw computed points as dots, and a smooth line through them (monotone cubics in logarithms)."""
    between = np.geomspace(x.iloc[0], x.iloc[-1], 200)
    draw_theory(
        axes, between, np.exp(PchipInterpolator(np.log(x), np.log(y))(np.log(between))), color=f"C{k}", label=label
    )
    axes.plot(x, y, ".", color=f"C{k}", markersize=3)


def _exponents(axes: Axes) -> pd.DataFrame:
    """Draw how the jump closes along the line of transitions, and how aG moves across its endpoint."""
    tables = []
    cases = {"SSA, $L$ = 64": (PLANE, Family("n", (1.2, 4))), "softmax": (Model(V=8, L=64), Family("L", (6, 40)))}
    for k, (name, (model, family)) in enumerate(cases.items()):
        for approach, way, mark in zip(critical_exponents(model, family), ("along", "across"), "o^", strict=True):
            x = approach.distance / approach.distance[-1]
            y = approach.size / approach.size[-1]
            label = f"{name}, {way}: {approach.exponent:.4f}"
            axes.plot(x, y, mark, color=f"C{k}", markersize=3.5, markerfacecolor="white", label=label)
            tables.append(pd.DataFrame({"panel": "exponents", "label": label, "x": x, "y": y}))
    x = np.geomspace(1e-5, 1, 2)
    axes.plot(x, x ** (1 / 2), color="0.6", linewidth=0.8, zorder=0)
    axes.plot(x, x ** (1 / 3), color="0.6", linewidth=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="$|P - P_c|$ (scaled)", ylabel=f"change of {LABELS['aG']} (scaled)")
    axes.legend(fontsize="small")
    axes.set_title("exponents 1/2 and 1/3", loc="left")
    return pd.concat(tables, ignore_index=True)


def _plain_ticks(axis: Axis, at: tuple[float, ...]) -> None:
    low, high = axis.get_view_interval()
    shown = [tick for tick in at if low <= tick <= high]
    axis.set_ticks(shown, labels=[f"{tick:g}" for tick in shown])
    axis.set_ticks([], minor=True)
