"""The pictures' common ground: one style, one way to draw theory and networks, one way to save.

Conventions, the same in every picture: theory is a line, trained networks are open circles, faint ones were filtered
out because other networks reached a lower energy; the branch of lowest action is solid, metastable branches are dashed,
saddles dotted; a transition is a vertical line with its symbol, the window between two spinodals a shaded band.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from phasekit.errors import InputError
from phasekit.files import atomic
from phasekit.theory.transitions import THRESHOLDS, Transitions

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

#: Widths in inches of one journal column and of a whole page.
COLUMN, PAGE = 3.4, 7.0
STYLE_FILE = Path(__file__).with_name("style.mplstyle")

Branch = Literal["global", "metastable", "saddle"]
_DASHES: dict[Branch, str] = {"global": "-", "metastable": "--", "saddle": ":"}
#: How transitions are written in pictures; the keys are the names that ``phasekit transitions`` uses.
SYMBOLS = {name: threshold.symbol for name, threshold in THRESHOLDS.items()}


class _Labels(dict[str, str]):
    """Labels by name; a number of a score that has none is written by its name: n, b, T, α."""

    def __missing__(self, name: str) -> str:
        known = name if len(name) == 1 else rf"\{name}" if name in ("alpha", "beta", "gamma", "lambda", "tau") else None
        return name.replace("_", " ") if known is None else f"${known}$"


#: How quantities are written on axes; the keys are the names that datasets use, and any number of a score.
LABELS = _Labels(
    {
        **{name: f"${name}$" for name in ("P", "V", "L")},
        "sigma_w": r"$\sigma_w$",
        "sigma_g": r"$\sigma_g$",
        "kappa": r"$\kappa$",
        "c1": "$c_1$",
        "cG": "$c_G$",
        "a1": "$a_1$",
        "aG": "$a_G$",
        "alpha1": r"$\alpha_1$",
        "alpha2": r"$\alpha_2$",
        "gap": r"gap of layer 1, $\Delta$",
        "match": r"match of layer 2, $\beta$",
        "loss": "loss",
        "coverage": "coverage",
        "action": "action $S$",
        "copying_share": "copying share $g^2/q$",
    }
)


def symbol_of(name: str) -> str:
    """Return how a threshold is written; other names as they are."""
    return THRESHOLDS[name].symbol if name in THRESHOLDS else name


@contextmanager
def style() -> Iterator[None]:
    """Draw in phasekit's style inside the ``with`` block, from matplotlib's defaults whatever the user's settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(mpl.rc_params_from_file(STYLE_FILE, use_default_template=False))
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = COLUMN, height: float | None = None, **subplots: Any
) -> tuple[Figure, Any]:
    """Return a figure and its axes; call it inside :func:`style`.

    Parameters
    ----------
    rows, columns : int
        Number of panels.
    width, height : float
        In inches. The default height gives every panel the proportions of the style.
    **subplots
        Handed to :meth:`matplotlib.figure.Figure.subplots` (``sharex=True`` …).

    Returns
    -------
    figure : Figure
        Not known to pyplot, so nothing has to be closed and no display is needed.
    axes : Axes, or array of Axes of shape ``(rows, columns)`` squeezed as by matplotlib
    """
    default_width, default_height = mpl.rcParams["figure.figsize"]
    if height is None:
        height = width / columns * default_height / default_width * rows
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **subplots)


def draw_theory(axes: Axes, x: ArrayLike, y: ArrayLike, *, branch: Branch = "global", **line: Any) -> None:
    """Draw a line of the theory; gaps where ``y`` is NaN (the branch doesn't exist there)."""
    if branch not in _DASHES:
        raise InputError("branch", branch, f"must be one of {', '.join(_DASHES)}")
    axes.plot(np.asarray(x), np.asarray(y), **{"linestyle": _DASHES[branch], **line})


def draw_networks(axes: Axes, x: ArrayLike, y: ArrayLike, *, error: ArrayLike | None = None, **marks: Any) -> None:
    """Draw trained networks as open circles, with error bars of half-length ``error`` if given."""
    open_circles = {"marker": "o", "linestyle": "none", "markerfacecolor": "white", "zorder": 3}
    axes.errorbar(np.asarray(x), np.asarray(y), yerr=error, **{**open_circles, "elinewidth": 0.8, **marks})


