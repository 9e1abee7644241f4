"""What an encoding is to the theory and to networks, and the encodings that there are (docs/beyond.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from phasekit.describe import Description, Registry
from phasekit.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # of a kernel, against its largest entry or eigenvalue


class Encoding(Description):
    """How logits depend on positions, through weights G whose entries have independent Gaussian priors.

    A gap Δ between the copy entry and all others of every row costs ``(L − 1) Δ²/(2σ²)`` and a common logit m of all
    entries ``λ m²/(2σ²)``, with σ = gain · σ_g: these two numbers are what the theory of two levels needs.

    Attributes
    ----------
    name : str
    per_row : bool
        Whether each row has logits of its own. If not, all rows share theirs, and no average over rows is sharp.
    any_length : bool
        Whether there are such positions in contexts of every length.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = True
    any_length: ClassVar[bool] = True

    @classmethod
    def in_errors(cls, field: str) -> str:
        return f"encoding {cls.name}: {field}"

    def gain(self, V: Array, L: Array) -> Array:
        """Return by how much a gap is cheaper than with one-hot positions: σ = gain · σ_g."""
        return np.ones(())

    def pooling_cost(self, V: Array, L: Array) -> Array:
        """Return λ of the cost λ m²/(2σ²) of a logit m that all entries share."""
        return np.asarray(L**2)

    def basis(self, L: int) -> Array | None:
        """Return what logits by distance (rows, 0 … L − 1, cyclic) are made of, one column for each whitened weight.

        None where every pattern of two levels can be made, whose cost :meth:`gain` says: nothing is cheaper then.
        """
        return None

    @property
    def two_levels(self) -> bool:
        """Whether every pattern of two levels can be made, so that :meth:`gain` says what it costs."""
        return self.basis(2) is None

    def check(self, L: int) -> None:
        """Raise InputError if there are no such positions in a context of this length."""

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
        return G[..., 0, distances(L)]

    def collect(self, dH: Tensor, L: int) -> Tensor:
        return by_distance(dH)[..., None, :]

    def weights(self, logits: Array, V: int) -> Array:
        L = len(logits)
        return np.asarray(np.bincount(distances(L).ravel(), logits.ravel(), L) / L)[None]


class Waves(Encoding):
    """What rotary and sinusoidal encodings share: a number of frequencies, of which logits by distance are made.

    Parameters
    ----------
    frequencies : int
        How many; each has two weights for a pattern, a cosine's and a sine's.
    """

    frequencies: int = Field(default=8, ge=1, le=2**20)

    def waves(self, L: int) -> Array:
        """Return cosines, then sines, at distances 0 … L − 1, shape (L, 2·frequencies)."""
        phase = self.back(L)[:, None] * self.angles(L)
        return np.concatenate([np.cos(phase), np.sin(phase)], 1)

    def angles(self, L: int) -> Array:
        """Return the angles by which a position turns, one for each frequency."""
        raise NotImplementedError

    def back(self, L: int) -> Array:
        """Return by how much a distance 0 … L − 1 turns."""
        return np.arange(float(L))


