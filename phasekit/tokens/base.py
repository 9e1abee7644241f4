"""What a token law is to the theory and to networks, and the laws that there are (docs/beyond.md)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from phasekit.describe import Description, Registry
from phasekit.errors import InputError

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # of the sum of given frequencies
#: Ranks that are summed one by one, nodes in each block of further ones, and the exponent up to which that is exact.
_ALL_RANKS, _NODES, _STEEP = 64, 16, 4.0


class TokenLaw(Description):
    """Frequencies of tokens, which are drawn independently of each other unless the law says otherwise.

    Attributes
    ----------
    name : str
    uniform : bool
        Whether all tokens are equally frequent, and drawn independently.
    """

    name: ClassVar[str]

    @classmethod
    def in_errors(cls, field: str) -> str:
        return f"tokens {cls.name}: {field}"

    @property
    def uniform(self) -> bool:
        return False

    def check(self, V: int, L: int) -> None:
        """Raise InputError if sequences of L tokens out of V can't be drawn by this law."""

    def frequencies(self, V: int) -> Array:
        """Return the probability of each token, shape (V,), positive, of sum 1."""
        raise NotImplementedError

    def levels(self, V: int) -> tuple[Array, Array]:
        """Return frequencies and how many tokens have each: sums over the vocabulary are sums over these."""
        frequency, count = np.unique(self.frequencies(V), return_counts=True)
        return frequency, count.astype(float)

    def separation(self, V: Array) -> Array:
        """Return by what factor 1 − g and 1 − q are larger than an attention row's own, as far as tokens show.

        1 for independent tokens. Different ones know of each other what they are not.
        """
        return np.ones(())

    def draw(self, random: np.random.Generator, V: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        """Draw sequences, shape (P, L), of tokens 0 … V − 1."""
        borders = np.cumsum(self.frequencies(V))
        return np.minimum(np.searchsorted(borders, random.random(shape), side="right"), V - 1).astype(dtype)


TOKEN_LAWS: Registry[TokenLaw] = Registry("tokens", TokenLaw)


@TOKEN_LAWS.register
class Uniform(TokenLaw):
    """All tokens are equally frequent.

    Parameters
    ----------
    replacement : bool
        Whether a token may come again in its sequence. If not, sequences are L different tokens in random order.
    """

    name: ClassVar[str] = "uniform"

    replacement: bool = True

    @property
    def uniform(self) -> bool:
        return self.replacement

    def check(self, V: int, L: int) -> None:
        if not self.replacement and V < L:
            raise InputError("V", V, f"{L} different tokens need a vocabulary of at least {L}")

    def frequencies(self, V: int) -> Array:
        return np.full(V, 1 / V)

    def levels(self, V: int) -> tuple[Array, Array]:
        return np.array([1 / V]), np.array([float(V)])

    def separation(self, V: Array) -> Array:
        return np.ones(()) if self.replacement else np.asarray(V / (V - 1))

    def draw(self, random: np.random.Generator, V: int, shape: tuple[int, int], dtype: Any) -> NDArray[Any]:
        if self.replacement:
            return random.integers(V, size=shape, dtype=dtype)
        P, L = shape
        return np.array([random.permutation(V)[:L] for _ in range(P)], dtype=dtype)


@TOKEN_LAWS.register
class Zipf(TokenLaw):
    """The a-th most frequent token has a frequency proportional to a^(−exponent).

    Parameters
    ----------
    exponent : float
        ζ, at least 0 (0: uniform).
    """

    name: ClassVar[str] = "zipf"

    exponent: float = Field(default=1.0, ge=0, le=100)

    def frequencies(self, V: int) -> Array:
        weights = np.arange(1.0, V + 1) ** -self.exponent
        return np.asarray(weights / weights.sum())

    def levels(self, V: int) -> tuple[Array, Array]:
        if self.exponent > _STEEP:
            return super().levels(V)
        rank, count = _thinned(V)
        weights = rank**-self.exponent
        return weights / (count @ weights), count


@TOKEN_LAWS.register
class Given(TokenLaw):
    """Frequencies of one's own, those of a text, say (:func:`unigrams`).

    Parameters
    ----------
    frequency : tuple of float
        One positive number for each token of the vocabulary; their sum is 1.
    """

    name: ClassVar[str] = "given"

    frequency: tuple[float, ...]

    @field_validator("frequency", mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return given.replace("+", ",").split(",") if isinstance(given, str) else given

    @field_validator("frequency")
    @classmethod
    def _are_probabilities(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if len(given) < 2 or min(given) <= 0 or max(given) >= 1 or abs(sum(given) - 1) > _ROUNDING:
            allowed = f"must be at least two numbers between 0 and 1, and of sum 1, not {sum(given):g}"
            raise InputError("frequency", given, allowed)
        return given

    def check(self, V: int, L: int) -> None:
        if len(self.frequency) != V:
            raise InputError("V", V, f"must be the number of given frequencies, {len(self.frequency)}")

    def frequencies(self, V: int) -> Array:
        self.check(V, 2)
        return np.asarray(self.frequency)


def _thinned(V: int) -> tuple[Array, Array]:
    """Return ranks and weights with which a smooth function of ln rank is summed over 1 … V, to rounding.

    The first ranks are all there. Further ones fall into blocks from m to 2m − 1; in each Gauss's quadrature for the
    uniform measure on its N integers takes the place of the sum (Golub and Welsch; its orthogonal polynomials are
    Gram's, with recurrence coefficients β_k = k²(N² − k²)/(4(4k² − 1))).
    """
    ranks, weights, first = [np.arange(1.0, min(V, _ALL_RANKS) + 1)], [np.ones(min(V, _ALL_RANKS))], _ALL_RANKS + 1
    k = np.arange(1.0, _NODES)
    while first <= V:
        N = min(first, V + 1 - first)
        if N <= 2 * _NODES:
            ranks.append(first + np.arange(float(N)))
            weights.append(np.ones(N))
        else:
            from scipy.linalg import eigh_tridiagonal  # a model alone needs no SciPy

            places, vectors = eigh_tridiagonal(
                np.full(_NODES, (N - 1) / 2), k / 2 * np.sqrt((N**2 - k**2) / (4 * k**2 - 1))
            )
            ranks.append(first + places)
            weights.append(N * vectors[0] ** 2)
        first += N
    return np.concatenate(ranks), np.concatenate(weights)


def unigrams(path: str | Path, V: int | None = None) -> Given:
    """Return the frequencies of words in a text, most frequent first: of all, or of the V most frequent among them.

    Words are what stands between blanks. Frequencies of the V most frequent words are those in a text without the
    others.

    Raises
    ------
    InputError
        If the file can't be read, or has less than two, or less than V, different words.
    """
    try:
        counts = Counter(Path(path).read_text("utf-8").split()).most_common(V)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("tokens", str(path), f"can't be read as text ({type(error).__name__})") from None
    if len(counts) < max(2, V or 2):
        raise InputError("tokens", str(path), f"has {len(counts)} different words, and {max(2, V or 2)} are needed")
    numbers = np.array([count for _, count in counts], dtype=float)
    return Given(frequency=tuple((numbers / numbers.sum()).tolist()))
