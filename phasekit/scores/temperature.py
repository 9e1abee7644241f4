"""Softmax at a temperature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from phasekit.scores.elementwise import ElementwiseSoftmax

if TYPE_CHECKING:
    import sympy
    from torch import Tensor


class TemperatureSoftmax(ElementwiseSoftmax):
    """A_ij ∝ exp(H_ij / T). In the theory σ_g → σ_g/T (docs/theory.md, section 6).

    An additive mask is added to H/T: it isn't divided by T.

    Parameters
    ----------
    T : float, 1e-9 to 1e9
        Temperature. A learned T stays above 0.
    """

    name: ClassVar[str] = "temperature"
    learnable: ClassVar[Mapping[str, float]] = {"T": 0.0}

    T: float = Field(default=1.0, ge=1e-9, le=1e9, description="temperature")

    def transform(self, z: Tensor, **values: Tensor) -> Tensor:
        return z / values["T"]

    def slope(self, z: Tensor, **values: Tensor) -> Tensor:
        return 1 / values["T"]

    def parameter_slopes(self, z: Tensor, **values: Tensor) -> dict[str, Tensor]:
        return {"T": -z / values["T"] ** 2}

    def symbolic_transform(self, x: sympy.Expr, **values: sympy.Expr) -> sympy.Expr:
        return x / values["T"]
