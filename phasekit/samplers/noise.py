"""Random numbers that belong to (purpose, key of the chain, step), and to nothing else.

The bits come from NumPy's PCG64DXSM, whose n-th word can be reached directly ("advance"), so that it serves as a
function of a key and a counter. A chain's generator is seeded by a hash of the purpose and the chain's own numbers; the
counter is the step times the words a step uses. Hence any step of any chain can be reached directly: splitting an
ensemble, adding members to it, or resuming it changes nothing. (Philox does the same and took a third more time for
normal numbers; both pass the usual batteries of tests.) Bits are drawn on the CPU, so every device sees the same; they
become normal numbers on the device.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from phasekit.errors import InputError

Key = tuple[int, ...]

# Normal numbers are made for rows padded to this many, so that vectorised functions see the same layout in every row:
# their results then don't depend on where in an ensemble a chain stands.
_PADDING = 32
# Normal numbers made ahead in one go: at most this many steps, and numbers in all.
_STEPS_AHEAD, _NUMBERS_AHEAD = 64, 2**21
# Numbers on the way from bits to normal numbers: on a CPU they should stay in its cache, a GPU wants large pieces.
_NUMBERS_AT_ONCE = {"cpu": 2**17, "cuda": 2**24}


class Words:
    """64-bit words for each chain and step.

    Parameters
    ----------
    purpose : str
        Streams for different purposes are independent.
    keys : sequence of tuples of int
        One for each chain: whole numbers from 0 to 2⁶⁴ - 1, such as (seed, member).
    size : int
        Words for each step.

    Raises
    ------
    InputError
        If a key holds anything else, or two chains have the same.
    """

    def __init__(self, purpose: str, keys: Sequence[Key], size: int) -> None:
        if len(set(keys)) != len(keys):
            raise InputError("random streams' keys", list(keys), "must differ from chain to chain")
        self.size = size
        self._seeds = [_hash(purpose, key) for key in keys]
        self._generators = [np.random.PCG64DXSM(seed) for seed in self._seeds]
        self._next = [0] * len(self._seeds)

    def take(self, step: int, steps: int, chains: slice = slice(None)) -> Tensor:
        """Return the words of ``steps`` steps from ``step`` on, as int64 of shape (chains, steps, size)."""
        where = range(*chains.indices(len(self._seeds)))
        words = np.empty((len(where), steps, self.size), dtype=np.uint64)
        for row, chain in zip(words, where, strict=True):
            row[:] = self._generator(chain, step).random_raw(steps * self.size).reshape(steps, self.size)
            self._next[chain] = step + steps
        return torch.from_numpy(words.view(np.int64))

    def _generator(self, chain: int, step: int) -> np.random.PCG64DXSM:
        """Return the chain's generator, about to draw the step's first word."""
        if self._next[chain] != step:
            self._generators[chain] = np.random.PCG64DXSM(self._seeds[chain])
            self._generators[chain].advance(step * self.size)
        return self._generators[chain]


class NormalStreams:
    """Standard normal numbers for each chain and step.

    Parameters
    ----------
    purpose, keys
        See :class:`Words`.
    size : int
        Numbers for each step.
    dtype : torch.float32 or torch.float64
        The two draw from the same streams, but not the same numbers: one word makes two float32 or one float64.
    device : torch.device
    """

    def __init__(
        self, purpose: str, keys: Sequence[Key], size: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self._size, self._dtype, self._device, self._chains = size, dtype, torch.device(device), len(keys)
        self._padded = -(-size // _PADDING) * _PADDING
        self._words = Words(purpose, keys, self._padded // (2 if dtype == torch.float32 else 1))
        self._ahead = max(1, min(_STEPS_AHEAD, _NUMBERS_AHEAD // (self._padded * len(keys))))
        self._at_once = max(1, _NUMBERS_AT_ONCE[self._device.type] // (self._padded * self._ahead))
        self._ready: Tensor | None = None
        self._first = 0

    def at(self, step: int) -> Tensor:
        """Return the numbers of a step, shape (chains, size); they are overwritten later. Steps in order are fast."""
        if self._ready is None or not self._first <= step < self._first + self._ahead:
            self._ready = self._make(step)
        return self._ready[step - self._first, :, : self._size]

    def _make(self, first: int) -> Tensor:
        """Make the numbers of some steps, shape (steps, chains, padded size)."""
        self._first, shape = first, (self._ahead, self._chains, self._padded)
        ready = torch.empty(shape, dtype=self._dtype, device=self._device) if self._ready is None else self._ready
        for begin in range(0, self._chains, self._at_once):
            chains = slice(begin, begin + self._at_once)
            words = self._words.take(first, self._ahead, chains).to(self._device)
            box_muller(words, out=ready[:, chains].transpose(0, 1))
        return ready


class UniformStreams:
    """Numbers uniform over (0, 1), in float64, for each chain and step.

    Parameters
    ----------
    purpose, keys, size, device
        As for :class:`NormalStreams`.
    """

    def __init__(self, purpose: str, keys: Sequence[Key], size: int, device: torch.device | str) -> None:
        self._words, self._size, self._device = Words(purpose, keys, size), size, device

    def at(self, step: int) -> Tensor:
        """Return the numbers of a step, shape (chains, size)."""
        words = self._words.take(step, 1)[:, 0, : self._size].to(self._device)
        return (words.bitwise_right_shift(12).double() + (2**51 + 0.5)) * 2.0**-52

    def below(self, bound: int | Tensor, step: int) -> Tensor:
        """Return whole numbers from 0 to bound - 1, shape (chains, size). Some are likelier by bound/2⁶⁴ at most."""
        return self._words.take(step, 1)[:, 0, : self._size].to(self._device).remainder(bound)


def key_of(*parts: int | str) -> Key:
    """Return a chain's key from whole numbers and words."""
    return tuple(zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts)


def _hash(purpose: str, key: Key) -> np.random.SeedSequence:
    """Return what seeds the generator of a purpose and a key."""
    words = [zlib.crc32(purpose.encode()), len(key)]
    for part in key:
        if isinstance(part, bool) or not isinstance(part, int | np.integer) or not 0 <= part < 2**64:
            raise InputError("random stream's key", key, "must hold whole numbers from 0 to 2^64 - 1")
        words += divmod(int(part), 2**32)  # two words a part: no two keys look alike
    return np.random.SeedSequence(words)


def box_muller(words: Tensor, out: Tensor) -> None:
    """Overwrite ``out`` by √(-2 ln u) (cos φ, sin φ), from random bits: half of them make u, the others φ.

    Parameters
    ----------
    words : Tensor, int64, shape (..., words)
    out : Tensor, shape (..., 2·words) of float32 or (..., words) of float64
        float32 takes 32 bits a number, and reaches 6.6 standard deviations; float64 takes 64, and reaches 9.4.
    """
    integers, largest = (words.view(torch.int32), 2.0**31) if out.dtype == torch.float32 else (words, 2.0**63)
    half = integers.shape[-1] // 2
    # |integer| keeps its low bits near 0, where the logarithm needs them
    radius = integers[..., :half].to(out.dtype).abs_().add_(0.5).mul_(1 / largest).log_().mul_(-2).sqrt_()
    angle = integers[..., half:].to(out.dtype).mul_(math.pi / largest)
    torch.mul(radius, angle.cos(), out=out[..., :half])
    torch.mul(radius, angle.sin_(), out=out[..., half:])
