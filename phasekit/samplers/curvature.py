"""How steep the valley is in which chains stand: what limits the step of samplers without a Metropolis test."""

from __future__ import annotations

import torch

from phasekit.checkpoint import Tensors
from phasekit.samplers.target import Target, flat

_ITERATIONS = 40
# Size of the finite differences in units of the target's scales: a balance of rounding and of the third derivative.
_NUDGE = {torch.float32: 1e-2, torch.float64: 1e-4}


def stiffest_curvature(target: Target, position: Tensors) -> float:
    """Return the largest eigenvalue of U's Hessian over all chains, in units of the target's scales.

    By power iteration, from below, to about a per cent; Hessian times vector is a central difference of gradients.

    Parameters
    ----------
    target : Target
        With an exact gradient.
    position : mapping of str to Tensor
        Where the chains stand.
    """
    nudge, chains = _NUDGE[target.dtype], target.chains
    here = {name: part.to(target.device, target.dtype) for name, part in position.items()}
    moved = {name: part.clone() for name, part in here.items()}
    gradient = {name: torch.empty_like(part) for name, part in here.items()}
    evaluate = target.bind(moved, gradient)

    def slope(direction: dict[str, torch.Tensor], sign: int) -> dict[str, torch.Tensor]:
        for name, part in moved.items():
            torch.add(here[name], direction[name], alpha=sign * nudge * target.scales[name], out=part)
        evaluate(0)
        return {name: part * target.scales[name] for name, part in gradient.items()}

    vector = {name: 1.0 + part / target.scales[name] for name, part in here.items()}
    length = torch.ones(chains)
    for _ in range(_ITERATIONS):
        length = torch.stack([flat(part, chains).square().sum(1) for part in vector.values()]).sum(0).sqrt()
        vector = {name: (flat(part, chains) / length[:, None]).view(part.shape) for name, part in vector.items()}
        up, down = slope(vector, 1), slope(vector, -1)
        vector = {name: (up[name] - down[name]) / (2 * nudge) for name in vector}
    length = torch.stack([flat(part, chains).square().sum(1) for part in vector.values()]).sum(0).sqrt()
    return float(length.max())
