"""Search for a violation on purpose: gradient descent on the slack from many starts, then snaps to ties and edges.

Random rows rarely come near the thin sets where a bound is tight. From random starts, half of them on special patterns
(ties, zeros, signs), every start follows the gradient of its slack with a step of its own that grows while it succeeds
and shrinks when it fails. A bound can also become tight in a trivial way (λ → 0), where descent on the slack would
end; half of the starts therefore descend on the slack relative to the room between the bounds.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phasekit.saturation.arithmetic.gradients import Gradients
from phasekit.saturation.domain import Domain, Inputs, count, join, select
from phasekit.saturation.sampling import draw
from phasekit.saturation.theorem import Point, Side, Theorem

#: Row lengths that the adversary works on.
KEYS = (2, 3, 6)
#: How many of the points reached, those of least slack, are also snapped to ties and edges.
SNAPPED = 16
_FIRST_STEP, _GROWTH, _SHRINKAGE = 0.3, 1.3, 0.5


def attack(theorem: Theorem, side: Side, rng: np.random.Generator, starts: int, steps: int) -> list[Inputs]:
    """Return points of small slack that satisfy the hypotheses, for :func:`phasekit.saturation.judge.judge`.

    Parameters
    ----------
    starts : int
        Starts for each row length.
    steps : int
        Gradient steps from each start.
    """
    found = []
    for keys in KEYS:
        inputs = _starts(theorem, rng, starts, keys)
        reached, slack = _descend(theorem, side, inputs, steps)
        lowest = np.argsort(slack)[:SNAPPED]
        variants = _snapped(theorem.domain, select(reached, lowest))
        found += [reached, *(_satisfying(theorem, variant) for variant in variants)]
    return found


def _starts(theorem: Theorem, rng: np.random.Generator, starts: int, keys: int) -> Inputs:
    """Draw starts that satisfy the hypotheses, half of them on special patterns."""
    half = starts // 2
    return join([draw(theorem, rng, starts - half, keys, special=0.0), draw(theorem, rng, half, keys, special=1.0)])


def _satisfying(theorem: Theorem, inputs: Inputs) -> Inputs:
    held = theorem.satisfied(inputs)
    return select(inputs, held)


def _descend(theorem: Theorem, side: Side, start: Inputs, steps: int) -> tuple[Inputs, NDArray[np.float64]]:
    rows = count(start)
    relative = np.arange(rows) % 2 == 1
    best = _Coordinates.of(theorem.domain, start)
    best_goal, gradient = _goal(theorem, side, best, relative)
    step = np.full((rows, 1), _FIRST_STEP)
    for _ in range(steps):
        trial = best.moved(gradient, step)
        trial = trial.where(theorem.satisfied(trial.inputs), best)  # formulas may be undefined beyond the hypotheses
        goal, new_gradient = _goal(theorem, side, trial, relative)
        better = goal < best_goal
        best = trial.where(better, best)
        best_goal = np.where(better, goal, best_goal)
        gradient = {name: np.where(better[:, None], new_gradient[name], gradient[name]) for name in gradient}
        step = step * np.where(better, _GROWTH, _SHRINKAGE)[:, None]
        if (step < 1e-12).all():
            break
    return best.inputs, best_goal


class _Coordinates:
    """Inputs in coordinates in which steps of size 1 make sense: ln of positive numbers, arsinh(z/low) of logits."""

    def __init__(self, domain: Domain, values: Inputs, inputs: Inputs) -> None:
        self.domain, self.values, self.inputs = domain, values, inputs

    @classmethod
    def of(cls, domain: Domain, inputs: Inputs) -> _Coordinates:
        values = {}
        for name, variable in domain.variables.items():
            x = inputs[name]
            values[name] = np.log(x) if variable.kind == "positive" else np.arcsinh(x / variable.low)
        return cls(domain, values, inputs)

    def moved(self, gradient: Inputs, step: NDArray[np.float64]) -> _Coordinates:
        """Step against the gradient; its largest component moves by ``step``. Ranges end at walls."""
        largest = np.max([np.abs(g).max(axis=-1) for g in gradient.values()], axis=0)[:, None]
        scale = step / np.where(largest > 1e-250, largest, np.inf)  # no slope, no step
        inputs, values = {}, {}
        for name, variable in self.domain.variables.items():
            moved = self.values[name] - scale * gradient[name]
            if variable.kind == "positive":
                inputs[name] = np.clip(np.exp(np.minimum(moved, 700.0)), variable.low, variable.upper)
                values[name] = np.log(inputs[name])
                continue
            x = np.clip(variable.low * np.sinh(np.clip(moved, -700.0, 700.0)), -variable.upper, variable.upper)
            inputs[name] = -np.sort(-x, axis=-1) if variable.kind == "logits" else x
            values[name] = np.arcsinh(inputs[name] / variable.low)
        return _Coordinates(self.domain, values, inputs)

    def where(self, chosen: NDArray[np.bool_], other: _Coordinates) -> _Coordinates:
        """Return these rows where chosen, the other's elsewhere."""

        def mixed(mine: Inputs, others: Inputs) -> Inputs:
            return {name: np.where(chosen[:, None], mine[name], others[name]) for name in mine}

        return _Coordinates(self.domain, mixed(self.values, other.values), mixed(self.inputs, other.inputs))


