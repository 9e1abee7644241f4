"""What the lean path must know of a score t: how a block of logits is mapped, and how a gradient is pulled back.

A pass over query × key numbers costs as much as a tenth of a matrix product, so every map takes constant factors out of
the blocks: the logits of a block are ``z = (query · factor) · key``, and the exponent is ``gain · transform(z)``.

Everything is per head: values are tensors of shape (matrices, 1, 1), and ``groups`` says which matrices a block holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from phasekit.scores import SSA, ElementwiseSoftmax, Softmax, TemperatureSoftmax


class Recomputed(NamedTuple):
    """What the backward pass needs of a block before it knows the gradient there."""

    transformed: Tensor  # τ = t(z) / gain
    kept: Tensor  # what pull_back wants to see again
    free: Tensor  # a buffer of the block's shape that nobody needs any more


class BlockMap:
    """Any score of the softmax family, by the two kernels that every one of them has.

    Parameters
    ----------
    score : ElementwiseSoftmax
    values : mapping of str to Tensor, shape (matrices, 1, 1)
        Parameters of the score.
    learned : names of those whose gradient is wanted
    scale : float
        Factor on q·k.
    """

    def __init__(
        self, score: ElementwiseSoftmax, values: Mapping[str, Tensor], learned: Sequence[str], scale: float
    ) -> None:
        self.score, self.values, self.learned, self.scale = score, values, learned, scale
        self.sums = {name: torch.zeros_like(values[name]) for name in learned}

    def factor(self, groups: slice) -> Tensor | float:
        """Return what multiplies the queries."""
        return self.scale

    def gain(self, groups: slice) -> Tensor | float:
        """Return the positive factor on :meth:`transform` and on its slope."""
        return 1.0

    def range(self, largest: float, groups: slice) -> float:
        """Return the largest |t| that logits up to ``largest`` can have; infinity if unknown."""
        return math.inf

    def transform(self, z: Tensor, out: Tensor, groups: slice) -> Tensor:
        """Return τ = t/gain, in ``out`` or in ``z``; both may be overwritten."""
        return self.score.transform_into(z, out, **self._at(groups))

    def recompute(self, z: Tensor, out: Tensor, spare: Tensor, groups: slice) -> Recomputed:
        """Return τ again, with what :meth:`pull_back` needs; all three tensors may be overwritten."""
        return Recomputed(self.transform(z, out, groups), z, spare)

    def pull_back(self, recomputed: Recomputed, dt: Tensor, groups: slice) -> Tensor:
        """Return dU/dt · ∂τ/∂z, perhaps in place of ``dt`` = dU/dt, and add to the parameters' sums."""
        gradient, partial = self.score.pull_back_over(recomputed.kept, dt, self.learned, **self._at(groups))
        for name, value in partial.items():
            self.sums[name][groups] += value
        return gradient

    def gradients(self, scale_gradient: Tensor) -> dict[str, Tensor]:
        """Return dU/dvalue of the learned parameters, shape (matrices, 1, 1).

        Parameters
        ----------
        scale_gradient : Tensor, shape (matrices, 1, 1)
            dU/d ln s for a factor s on all logits z of a matrix, that is Σ z·dU/dz over its entries. Logits are linear
            in the queries, so it equals Σ q·dU/dq, which is cheaper.
        """
        return self.sums

    def _at(self, groups: slice) -> dict[str, Tensor]:
        return {name: value[groups] for name, value in self.values.items()}


class ScaledMap(BlockMap):
    """Softmax, at a temperature T or without: 1/T multiplies the queries, and nothing is left to do."""

    def factor(self, groups: slice) -> Tensor | float:
        return self.scale / self.values["T"][groups] if "T" in self.values else self.scale

    def range(self, largest: float, groups: slice) -> float:
        return largest

    def transform(self, z: Tensor, out: Tensor, groups: slice) -> Tensor:
        return z

    def recompute(self, z: Tensor, out: Tensor, spare: Tensor, groups: slice) -> Recomputed:
        return Recomputed(z, z, spare)

    def pull_back(self, recomputed: Recomputed, dt: Tensor, groups: slice) -> Tensor:
        return dt

    def gradients(self, scale_gradient: Tensor) -> dict[str, Tensor]:
        return {"T": -scale_gradient / self.values["T"]} if self.learned else {}


class SSAMap(BlockMap):
    """SSA: b multiplies the queries, n is the gain, and τ(z) = sgn(z)·ln(1 + |z|).

    ∂U/∂b = Σ z·dU/dz / b costs nothing; ∂U/∂n = Σ τ·dU/dt costs one dot product.
    """

    def factor(self, groups: slice) -> Tensor | float:
        return self.values["b"][groups] * self.scale

    def gain(self, groups: slice) -> Tensor | float:
        n = self.values["n"][groups]
        # A number instead of a tensor saves a pass; reading it would make other devices wait.
        return float(n) if n.numel() == 1 and n.device.type == "cpu" else n

    def range(self, largest: float, groups: slice) -> float:
        return float(self.values["n"][groups].max()) * math.log1p(largest)

    def transform(self, z: Tensor, out: Tensor, groups: slice) -> Tensor:
        # ln(1 + |z|), not log1p: τ is an exponent, its absolute accuracy counts, and log is five times faster.
        return torch.abs(z, out=out).add_(1).log_().mul_(z.sign_())

    def recompute(self, z: Tensor, out: Tensor, spare: Tensor, groups: slice) -> Recomputed:
        magnitude = torch.abs(z, out=spare).add_(1)
        return Recomputed(torch.log(magnitude, out=out).mul_(z.sign_()), magnitude, z)

    def pull_back(self, recomputed: Recomputed, dt: Tensor, groups: slice) -> Tensor:
        if "n" in self.learned:
            self.sums["n"][groups] += _dot(recomputed.transformed, dt)
        return dt.div_(recomputed.kept)

    def gradients(self, scale_gradient: Tensor) -> dict[str, Tensor]:
        found = dict(self.sums)
        if "b" in found:
            found["b"] = scale_gradient / self.values["b"]
        return found


def block_map(
    score: ElementwiseSoftmax, values: Mapping[str, Tensor], learned: Sequence[str], scale: float
) -> BlockMap:
    """Return the fastest map for a score. A subclass may change t, so only these classes themselves have their own."""
    special = {SSA: SSAMap, Softmax: ScaledMap, TemperatureSoftmax: ScaledMap}
    return special.get(type(score), BlockMap)(score, values, learned, scale)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of a·b over each matrix, (matrices, 1, 1)."""
    return torch.bmm(a.flatten(1)[:, None, :], b.flatten(1)[:, :, None])
