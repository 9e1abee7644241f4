"""An ensemble of heads as a target: D data sets times M members are D·M chains."""

from __future__ import annotations

from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.heads.energy import Energy
from phasekit.heads.energy import Gradient as EnergyGradient
from phasekit.samplers.target import Gradient


class HeadsTarget:
    """exp(-U(W, G)/T) with all data in every gradient.

    A position has tensors "W" and "G", of shapes (D, M, V, V) and (D, M, n, n); of factorised heads "G" holds W_Q and
    W_K, shape (D, M, 2, d, n).

    Parameters
    ----------
    energy : Energy
        From :func:`phasekit.heads.build_energy`. With positional inputs and second moments the cost of a gradient
        doesn't depend on P.
    members : int
        M.
    """

    exact = True

    def __init__(self, energy: Energy, members: int) -> None:
        D = len(energy.datasets)
        self.energy, self.dtype, self.device = energy, energy.dtype, energy.device
        self.shapes = {name: (D, members, *shape) for name, shape in energy.shapes.items()}
        self.chains = D * members
        self.scales = energy.prior_scales

    def bind(self, position: Tensors, gradient: Tensors) -> Gradient:
        return _HeadsGradient(self.energy, position, self.energy.bind(position, gradient))


class _HeadsGradient:
    def __init__(self, energy: Energy, position: Tensors, gradient: EnergyGradient) -> None:
        self._energy, self._position, self._gradient = energy, position, gradient

    def __call__(self, step: int) -> None:
        self._gradient()

    def energy(self) -> Tensor:
        return (self._gradient.likelihood() + self._energy.prior(self._position["W"], self._position["G"])).flatten()