def _goal(
    theorem: Theorem, side: Side, at: _Coordinates, relative: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], Inputs]:
    """Return what descends, for every row, and its gradient in the coordinates."""
    xp = Gradients()
    numbers, leaves = {}, {}
    for name, variable in theorem.domain.variables.items():
        leaf = leaves[name] = torch.tensor(at.values[name], requires_grad=True)
        scaled = leaf.exp() if variable.kind == "positive" else variable.low * leaf.sinh()
        # the value is the exact input, the derivative that of the coordinate map
        numbers[name] = scaled + (torch.tensor(at.inputs[name]) - scaled).detach()
    point = Point(numbers, at.inputs)
    value = theorem.value(xp, point)
    bounds = {s: formula(xp, point) for s in ("lower", "upper") if (formula := theorem.bound(s)) is not None}
    if side == "identity":
        slack = -(value - bounds["lower"]).abs()
    else:
        slack = value - bounds["lower"] if side == "lower" else bounds["upper"] - value
    room = bounds["upper"] - bounds["lower"] if len(bounds) == 2 and side != "identity" else next(iter(bounds.values()))
    slack, room = slack + torch.zeros_like(room), room.abs() + torch.zeros_like(slack)  # of one shape
    usable = torch.isfinite(slack.detach()) & torch.isfinite(room.detach())
    scaled_by = torch.where(torch.tensor(relative)[:, None] & (room > 0), room, 1.0)
    goal = slack / scaled_by
    lowest: Tensor = torch.where(usable, goal, torch.inf).amin(dim=-1)
    total = torch.where(torch.isfinite(lowest), lowest, 0.0).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    found = {
        name: np.zeros_like(at.values[name]) if g is None else np.nan_to_num(g.numpy(), posinf=0.0, neginf=0.0)
        for name, g in zip(leaves, gradients, strict=True)
    }
    return lowest.detach().numpy(), found


def _snapped(domain: Domain, inputs: Inputs) -> list[Inputs]:
    """Return variants of points: near ties made exact, small logits made 0, signs flipped, ranges exhausted."""
    variants = []
    for name, variable in domain.variables.items():
        x = inputs[name]
        changes = []
        if variable.kind == "positive":
            changes = [np.full_like(x, variable.low), np.full_like(x, variable.upper), np.round(x)]
            changes = [np.clip(change, variable.low, variable.upper) for change in changes]
        else:
            tied = np.where(np.abs(x - x[:, :1]) < 0.05 * np.abs(x[:, :1]), x[:, :1], x)
            all_tied = np.broadcast_to(x[:, -1:], x.shape).copy()
            all_tied[:, 0] = x[:, 0]
            small = np.where(np.abs(x) < 10 * variable.low, 0.0, x)
            top_zero = np.minimum(x - x[:, :1], 0.0)
            changes = [tied, all_tied, small, -x, top_zero, np.sign(x) * np.abs(x).max(axis=-1, keepdims=True)]
        for change in changes:
            logits = variable.kind == "logits"
            variants.append({**inputs, name: -np.sort(-change, axis=-1) if logits else change})
    return variants
