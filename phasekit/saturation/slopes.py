"""Asymptotic slopes: each exponent that the theorems predict, fitted on the quantity itself far out.

A slope is a least-squares fit over points far enough out that the correction of the finite argument is below half a
unit of the third digit: that is what "reproduced" means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.saturation.laws import limit_weights, saturation_exponent
from phasekit.saturation.theorem import Theorem
from phasekit.saturation.theorems import get_theorem
from phasekit.saturation.theorems.crossover import crossover_gap

#: The published starting values of SSA (arXiv:2508.14685), at which slopes are fitted.
N, B = 1.5, 0.8
POINTS = 13
#: Agreement to three digits.
DIGITS = 5e-4

#: Rows of the reference slopes of ln(1 − p_i*) against ln λ.
ROWS = ((2.0, 0.0, -1.0), (2.0, -1.0, -3.0), (0.0, -1.0, -2.0), (2.0, 1.0, -1.0), (-1.0, -2.0, -3.0), (2.0, 2.0, -1.0))


@dataclass(frozen=True)
class Slope:
    """A fitted slope beside the predicted one.

    Attributes
    ----------
    theorem : str
    case : str
        What was varied, and at which row.
    ordinate, abscissa : str
        d(ordinate)/d(abscissa).
    fitted, predicted : float
    limit, limit_predicted : float or None
        Where the slope is 0: 1 − p_i* at the last point, and the limit law's.
    """

    theorem: str
    case: str
    ordinate: str
    abscissa: str
    fitted: float
    predicted: float
    limit: float | None = None
    limit_predicted: float | None = None

    @property
    def derivative(self) -> str:
        """The slope's name, d(ordinate)/d(abscissa)."""
        return f"d {self.ordinate}/d {self.abscissa}"

    @property
    def reproduced(self) -> bool:
        """Whether slope, and limit if there is one, agree to three digits."""
        pairs = [(self.fitted, self.predicted)]
        if self.limit is not None and self.limit_predicted is not None:
            pairs.append((self.limit, self.limit_predicted))
        return all(abs(found - expected) <= DIGITS * max(1.0, abs(expected)) for found, expected in pairs)


def magnification_slopes(theorem: Theorem) -> list[Slope]:
    """Return the slopes of ln(1 − p_i*) against ln λ = ln 10³ … ln 10⁶ at the reference rows."""
    lam = np.geomspace(1e3, 1e6, POINTS)
    found = []
    for row in ROWS:
        log_mass = theorem.evaluate(z=row, lam=lam, n=N, b=B)[:, 0]
        predicted = 0.0 - float(saturation_exponent(row, N))
        limits = (float(np.exp(log_mass[-1])), float(1 - limit_weights(row, N).max())) if predicted == 0 else ()
        case = "z = (" + ", ".join(f"{entry:g}" for entry in row).replace("-", "−") + ")"
        found.append(Slope(theorem.name, case, "ln(1−p)", "ln λ", _fit(np.log(lam), log_mass), predicted, *limits))
    return found


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.polyfit(x - x.mean(), y, 1)[0])


