"""Torch float64 tensors: the same formulas with derivatives, for the ascent towards a violation.

The log-weight comes from :mod:`phasekit.scores`, so that the adversary works on the score that networks use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasekit.saturation.arithmetic.base import Mask
from phasekit.scores import SSA


class Gradients:
    """Torch as an :class:`~phasekit.saturation.arithmetic.base.Arithmetic`."""

    def __init__(self) -> None:
        self._ssa = SSA()

    def lift(self, exact: Any) -> Tensor:
        return exact if isinstance(exact, Tensor) else torch.as_tensor(exact, dtype=torch.float64)

    def absolute(self, x: Any) -> Tensor:
        return self.lift(x).abs()

    def exp(self, x: Any) -> Tensor:
        return self.lift(x).exp()

    def log(self, x: Any) -> Tensor:
        return self.lift(x).log()

    def log1p(self, x: Any) -> Tensor:
        return self.lift(x).log1p()

    def where(self, mask: Mask, x: Any, otherwise: Any) -> Tensor:
        return torch.where(torch.as_tensor(mask), self.lift(x), self.lift(otherwise))

    def logsumexp(self, x: Any, mask: Mask | None = None) -> Tensor:
        included = self.lift(x) if mask is None else self.lift(x).masked_fill(~torch.as_tensor(mask), -torch.inf)
        return included.logsumexp(dim=-1, keepdim=True)

    def take(self, x: Any, column: NDArray[np.intp]) -> Tensor:
        return self.lift(x).gather(-1, torch.as_tensor(column))

    def ssa(self, x: Any, n: Any, b: Any) -> Tensor:
        weight: Tensor = self._ssa.transform(self.lift(x), n=self.lift(n), b=self.lift(b))
        return weight

    def root(self, estimate: NDArray[np.float64], function: Any, slope: Any) -> Tensor:
        """Take one Newton step from the estimate: its derivative is that of the root (implicit function theorem)."""
        start = self.lift(estimate)
        root: Tensor = start - function(start) / slope(start).detach()
        return root