@ENCODINGS.register
class Rotary(Waves):
    """Queries and keys turn with their position: b_d = Σ_f Re z_f e^(iω_f d), ω_f = base^(−f/F), shared by all rows.

    Distances are those to the nearest copy of a key where positions are cyclic: from −L/2 to L/2.

    Parameters
    ----------
    frequencies : int
        F, half the head's dimension.
    base : float
        From ω = 1 on frequencies fall geometrically, by this factor from the first to the one after the last.
    """

    name: ClassVar[str] = "rotary"
    per_row: ClassVar[bool] = False

    base: float = Field(default=1e4, gt=1, le=1e12)

    def angles(self, L: int) -> Array:
        return np.asarray(self.base ** (-np.arange(self.frequencies) / self.frequencies))

    def back(self, L: int) -> Array:
        return (np.arange(float(L)) + L // 2) % L - L // 2

    def basis(self, L: int) -> Array | None:
        return self.waves(L)

    def shape(self, V: int, L: int) -> tuple[int, int]:
        return 1, 2 * self.frequencies

    def logits(self, G: Tensor, L: int) -> Tensor:
        import torch

        waves = torch.from_numpy(self.waves(L)).to(G)
        return (G[..., 0, :] @ waves.T)[..., distances(L)]

    def collect(self, dH: Tensor, L: int) -> Tensor:
        import torch

        return (by_distance(dH) @ torch.from_numpy(self.waves(L)).to(dH))[..., None, :]

    def weights(self, logits: Array, V: int) -> Array:
        L = len(logits)
        mean = np.bincount(distances(L).ravel(), logits.ravel(), L) / L
        return np.asarray(np.linalg.lstsq(self.waves(L), mean)[0])[None]


class Vectors(Encoding):
    """What encodings by vectors share: positions are vectors e_i, and logits e_iᵀ G e_j with a full matrix G."""

    def positions(self, L: int) -> Array:
        """Return e_i, shape (L, d)."""
        raise NotImplementedError

    def shape(self, V: int, L: int) -> tuple[int, int]:
        width = self.positions(L).shape[1]
        return width, width

    def logits(self, G: Tensor, L: int) -> Tensor:
        import torch

        positions = torch.from_numpy(self.positions(L)).to(G)
        return positions @ G @ positions.T

    def collect(self, dH: Tensor, L: int) -> Tensor:
        import torch

        positions = torch.from_numpy(self.positions(L)).to(dH)
        return positions.T @ dH @ positions

    def weights(self, logits: Array, V: int) -> Array:
        inverse = np.linalg.pinv(self.positions(len(logits)))
        return np.asarray(inverse @ logits @ inverse.T)


@ENCODINGS.register
class Sinusoidal(Vectors, Waves):
    """Positions are unit vectors of cosines and sines, e_i, and logits e_iᵀ G e_j with a full matrix G.

    Frequencies are 2πf/L for f = 1 … F, so that positions are cyclic. With all of them (F = (L − 1)/2) the price of a
    pattern is that of one-hot positions, up to its mean.
    """

    name: ClassVar[str] = "sinusoidal"

    def angles(self, L: int) -> Array:
        return 2 * np.pi * np.arange(1, self.frequencies + 1) / L

    def positions(self, L: int) -> Array:
        return np.asarray(self.waves(L) / np.sqrt(self.frequencies))

    def basis(self, L: int) -> Array | None:
        # Of G only what turns a query's wave into a key's of the same frequency depends on the distance alone:
        # two weights for each frequency, each of which two entries of G share.
        return np.asarray(self.waves(L) / (np.sqrt(2) * self.frequencies))


@ENCODINGS.register
class Matrix(Vectors):
    """Positions are vectors of one's own, the rows e_i of a matrix E, and logits e_iᵀ G e_j with a full matrix G.

    Logits H cost ``tr(K⁺ H K⁺ Hᵀ)/(2σ_g²)`` with the kernel K = E Eᵀ. The theory is that of kernels that depend on the
    distance alone, cyclically: K's eigenvectors are waves, and logits by distance with the Fourier components h_k cost
    ``Σ |h_k|²/λ_k²`` with K's eigenvalues λ_k. Networks take any matrix.

    Parameters
    ----------
    width : int
        d, the numbers in a row.
    entries : tuple of float
        E row by row, L·d numbers.
    """

    name: ClassVar[str] = "matrix"
    any_length: ClassVar[bool] = False

    width: int = Field(ge=1, le=2**20)
    entries: tuple[float, ...]

    @field_validator("entries", mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return given.replace("+", ",").split(",") if isinstance(given, str) else given

    @field_validator("entries")
    @classmethod
    def _are_positions(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not any(given):
            raise InputError("entries", given, "must be numbers that aren't all zero")
        return given

    @property
    def two_levels(self) -> bool:
        return False

    def check(self, L: int) -> None:
        if len(self.entries) != L * self.width:
            allowed = f"must be L · width = {L} · {self.width} numbers"
            raise InputError(self.in_errors("entries"), f"{len(self.entries)} numbers", allowed)

    def positions(self, L: int) -> Array:
        self.check(L)
        return np.reshape(self.entries, (L, self.width))

    def basis(self, L: int) -> Array | None:
        kernel = self.positions(L) @ self.positions(L).T
        size = np.abs(kernel).max()
        if np.abs(kernel - kernel[0][distances(L)]).max() > _ROUNDING * size:
            raise InputError("encoding", self.name, "has a theory where e_i · e_j depends on the distance i − j alone")
        values = np.fft.rfft(kernel[0]).real
        columns = []
        for k in np.flatnonzero(values > _ROUNDING * values.max()):
            phase = 2 * np.pi * k * np.arange(L) / L
            if 2 * k % L == 0:  # a real wave: one weight
                columns.append(values[k] / L * np.cos(phase))
            else:  # h_k and h_(−k) share two weights
                columns += [np.sqrt(2) * values[k] / L * wave for wave in (np.cos(phase), np.sin(phase))]
        return np.stack(columns, 1)


def matrix_from(path: str | Path) -> Matrix:
    """Return positions from a text file: a line for each, its numbers between blanks.

    Raises
    ------
    InputError
        If the file can't be read, or isn't such a table of numbers.
    """
    try:
        rows = [[float(word) for word in line.split()] for line in Path(path).read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError("encoding", str(path), f"can't be read as numbers ({type(error).__name__})") from None
    rows = [row for row in rows if row]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise InputError("encoding", str(path), "must have a line of equally many numbers for each position")
    return Matrix(width=widths.pop(), entries=tuple(number for row in rows for number in row))


@ENCODINGS.register
class ALiBi(Encoding):
    """Logits fall with the distance, H_ij = −m (i − j), with one slope m: the nearest key is always the highest."""

    name: ClassVar[str] = "alibi"
    per_row: ClassVar[bool] = False

    def basis(self, L: int) -> Array | None:
        return -np.arange(float(L))[:, None]

    def shape(self, V: int, L: int) -> tuple[int, int]:
        return 1, 1

    def logits(self, G: Tensor, L: int) -> Tensor:
        import torch

        return -G * torch.from_numpy(distances(L)).to(G)

    def collect(self, dH: Tensor, L: int) -> Tensor:
        import torch

        return -(dH * torch.from_numpy(distances(L)).to(dH)).sum((-2, -1), keepdim=True)

    def weights(self, logits: Array, V: int) -> Array:
        back = distances(len(logits))
        return np.asarray([[-(logits * back).sum() / (back**2).sum()]])


def distances(L: int) -> NDArray[np.int64]:
    """Return how far back each key is from each query, cyclically, shape (L, L)."""
    return np.asarray((np.arange(L)[:, None] - np.arange(L)) % L)


def by_distance(dH: Tensor) -> Tensor:
    """Return sums over the entries of equal distance, shape (..., L, L) to (..., L)."""
    import torch

    L = dH.shape[-1]
    index = torch.from_numpy(distances(L).reshape(-1)).to(dH.device)
    total = torch.zeros(*dH.shape[:-2], L, dtype=dH.dtype, device=dH.device)
    return total.index_add_(-1, index, dH.reshape(*dH.shape[:-2], L * L))