def _curve(
    case: str,
    ordinate: str,
    abscissa: str,
    predicted: float,
    points: Callable[[Theorem], tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> Callable[[Theorem], list[Slope]]:
    """Return a function from a theorem to the slope of a curve that is made from its quantity."""

    def slope(theorem: Theorem) -> list[Slope]:
        return [Slope(theorem.name, case, ordinate, abscissa, _fit(*points(theorem)), predicted)]

    return slope


_FAR = np.geomspace(1e3, 1e6, POINTS)
_GAPS = np.geomspace(1e4, 1e7, POINTS)
_LINEAR = np.linspace(10, 40, POINTS)
_OTHERS = (0.5, -1.0)


def _smallest_weight(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.log(_FAR), theorem.evaluate(z=(2, -1, -3), lam=_FAR, n=N, b=B)[:, -1]


def _approach(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    inputs: dict[str, ArrayLike] = {"z": (2, 1), "lam": _FAR, "n": N, "b": B}
    ratio, (limit, _) = theorem.evaluate(**inputs), theorem.bounds(**inputs)
    return np.log(_FAR), (np.log(np.expm1(ratio - limit)) + limit)[:, 0]


def _largest_growth(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.log(_GAPS), theorem.evaluate(c=-_GAPS / 2, gap=_GAPS, n=N, b=B)[:, 0]


def _against_gap(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.log(_GAPS), theorem.evaluate(others=_OTHERS, gap=_GAPS, n=N, b=B)[:, 0]


def _against_gap_linear(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return _LINEAR, theorem.evaluate(others=_OTHERS, gap=_LINEAR)[:, 0]


def _towards_softmax(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.log(_GAPS), np.log(np.abs(theorem.evaluate(z=(2, 1, -1), n=_GAPS)).max(axis=-1))


def _growing_advantage(theorem: Theorem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return _GAPS, theorem.evaluate(n=N, b=B, ratio=_GAPS / crossover_gap(N, B))[:, 0]


_GAP_CASE = "others (0.5, −1)"
#: How the slopes of a theorem are computed, by name.
SLOPES: dict[str, Callable[[Theorem], list[Slope]]] = {
    "softmax-magnification": _curve(
        "z = (2, 1, −1)", "ln(1−p)", "λ", -1.0, lambda th: (_LINEAR, th.evaluate(z=(2, 1, -1), lam=_LINEAR)[:, 0])
    ),
    "ssa-monotone": _curve(
        "z = (2, −1), fastest",
        "ln R",
        "ln λ",
        -2 * N,
        lambda th: (np.log(_FAR), th.evaluate(z=(2, -1), lam=1.0, factor=_FAR, n=N, b=B)[:, 0]),
    ),
    "ssa-limit": _curve("z = (2, 1)", "ln[R − R(∞)]", "ln λ", -1.0, _approach),
    "ssa-magnification": magnification_slopes,
    "softmax-floor": _curve(
        "z = (2, 1, −1)", "ln p_min", "λ", -3.0, lambda th: (_LINEAR, th.evaluate(z=(2, 1, -1), lam=_LINEAR)[:, -1])
    ),
    "ssa-floor": _curve("z = (2, −1, −3)", "ln p_min", "ln λ", -2 * N, _smallest_weight),
    "softmax-imbalance": _curve(_GAP_CASE, "ln(1−p)", "Δ", -1.0, _against_gap_linear),
    "ssa-imbalance": _curve(_GAP_CASE, "ln(1−p)", "ln Δ", -N, _against_gap),
    "ssa-imbalance-uniform": _curve("c = −Δ/2, fastest", "ln G", "ln Δ", 2 * N, _largest_growth),
    "ssa-tail": _curve(_GAP_CASE, "ln S", "ln Δ", -N, _against_gap),
    "ssa-gradient": _curve(_GAP_CASE, "ln ∂p/∂z", "ln Δ", -N - 1, _against_gap),
    "ssa-gradient-others": _curve(_GAP_CASE, "ln |∂p/∂z_j|", "ln Δ", -N, _against_gap),
    "softmax-gradient": _curve(_GAP_CASE, "ln ∂p/∂z", "Δ", -1.0, _against_gap_linear),
    "crossover": _curve("others at 0", "ln(odds ratio)", "Δ", -1.0, _growing_advantage),
    "exponential-limit": _curve("z = (2, 1, −1)", "ln |ln p_SSA/p|", "ln n", -1.0, _towards_softmax),
}


def fit_slopes(theorems: Sequence[Theorem]) -> list[Slope]:
    """Return the slopes of those theorems that predict one, in order."""
    return [slope for theorem in theorems if theorem.name in SLOPES for slope in SLOPES[theorem.name](theorem)]


def reference_slopes() -> list[Slope]:
    """Return the slopes of ln(1 − p_i*) against ln λ at the reference rows."""
    return magnification_slopes(get_theorem("ssa-magnification"))
