"""All minima on a 100 × 100 grid of (P, L) against SciPy's L-BFGS-B from seven starts per point.

Both sides minimise the same emitted action with its emitted gradient, in the same whitened coordinates, single
threaded. SciPy is timed on a random sample of the grid's points (all of them take minutes), phasekit on the whole grid;
compared are times per point. "Same minima": every minimum that a start of SciPy's reaches is one of phasekit's, and the
lowest ones agree in action to 1e-9.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from phasekit.model import Grid, Model
from phasekit.theory.action.base import Array
from phasekit.theory.minima import TOLERANCE, Minima, find_minima

SAMPLE, REPEATS, STARTS = 150, 5, 7
TARGET = 300.0


def main() -> None:
    """Print one line per score function."""
    L = np.unique(np.rint(np.geomspace(16, 4096, 104)))[:100]
    for score in ("softmax", "linear"):
        grid = Model(V=8, L=16, score=score).grid(P=np.geomspace(10, 1e5, 100), L=L)
        ours, minima = _time_phasekit(grid)
        theirs, agree, calls = _time_scipy(grid, minima)
        points = minima.count.size
        ratio = theirs / (ours / points)
        worst = np.nanmax(minima.gradient_norm)
        print(
            f"{score}: {points} points, phasekit {ours:.3f} s ({1e6 * ours / points:.1f} µs a point, worst gradient "
            f"{worst:.0e}, all below {TOLERANCE:.0e}: {minima.converged.sum() == minima.count.sum()}), L-BFGS-B "
            f"{1e3 * theirs:.2f} ms a point ({calls:.0f} calls), same minima at {agree} of {SAMPLE}: "
            f"{ratio:.0f}× (aim {TARGET:.0f}×)"
        )


def _time_phasekit(grid: Grid) -> tuple[float, Minima]:
    """Return the median time for the whole grid, and the minima."""
    find_minima(grid)  # warm up
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        minima = find_minima(grid)
        times.append(time.perf_counter() - begun)
    return float(np.median(times)), minima


def _time_scipy(grid: Grid, minima: Minima) -> tuple[float, int, float]:
    """Return the time per point, at how many points the minima agree, and calls of the action per point."""
    rng = np.random.default_rng(0)
    rows = rng.choice(minima.count.size, SAMPLE, replace=False)
    elapsed, agree, calls = 0.0, 0, 0
    for row in rows:
        i, j = np.unravel_index(row, grid.shape)
        model = grid.base.at(P=float(grid.axes["P"][i]), L=int(grid.axes["L"][j]))
        function, starts = _plain_function(model)
        begun = time.perf_counter()
        results = [
            minimize(function, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
            for start in starts
        ]
        elapsed += time.perf_counter() - begun
        calls += sum(result.nfev for result in results)
        agree += _same(minima.action[i, j, : minima.count[i, j]], np.array([r.fun for r in results]))
    return elapsed / SAMPLE, agree, calls / SAMPLE


def _plain_function(model: Model) -> tuple[Callable[[Array], tuple[float, Array]], list[Array]]:
    """Return action and gradient of one model as SciPy wants them, and seven starts that reach its minima.

    The emitted functions are called with plain floats in whitened coordinates, as an experienced user would.
    """
    from phasekit.theory.action.generated import linear_map, softmax_map

    V, L, P = float(model.V), float(model.L), float(model.P or 0)
    if model.score.name == "softmax":
        scale = 1 / np.sqrt(L - 1)

        def softmax(z: Array) -> tuple[float, Array]:
            gap = float(z[0]) * scale
            value = softmax_map.action(gap, P, V, L, 1.0, 1.0, 1.0)
            return float(value), np.array([scale * softmax_map.gradient(gap, P, V, L, 1.0, 1.0, 1.0)])

        return softmax, [np.array([gap / scale]) for gap in np.linspace(0.0, 2 * np.log(L) + 2, STARTS)]
    pooling, copying = 1 / L, 1 / (L * np.sqrt(L - 1))

    def linear(z: Array) -> tuple[float, Array]:
        cG = float(z[1]) * copying
        x = (float(z[0]) * pooling - cG, cG, P, V, L, 1.0, 1.0, 1.0, L * L)
        slope_1, slope_G = linear_map.gradient(*x)
        return float(linear_map.action(*x)), np.array([pooling * slope_1, copying * (slope_G - slope_1)])

    radius = float(np.sqrt(P)) / 4
    angles: NDArray[np.float64] = np.linspace(-np.pi / 4, np.pi / 2, STARTS)
    return linear, [radius * np.array([np.cos(angle), np.sin(angle)]) for angle in angles]


def _same(ours: Array, theirs: Array) -> bool:
    """Whether the lowest minima agree, and SciPy's others are among ours, to what its stopping rule resolves."""
    lowest = abs(ours[0] - theirs.min()) <= 1e-9 * abs(ours[0])
    known = np.abs(theirs[:, None] - ours[None, :]).min(axis=1) <= 1e-6 * np.abs(theirs)
    return bool(lowest and known.all())