def draw_filtered(axes: Axes, x: ArrayLike, y: ArrayLike, **marks: Any) -> None:
    """Draw networks that were filtered out by their energy, as faint circles behind the others."""
    draw_networks(axes, x, y, **{"color": "0.55", "alpha": 0.6, "zorder": 2.5, **marks})


def mark_transition(axes: Axes, at: float, name: str, *, symbol: bool = True) -> None:
    """Mark a transition by a thin vertical line, with its ``symbol`` at the upper end (``name`` as in :data:`SYMBOLS`).

    Of panels above each other that share their axis, only the uppermost needs the symbol.
    """
    axes.axvline(at, color="0.4", linewidth=0.7, zorder=0)
    if not symbol:
        return
    axes.annotate(
        symbol_of(name),
        xy=(at, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(2, -2),
        textcoords="offset points",
        ha="left",
        va="top",
        color="0.25",
    )


def shade_window(axes: Axes, spinodals: tuple[float, float], label: str | None = None) -> None:
    """Shade the range between two spinodals, where two minima coexist."""
    axes.axvspan(*spinodals, color="0.9", linewidth=0, zorder=-1, label=label)


def mark_passages(axes: Axes, found: Transitions, *, unit: float = 1.0, symbol: bool = True) -> None:
    """Mark the passages of a model that are in sight, and shade the windows of its jumps; call it after drawing.

    ``unit`` is the P that is 1 on the horizontal axis. A title should say if these are the posterior's thresholds.
    """
    low, high = axes.get_xlim()
    axes.set_xlim(low, high)
    for passage in found.passages:
        if low < passage.P / unit < high:
            mark_transition(axes, passage.P / unit, passage.name, symbol=symbol)
        if passage.window is not None:
            shade_window(axes, (passage.window[0] / unit, min(passage.window[1] / unit, high)))


def save(figure: Figure, table: pd.DataFrame | xr.Dataset | Mapping[str, ArrayLike], stem: str | Path) -> list[Path]:
    """Write ``stem.png`` (300 dpi), ``stem.pdf`` and ``stem.csv``: the picture and the numbers behind it.

    All three appear together or not at all. They carry no time stamp: the same picture gives the same bytes.

    Parameters
    ----------
    figure : Figure
    table : DataFrame, xarray.Dataset or mapping of column name to 1-D values
        Rows belong together, so columns must be of equal length; a dataset is written one grid point per row.
    stem : path without suffix
        Its folder is created if need be.

    Returns
    -------
    list of Path
        The three files.

    Raises
    ------
    InputError
        If the folder can't be written to, or columns differ in length.
    """
    stem = Path(stem)
    frame = _as_frame(table)
    png, pdf, csv = files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf", "csv")]
    with style(), ExitStack() as stack:
        # matplotlib hides a full disk behind errors of its own; files see finished pictures only.
        pages = [
            _drawn(figure, "png", {"Software": "phasekit"}),
            _drawn(figure, "pdf", {"Creator": "phasekit", "CreationDate": None}),
        ]
        for path, page in zip((png, pdf), pages, strict=True):
            stack.enter_context(atomic(path)).write_bytes(page)
        frame.to_csv(stack.enter_context(atomic(csv)), index=False, lineterminator="\n")
    return files


def _drawn(figure: Figure, form: str, metadata: dict[str, str | None]) -> bytes:
    page = io.BytesIO()
    figure.savefig(page, format=form, metadata=metadata)
    return page.getvalue()


def _as_frame(table: pd.DataFrame | xr.Dataset | Mapping[str, ArrayLike]) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    if not isinstance(table, Mapping) or hasattr(table, "to_dataframe"):  # an xarray.Dataset is a Mapping too
        return table.to_dataframe().reset_index()
    columns = {name: np.atleast_1d(np.asarray(values)) for name, values in table.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("table", lengths, "columns must be of equal length")
    return pd.DataFrame(columns)
