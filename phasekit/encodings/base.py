"""What an encoding is to the theory and to networks, and the encodings that there are (docs/beyond.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from phasekit.describe import Description, Registry

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]


class Encoding(Description):
    """How logits depend on positions, through weights G whose entries have independent Gaussian priors.

    A gap Δ between the copy entry and all others of every row costs ``(L − 1) Δ²/(2σ²)`` and a common logit m of all
    entries ``λ m²/(2σ²)``, with σ = gain · σ_g: these two numbers are what the theory of two levels needs.

    Attributes
    ----------
    name : str
    per_row : bool
        Whether each row has logits of its own. If not, all rows share theirs, and no average over rows is sharp.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = True

    @classmethod
    def in_errors(cls, field: str) -> str:
        return f"encoding {cls.name}: {field}"

    def gain(self, V: Array, L: Array) -> Array:
        """Return by how much a gap is cheaper than with one-hot positions: σ = gain · σ_g."""
        return np.ones(())

    def pooling_cost(self, V: Array, L: Array) -> Array:
        """Return λ of the cost λ m²/(2σ²) of a logit m that all entries share."""
        return np.asarray(L**2)

    def shape(self, V: int, L: int) -> tuple[int, int]:
        """Return the shape of G."""
        return L, L

    def logits(self, G: Tensor, L: int) -> Tensor:
        """Return the position-position logits, shape (..., L, L), from G (..., *shape)."""
        return G

    def collect(self, dH: Tensor, L: int) -> Tensor:
        """Return dU/dG from dU/dlogits, which is the transpose of :meth:`logits`."""
        return dH

    def weights(self, logits: Array, V: int) -> Array:
        """Return the G of least norm that has these logits, or is closest to them; shape (L, L) to ``shape``."""
        return logits


ENCODINGS: Registry[Encoding] = Registry("encoding", Encoding)


@ENCODINGS.register
class OneHot(Encoding):
    """Queries and keys are one-hot positions: G is the matrix of logits itself (``inputs="positional"``)."""

    name: ClassVar[str] = "one-hot"


@ENCODINGS.register
class TokenAndPosition(Encoding):
    """One-hot tokens stand above one-hot positions, in queries and keys (``inputs="token+position"``)."""

    name: ClassVar[str] = "token+position"

    def pooling_cost(self, V: Array, L: Array) -> Array:
        return np.asarray((V * L / (V + L)) ** 2)

    def shape(self, V: int, L: int) -> tuple[int, int]:
        return V + L, V + L

    def weights(self, logits: Array, V: int) -> Array:
        """A constant is shared by all four blocks; the rest is the position-position block's."""
        G = np.zeros((V + len(logits),) * 2)
        constant = logits.min()
        G += constant / 4
        G[V:, V:] += logits - constant
        return G


@ENCODINGS.register
class Relative(Encoding):
    """One logit for each distance, H_ij = b_{i−j}, shared by all rows; distances are cyclic where there is no mask."""

    name: ClassVar[str] = "relative"
    per_row: ClassVar[bool] = False

    def gain(self, V: Array, L: Array) -> Array:
        """A bias is paid once and not in each of L rows."""
        return np.sqrt(L)

    def shape(self, V: int, L: int) -> tuple[int, int]:
        return 1, L

    def logits(self, G: Tensor, L: int) -> Tensor:
        return G[..., 0, self._distance(L)]

    def collect(self, dH: Tensor, L: int) -> Tensor:
        import torch

        index = torch.from_numpy(self._distance(L).reshape(-1)).to(dH.device)
        total = torch.zeros(*dH.shape[:-2], L, dtype=dH.dtype, device=dH.device)
        return total.index_add_(-1, index, dH.reshape(*dH.shape[:-2], L * L))[..., None, :]

    def weights(self, logits: Array, V: int) -> Array:
        L = len(logits)
        return np.asarray(np.bincount(self._distance(L).ravel(), logits.ravel(), L) / L)[None]

    def _distance(self, L: int) -> NDArray[np.int64]:
        return np.asarray((np.arange(L)[:, None] - np.arange(L)) % L)
