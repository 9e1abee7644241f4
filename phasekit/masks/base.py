"""What a mask is to the theory and to networks, and the masks that there are (docs/beyond.md)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from phasekit.describe import Description, Registry


class Mask(Description):
    """Which keys a position may attend to.

    Position i (from 1) is to copy the token at position i − 1. Without a mask positions are cyclic, and position 1
    copies the last token; with one, positions that don't see their target don't count: they are in no average, and
    the loss is the mean over the others.

    Attributes
    ----------
    name : str
    """

    name: ClassVar[str]

    @classmethod
    def in_errors(cls, field: str) -> str:
        return f"mask {cls.name}: {field}"

    @property
    def hides(self) -> bool:
        """Whether any key is hidden from any position."""
        return True

    def visible(self, L: int) -> NDArray[np.bool_]:
        """Return which keys (columns) each position (row) sees, shape (L, L)."""
        raise NotImplementedError

    def keys(self, L: int) -> NDArray[np.int64]:
        """Return how many keys each position sees that counts, itself included, shape (positions that count,)."""
        return np.asarray(self.visible(L).sum(1)[self.counted(L)])

    def mean_keys(self, L: int) -> float:
        """Return the harmonic mean of :meth:`keys`: one over the copy weight of attention that is spread evenly."""
        return float(1 / np.mean(1 / self.keys(L)))

    def counted(self, L: int) -> NDArray[np.bool_]:
        """Return which positions see the token that they are to copy, shape (L,)."""
        visible, target = self.visible(L), np.arange(L) - 1
        return np.asarray(visible[np.arange(L), target]) & (target >= 0)


MASKS: Registry[Mask] = Registry("mask", Mask)


@MASKS.register
class NoMask(Mask):
    """Every position sees all, cyclically."""

    name: ClassVar[str] = "none"

    @property
    def hides(self) -> bool:
        return False

    def visible(self, L: int) -> NDArray[np.bool_]:
        return np.ones((L, L), dtype=bool)

    def mean_keys(self, L: int) -> float:
        return L

    def counted(self, L: int) -> NDArray[np.bool_]:
        return np.ones(L, dtype=bool)


@MASKS.register
class Causal(Mask):
    """Position i sees positions 1 … i."""

    name: ClassVar[str] = "causal"

    def visible(self, L: int) -> NDArray[np.bool_]:
        return np.tri(L, dtype=bool)

    def keys(self, L: int) -> NDArray[np.int64]:
        return np.arange(2, L + 1)  # without an L × L array


@MASKS.register
class Window(Mask):
    """A causal window: position i sees itself and the ``width`` − 1 positions before it.

    Parameters
    ----------
    width : int
        At least 2, because a position that sees itself only has nothing to copy.
    """

    name: ClassVar[str] = "window"

    width: int = Field(ge=2, le=2**53)

    def visible(self, L: int) -> NDArray[np.bool_]:
        back = np.arange(L)[:, None] - np.arange(L)
        return np.asarray((back >= 0) & (back < self.width))

    def keys(self, L: int) -> NDArray[np.int64]:
        return np.minimum(np.arange(2, L + 1), self.width)
