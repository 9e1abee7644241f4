"""Pictures of computed datasets: phase diagrams and scaling laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasekit.drawing.plotting import LABELS, symbol_of
from phasekit.theory.transitions import THRESHOLDS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

#: How each transition line of a phase diagram is drawn.
_LINES: dict[str, dict[str, Any]] = {
    "P1": {"linestyle": "-", "color": "C1"},
    "P2": {"linestyle": "-.", "color": "C1"},
    "P_star": {"linestyle": "-", "color": "C1"},
    "P_x": {"linestyle": ":", "color": "C1"},
}
CRITICAL: dict[str, Any] = {
    "marker": "o", "linestyle": "none", "color": "C1", "markeredgecolor": "white", "markersize": 4.5
}  # fmt: skip
_OTHER_LINE = {"linestyle": (0, (5, 1, 1, 1)), "color": "C1"}
#: How the closed forms of :mod:`phasekit.theory.closed_forms` are written.
_LAWS = {
    "exact": "exact",
    "any_regime": "any regime",
    "large_L": r"$L \gg V$",
    "leading": "leading order",
    "self_consistent": "self-consistent",
    "L_ln2_L": r"$L\,\ln^2 L$",
    "long_context": r"$t \gg L$",
    "wide_vocabulary": r"$1 \ll t \ll L$",
    "wide_vocabulary_pair": r"$1 \ll t \ll L^{2-n}$",
    "scarce_data": r"$t \ll 1$",
}
#: The line where copying begins.
_COPYING: dict[str, Any] = {"linestyle": "-", "color": "black", "linewidth": 0.6}
_NO_PATTERN = "0.85"
_SMALLEST_NAMED = 0.05
_LOGARITHMIC_FROM = 10.0  # an axis whose ends differ by at least this factor is drawn logarithmically


def draw_phase_diagram(axes: Axes, diagram: xr.Dataset, x: str, y: str, show: str = "copying_share") -> QuadMesh:
    """Draw a dataset of :func:`phasekit.phase_diagram`: one variable in colour, the transitions as lines.

    Points without any pattern (the origin is the global minimum) are left grey. Spinodals are thin dashed lines,
    the end of a line of jumps is a dot.

    Parameters
    ----------
    axes : Axes
    diagram : Dataset
    x, y : str
        The dataset's two axes.
    show : str
        The variable in colour; by default the copying share g²/q, which tells pooling (0) from copying (1).

    Returns
    -------
    QuadMesh
        For a colour bar.
    """
    horizontal, vertical = diagram[x].to_numpy(), diagram[y].to_numpy()
    shown = diagram[show].where(diagram["phase"] > 0).transpose(y, x).to_numpy()
    limits: dict[str, Any] = {"vmin": 0.0, "vmax": 1.0} if show == "copying_share" else {}
    mesh = axes.pcolormesh(_edges(horizontal), _edges(vertical), shown, rasterized=True, **limits)
    axes.set_facecolor(_NO_PATTERN)
    if "P" in (x, y):
        along = y if x == "P" else x
        for name in THRESHOLDS:
            look = _LINES.get(name, _OTHER_LINE)
            if f"line_{name}" in diagram and np.isfinite(diagram[f"line_{name}"]).any():
                _line(axes, diagram[along].to_numpy(), diagram[f"line_{name}"].to_numpy(), x == "P", look, name)
        if "line_spinodals" in diagram:
            for end in ("lower", "upper"):
                values = diagram["line_spinodals"].sel(end=end).to_numpy()
                look = {"linestyle": "--", "color": "C1", "linewidth": 0.6}
                _line(axes, diagram[along].to_numpy(), values, x == "P", look, "spinodals" if end == "lower" else None)
        if "critical_point" in diagram.attrs:
            end = diagram.attrs["critical_point"]
            axes.plot(*(end[::-1] if x == "P" else end), label="critical point", scalex=False, scaley=False, **CRITICAL)
    _scale(axes, x, horizontal, "x")
    _scale(axes, y, vertical, "y")
    axes.set(xlabel=LABELS[x], ylabel=LABELS[y])
    return mesh


def name_phases(axes: Axes, diagram: xr.Dataset, x: str, y: str) -> None:
    """Write each phase's name into the middle of its largest part, and draw where copying begins: g²/q = 1/2.

    A phase is named where at least a twentieth of the grid belongs to it. Grey is explained in the legend if there is
    any. Where P2 is a transition line, it is that place already; a jump across it is drawn as P_star.
    """
    from scipy.ndimage import distance_transform_edt

    phase = diagram["phase"].transpose(y, x).to_numpy()
    for k, name in enumerate(str(diagram.attrs["phases"]).split(", ")):
        inside = phase == k
        if inside.mean() < _SMALLEST_NAMED:
            continue
        depth = distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(depth.argmax(), depth.shape)
        at = float(diagram[x][column]), float(diagram[y][row])
        axes.text(*at, name, ha="center", va="center", fontsize=7, color="white" if name == "pooling" else "black")
    if "P" in (x, y) and "line_P2" not in diagram:
        along = y if x == "P" else x
        P = _where_copying_begins(diagram, along)
        if np.isfinite(P).any():
            _line(axes, diagram[along].to_numpy(), P, x == "P", _COPYING, "$g^2/q = 1/2$")
    if (phase == 0).any():
        axes.fill([], [], color=_NO_PATTERN, label="no pattern")


def _where_copying_begins(diagram: xr.Dataset, along: str) -> NDArray[np.float64]:
    """Return the first P where g²/q passes 1/2, for each value of the other axis; NaN if it jumps there, or nowhere."""
    P, share = diagram["P"].to_numpy(), diagram["copying_share"].transpose(along, "P").to_numpy()
    jump = diagram["line_P_star"].to_numpy() if "line_P_star" in diagram else np.full(len(share), np.nan)
    found = np.full(len(share), np.nan)
    for row, values in enumerate(share):
        passed = np.flatnonzero((values[:-1] < 0.5) & (values[1:] >= 0.5))
        if passed.size and not P[passed[0]] <= jump[row] <= P[passed[0] + 1]:
            ends = slice(passed[0], passed[0] + 2)
            found[row] = np.exp(np.interp(0.5, values[ends], np.log(P[ends])))
    return found


def draw_scaling_law(axes: Axes, law: xr.Dataset) -> None:
    """Draw a threshold against its axis as dots, with the closed forms as dashed lines."""
    axis, quantity = str(law.attrs["axis"]), str(law.attrs["quantity"])
    x = law[axis].to_numpy()
    axes.plot(x, law[quantity].to_numpy(), "o", markersize=2.5, label=f"{symbol_of(quantity)}, numeric", color="C0")
    forms = [str(name) for name in law.data_vars if str(name).startswith("closed_")]
    for k, name in enumerate(forms):
        law_name = name.removeprefix("closed_")
        label = _LAWS.get(law_name, law_name.replace("_", " "))
        axes.plot(x, law[name].to_numpy(), linestyle="--", color=f"C{k + 1}", linewidth=0.9, label=label)
    axes.set(xscale="log", yscale="log", ylabel=symbol_of(quantity))


def draw_local_exponent(axes: Axes, law: xr.Dataset) -> None:
    """Draw the local exponent d ln P/d ln x of a scaling law, and those of its closed forms."""
    from phasekit.theory.scaling import local_exponent

    axis, quantity = str(law.attrs["axis"]), str(law.attrs["quantity"])
    x = law[axis].to_numpy()
    axes.plot(x, law["local_exponent"].to_numpy(), color="C0")
    forms = [str(name) for name in law.data_vars if str(name).startswith("closed_")]
    for k, name in enumerate(forms):
        axes.plot(x, local_exponent(x, law[name].to_numpy()), linestyle="--", color=f"C{k + 1}", linewidth=0.9)
    bare = symbol_of(quantity).strip("$")
    axes.set(xscale="log", xlabel=LABELS[axis], ylabel=rf"$d\,\ln {bare} / d\,\ln {LABELS[axis].strip('$')}$")


def _line(
    axes: Axes, along: NDArray[Any], P: NDArray[Any], P_is_horizontal: bool, look: dict[str, Any], name: str | None
) -> None:
    horizontal, vertical = (P, along) if P_is_horizontal else (along, P)
    label = None if name is None else symbol_of(name)
    axes.plot(horizontal, vertical, label=label, scalex=False, scaley=False, **look)


def _edges(points: NDArray[Any]) -> NDArray[np.float64]:
    """Return the borders of cells around points, halfway between them on the axis's scale."""
    scaled = np.log(points) if _logarithmic(points) else np.asarray(points, dtype=float)
    if scaled.size == 1:
        edges = scaled[0] + np.array([-0.5, 0.5])
    else:
        middles = (scaled[1:] + scaled[:-1]) / 2
        edges = np.concatenate([[2 * scaled[0] - middles[0]], middles, [2 * scaled[-1] - middles[-1]]])
    return np.asarray(np.exp(edges) if _logarithmic(points) else edges)


def _logarithmic(points: NDArray[Any]) -> bool:
    return bool(points.min() > 0 and points.max() >= _LOGARITHMIC_FROM * points.min())


def _scale(axes: Axes, name: str, points: NDArray[Any], direction: str) -> None:
    edges = _edges(points)
    scale = "log" if _logarithmic(points) else "linear"
    axes.set(**{f"{direction}scale": scale, f"{direction}lim": (edges.min(), edges.max())})
