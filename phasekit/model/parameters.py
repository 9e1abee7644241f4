"""The numbers of one model, or of many, as the arrays that theory computes with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.encodings import Encoding, OneHot
from phasekit.masks import Mask, NoMask
from phasekit.tokens import TokenLaw, Uniform

Inputs = Literal["positional", "token+position"]
Estimator = Literal["map", "posterior"]

#: The model's fields that may become an axis of a grid, in the order of :class:`Parameters`.
AXES = ("P", "V", "L", "sigma_w", "sigma_g", "kappa")
INTEGER_AXES = ("V", "L")

#: The smallest and largest value of each number. V and L end where float64, in which the theory is computed, begins to
#: skip integers; the others at magnitudes whose powers in the actions neither overflow nor vanish.
RANGES = {
    "V": (2, 2**53),
    "L": (2, 2**53),
    "P": (1e-12, 1e20),
    "sigma_w": (1e-9, 1e9),
    "sigma_g": (1e-9, 1e9),
    "kappa": (1e-9, 1e9),
}
#: The same in words, for errors.
RULES = {
    "V": "the vocabulary size must be an integer of at least 2 (and at most 2^53)",
    "L": "the context length must be an integer of at least 2 (and at most 2^53)",
    "P": "the number of training sequences must be a number above 0 (1e-12 to 1e20)",
    "sigma_w": "the prior's standard deviation must be a number above 0 (1e-9 to 1e9)",
    "sigma_g": "the prior's standard deviation must be a number above 0 (1e-9 to 1e9)",
    "kappa": "the temperature must be a number above 0 (1e-9 to 1e9)",
}


class Setting(NamedTuple):
    """What all models of a grid share beside their score: no numbers that could be varied."""

    encoding: Encoding = OneHot()
    mask: Mask = NoMask()
    tokens: TokenLaw = Uniform()


@dataclass(frozen=True)
class Parameters:
    """The numbers of one model or of a whole grid, as float64 arrays that broadcast against each other.

    This is what actions compute with. ``V`` and ``L`` are real here (the theory is analytic in them).

    Attributes
    ----------
    P, V, L, sigma_w, sigma_g, kappa : arrays that broadcast to one common shape
    setting : Setting
        Encoding, mask and token law.
    score : mapping of str to array
        The score function's own numbers by name (n and b of SSA; see :attr:`phasekit.scores.Score.numbers`).
    """

    P: NDArray[np.float64]
    V: NDArray[np.float64]
    L: NDArray[np.float64]
    sigma_w: NDArray[np.float64]
    sigma_g: NDArray[np.float64]
    kappa: NDArray[np.float64]
    setting: Setting = field(default_factory=Setting)
    score: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(number) for number in self.numbers))

    @property
    def strength(self) -> NDArray[np.float64]:
        """t = Pσ_w²/(κV), the strength of the data against the prior of W (docs/theory.md, section 2)."""
        return self.P * self.sigma_w**2 / (self.kappa * self.V)

    def with_strength(self, t: float | NDArray[np.float64]) -> Parameters:
        """Return a copy with the P that makes the data's :attr:`strength` ``t``; P has the common shape."""
        return self.replace(P=t * self.kappa * self.V / self.sigma_w**2 * np.ones(self.shape))

    @property
    def logit_scale(self) -> NDArray[np.float64]:
        """σ of the cost (L − 1) Δ²/(2σ²) of a gap Δ in every row: σ_g, times the encoding's gain."""
        return self.sigma_g * self.setting.encoding.gain(self.V, self.L)

    @property
    def pooling_cost(self) -> NDArray[np.float64]:
        """λ of the prior cost λ s²/(2σ²) of a uniform linear attention pattern (docs/theory.md, section 4)."""
        return self.setting.encoding.pooling_cost(self.V, self.L)

    @property
    def numbers(self) -> tuple[NDArray[np.float64], ...]:
        """All arrays, those of :data:`AXES` first, then the score's own; :meth:`with_numbers` takes them back."""
        return (*(getattr(self, name) for name in AXES), *self.score.values())

    def with_numbers(self, numbers: Iterable[NDArray[np.float64]]) -> Parameters:
        """Return a copy with all arrays exchanged, in the order of :attr:`numbers`."""
        named = dict(zip((*AXES, *self.score), numbers, strict=True))
        own = {name: named.pop(name) for name in self.score}
        return Parameters(**named, setting=self.setting, score=own)

    def replace(self, **changes: ArrayLike) -> Parameters:
        """Return a copy with some numbers exchanged (no validation: for solvers that vary P, L or a score's n)."""
        values = dict(zip((*AXES, *self.score), self.numbers, strict=True))
        unknown = changes.keys() - values.keys()
        if unknown:
            raise TypeError(f"no such numbers: {', '.join(sorted(unknown))}")
        values.update({name: np.asarray(value, dtype=float) for name, value in changes.items()})
        return self.with_numbers(values.values())

    def with_score(self, score: Mapping[str, NDArray[np.float64]]) -> Parameters:
        """Return a copy with the numbers of another score."""
        return replace(self, score=score)

    def ravel(self) -> Parameters:
        """Broadcast all numbers to the common shape and flatten them."""
        arrays = np.broadcast_arrays(*self.numbers)
        return self.with_numbers(np.ascontiguousarray(a).reshape(-1) for a in arrays)

    def expand(self) -> Parameters:
        """Append one axis of length 1, so that the numbers broadcast against a trailing axis of candidates."""
        return self.with_numbers(np.asarray(number)[..., None] for number in self.numbers)

    def __getitem__(self, index: Any) -> Parameters:
        """Index flattened parameters (see :meth:`ravel`)."""
        return self.with_numbers(number[index] for number in self.numbers)
