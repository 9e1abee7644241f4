"""An ensemble of heads as a target: D data sets times M members are D·M chains."""

from __future__ import annotations

from torch import Tensor

from phasekit.heads.energy import Energy
from phasekit.heads.energy import Gradient as EnergyGradient
from phasekit.samplers.target import Gradient, Parts


class HeadsTarget:
    """exp(-U(W, G)/T) with all data in every gradient.

    A position is (W, G), of shapes (D, M, V, V) and (D, M, n, n); for factorised heads (W, [W_Q, W_K]), of shapes
    (D, M, V, V) and (D, M, 2, d, n).

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
        self.shapes: tuple[tuple[int, ...], ...] = tuple((D, members, *shape) for shape in energy.shapes)
        self.chains = D * members
        self.scales: tuple[float, ...] = energy.prior_scales

    def bind(self, position: Parts, gradient: Parts) -> Gradient:
        return _HeadsGradient(self.energy, position, self.energy.bind(*position, *gradient))


class _HeadsGradient:
    def __init__(self, energy: Energy, position: Parts, gradient: EnergyGradient) -> None:
        self._energy, self._position, self._gradient = energy, position, gradient

    def __call__(self, step: int) -> None:
        self._gradient()

    def energy(self) -> Tensor:
        return (self._gradient.likelihood() + self._energy.prior(*self._position)).flatten()
