"""Averages over one attention row under the posterior's tilt exp(θ g + η q): what both ways to take them share.

Rows f(h)/Σf are integrated (:mod:`.row_quadrature`), all others are drawn (:mod:`.row_sample`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import mean_field

#: Error of ln Z₁ that averages are taken with unless another one is asked for.
ROW_ERROR = 1e-5


class Cumulants(NamedTuple):
    """ln Z₁ and its derivatives: the means of g and q, and their variances and covariance over one row."""

    log_Z: Any
    g: Any
    q: Any
    gg: Any
    gq: Any
    qq: Any


class Tilt(NamedTuple):
    """Fields, and what ln Z₁ was taken to be at them."""

    theta: float
    eta: float
    log_Z: float


class Rows(ABC):
    """The rows of one system: its score, L and σ_g.

    Attributes
    ----------
    prior : Cumulants
        Without a tilt.
    """

    prior: Cumulants

    @abstractmethod
    def cumulants(self, theta: float, eta: float, near: Any = None) -> tuple[Cumulants, Any]:
        """Return ln Z₁ and its first two derivatives at a tilt, and what helps as ``near`` at a tilt nearby.

        Raises
        ------
        ArithmeticError
            If they aren't found.
        """

    @abstractmethod
    def effective_rows(self, theta: float, eta: float) -> float:
        """Return how many independent rows carry the averages at a tilt; infinite where none are drawn."""

    @abstractmethod
    def error_of_difference(self, low: Tilt, high: Tilt) -> float:
        """Return the error of the difference of ln Z₁ between two tilts."""


@lru_cache(maxsize=256)
def rows_of(score: Score, L: float, sigma_g: float, error: float = ROW_ERROR) -> Rows:
    """Return the rows of a system.

    ``error`` of ln Z₁ decides about the nodes of integrals; the number of drawn rows is in inverse proportion to it.

    Raises
    ------
    InputError
        If its rows can't be averaged, not even those of the prior.
    """
    try:
        if isinstance(score, ElementwiseSoftmax):
            from phasekit.theory.action.row_quadrature import RowQuadrature

            return RowQuadrature(score, L, sigma_g, error)
        from phasekit.theory.action.row_sample import (  # SciPy's Sobol sequences take a second to import
            row_sample,
            rows_of_each_law,
        )

        return row_sample(score, round(L), sigma_g, rows_of_each_law(ROW_ERROR / error))
    except ArithmeticError as error:
        allowed = f"rows of {score.name} can't be averaged there: {error}"
        raise InputError("L, sigma_g", (L, sigma_g), allowed) from None


def data_strength(theta: Any, g: Any, q: Any, L: float, V: float, sigma_w: float) -> Any:
    """Return t = Pσ_w²/(κV) at which a field θ and averages (g, q) balance: θ L = −Φ_g, a quadratic in t."""
    c = theta * L * sigma_w**2 / (V - 1)
    return (c * q + np.sqrt((c * q) ** 2 + 4 * g * c)) / (2 * g)


def squeeze(t: Any, g: Any, q: Any, L: float, V: float, sigma_w: float) -> Any:
    """Return η = −Φ_q/L."""
    P = t * V / sigma_w**2  # at κ = 1; only t enters
    return -mean_field.forces(*averages(g, q), P, V, sigma_w, 1.0)[3] / L  # type: ignore[arg-type]


def averages(g: Any, q: Any) -> tuple[Array, Array, Array, Array]:
    """Return (s, s₂, g, q) of rows that sum to one."""
    return np.asarray(1.0), np.asarray(1.0), np.asarray(g), np.asarray(q)
