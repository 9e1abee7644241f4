"""Asymptotic slopes: each exponent that the theorems predict, fitted on the quantity itself far out.

A slope is a least-squares fit over points so far out that what is left of the next order changes it by less than half a
unit of its third digit. It is reproduced if it agrees with the predicted one to three digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.saturation.laws import limit_weights, saturation_exponent
from phasekit.saturation.theorem import Theorem
from phasekit.saturation.theorems.crossover import crossover_gap

Array = NDArray[np.float64]
#: Inputs of a theorem at all points of a fit.
Inputs = Mapping[str, Any]

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


@dataclass(frozen=True)
class SlopeCase:
    """Where a theorem's quantity is fitted: along inputs far out, where it is a power or an exponential.

    Attributes
    ----------
    case, ordinate, abscissa, predicted
        As in :class:`Slope`.
    along : array, shape (points,)
        What the abscissa is, or is the logarithm of.
    inputs : mapping
        The theorem's inputs at all points.
    column : int
        Key of the quantity.
    quantity : callable, optional
        From theorem and inputs to the ordinate, if that isn't the theorem's own quantity.
    has_limit : bool
        Whether the mass off the winner, e^ordinate, has a limit above 0.
    """

    case: str
    ordinate: str
    abscissa: str
    predicted: float
    along: Array
    inputs: Inputs
    column: int = 0
    quantity: Callable[[Theorem, Inputs], Array] | None = None
    has_limit: bool = False

    def slope(self, theorem: Theorem) -> Slope:
        """Fit the slope."""
        x = np.log(self.along) if self.abscissa.startswith("ln ") else self.along
        quantity = self.quantity or (lambda theorem, inputs: theorem.evaluate(**inputs))
        y = quantity(theorem, self.inputs)[:, self.column]
        fitted = float(np.polyfit(x - x.mean(), y, 1)[0])
        found = Slope(theorem.name, self.case, self.ordinate, self.abscissa, fitted, self.predicted)
        if not self.has_limit:
            return found
        expected = float(1 - limit_weights(self.inputs["z"], self.inputs["n"]).max())
        return replace(found, limit=float(np.exp(y[-1])), limit_predicted=expected)


def _distance_from_limit(theorem: Theorem, inputs: Inputs) -> Array:
    """Return ln[R − R(∞)] from ln R and its lower bound ln R(∞)."""
    ratio, (limit, _) = theorem.evaluate(**inputs), theorem.bounds(**inputs)
    return np.asarray(np.log(np.expm1(ratio - limit)) + limit)


def _largest_deviation(theorem: Theorem, inputs: Inputs) -> Array:
    """Return ln max_j |quantity_j|."""
    return np.asarray(np.log(np.abs(theorem.evaluate(**inputs)).max(axis=-1, keepdims=True)))


_FAR = np.geomspace(1e3, 1e6, POINTS)
_GAPS = np.geomspace(1e4, 1e7, POINTS)
_LINEAR = np.linspace(10, 40, POINTS)
_SSA = {"n": N, "b": B}
_SOFTMAX: Inputs = {"z": (2, 1, -1), "lam": _LINEAR}
_GROWN: Inputs = {"z": (2, -1), "lam": 1.0, "factor": _FAR, **_SSA}
_CENTRED: Inputs = {"c": -_GAPS / 2, "gap": _GAPS, **_SSA}
_GAP: Inputs = {"others": (0.5, -1.0), "gap": _GAPS, **_SSA}
_LINEAR_GAP: Inputs = {"others": (0.5, -1.0), "gap": _LINEAR}
_ADVANTAGE: Inputs = {"ratio": _GAPS / crossover_gap(N, B), **_SSA}
_TOWARDS_SOFTMAX: Inputs = {"z": (2, 1, -1), "n": _GAPS}
_ROW, _OTHERS = "z = (2, 1, −1)", "others (0.5, −1)"


def _magnified(*row: float) -> Inputs:
    return {"z": row, "lam": _FAR, **_SSA}


def _mass_off_winner(row: tuple[float, ...]) -> SlopeCase:
    case = "z = (" + ", ".join(f"{entry:g}" for entry in row).replace("-", "−") + ")"
    exponent = float(saturation_exponent(row, N))
    return SlopeCase(case, "ln(1−p)", "ln λ", 0.0 - exponent, _FAR, _magnified(*row), has_limit=exponent == 0)


_PER_THEOREM = {
    "softmax-magnification": SlopeCase(_ROW, "ln(1−p)", "λ", -1.0, _LINEAR, _SOFTMAX),
    "ssa-monotone": SlopeCase("z = (2, −1), fastest", "ln R", "ln λ", -2 * N, _FAR, _GROWN),
    "ssa-limit": SlopeCase(
        "z = (2, 1)", "ln[R − R(∞)]", "ln λ", -1.0, _FAR, _magnified(2, 1), quantity=_distance_from_limit
    ),
    "softmax-floor": SlopeCase(_ROW, "ln p_min", "λ", -3.0, _LINEAR, _SOFTMAX, column=-1),
    "ssa-floor": SlopeCase("z = (2, −1, −3)", "ln p_min", "ln λ", -2 * N, _FAR, _magnified(2, -1, -3), column=-1),
    "softmax-imbalance": SlopeCase(_OTHERS, "ln(1−p)", "Δ", -1.0, _LINEAR, _LINEAR_GAP),
    "ssa-imbalance": SlopeCase(_OTHERS, "ln(1−p)", "ln Δ", -N, _GAPS, _GAP),
    "ssa-imbalance-uniform": SlopeCase("c = −Δ/2, fastest", "ln G", "ln Δ", 2 * N, _GAPS, _CENTRED),
    "ssa-tail": SlopeCase(_OTHERS, "ln S", "ln Δ", -N, _GAPS, _GAP),
    "ssa-gradient": SlopeCase(_OTHERS, "ln ∂p/∂z", "ln Δ", -N - 1, _GAPS, _GAP),
    "ssa-gradient-others": SlopeCase(_OTHERS, "ln |∂p/∂z_j|", "ln Δ", -N, _GAPS, _GAP),
    "softmax-gradient": SlopeCase(_OTHERS, "ln ∂p/∂z", "Δ", -1.0, _LINEAR, _LINEAR_GAP),
    "crossover": SlopeCase("others at 0", "ln(odds ratio)", "Δ", -1.0, _GAPS, _ADVANTAGE),
    "exponential-limit": SlopeCase(
        _ROW, "ln |ln p_SSA/p|", "ln n", -1.0, _GAPS, _TOWARDS_SOFTMAX, quantity=_largest_deviation
    ),
}
#: The slopes to fit for a theorem, by its name.
SLOPES: dict[str, tuple[SlopeCase, ...]] = {
    **{name: (case,) for name, case in _PER_THEOREM.items()},
    "ssa-magnification": tuple(_mass_off_winner(row) for row in ROWS),
}


def fit_slopes(theorems: Sequence[Theorem]) -> list[Slope]:
    """Return the slopes of those theorems that predict one, in order."""
    return [case.slope(theorem) for theorem in theorems for case in SLOPES.get(theorem.name, ())]
