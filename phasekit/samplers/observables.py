"""What is written down of a head at each draw."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.heads.energy import Energy
from phasekit.heads.order_parameters import order_parameter_names, order_parameters
from phasekit.scores import Score

#: What changes sign with (W, G) → (-W, -G) where that is a symmetry (linear attention).
ODD = ("c1", "cG", "s", "g")


def observable_names(score: Score) -> tuple[str, ...]:
    """Return the names of what :func:`observe` returns."""
    return (*order_parameter_names(score), "coverage", "s", "s2", "g", "q", "loss", "U")


@torch.no_grad()
def observe(energy: Energy, position: Tensors) -> Tensor:
    """Return order parameters and energies, shape (observables, D, M), in the order of :func:`observable_names`.

    Order parameters are written down as they are, not folded by a symmetry.
    """
    W, G = position["W"], position["G"]
    averages = energy.averages(W, G)
    first, second, coverage = order_parameters(averages, energy.model.mask.mean_keys(energy.model.L))
    U = energy.P * averages.loss / (2 * energy.model.kappa) + energy.prior(W, G)
    return torch.stack([first, second, coverage, averages.s, averages.s2, averages.g, averages.q, averages.loss, U])
