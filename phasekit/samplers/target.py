"""What a sampler needs to know of the distribution it samples: exp(-U/T) through U and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from phasekit.errors import InputError
from phasekit.samplers.noise import Key

#: Where chains stand (or their momenta, gradients ...): tensors of shape (chains, ...). A head's are W and G.
#: Leading dimensions may be split: (data sets, members, ...).
Parts = tuple[Tensor, ...]


class Gradient(Protocol):
    """The gradient of U for fixed buffers; binding once and calling many times keeps the workspace."""

    def __call__(self, step: int) -> None:
        """Overwrite the gradient by dU/dθ at what the position holds now. A minibatch is chosen by the step."""

    def energy(self) -> Tensor:
        """Return U, shape (chains,), at the position (and for the minibatch) of the last call."""


class Target(Protocol):
    """The distribution exp(-U(θ)/T) of several independent chains."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parts of a position; their leading dimensions multiply to ``chains``."""

    @property
    def chains(self) -> int:
        """Number of chains."""

    @property
    def scales(self) -> tuple[float, ...]:
        """The unit in which samplers measure each part of θ.

        For heads the priors' σ_w and σ_g: the prior is standard normal in θ/scale, and one step size suits both.
        """

    @property
    def exact(self) -> bool:
        """Whether the gradient is that of U itself, not an estimate from a minibatch."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of positions."""

    @property
    def device(self) -> torch.device:
        """Where positions are."""

    def bind(self, position: Parts, gradient: Parts) -> Gradient:
        """Return what computes the gradient at ``position`` into ``gradient``, as often as these buffers change."""


S = TypeVar("S", bound="State")


@dataclass
class State:
    """Everything that determines how chains go on: saved and loaded, they go on bit for bit.

    Attributes
    ----------
    step : int
        Updates done. With the chains' keys it determines all random numbers to come.
    position : tuple of Tensor
    gradient : tuple of Tensor
        dU/dθ at the position (for the minibatch of ``step``, if there are minibatches).
    """

    step: int
    position: Parts
    gradient: Parts

    def copy(self: S) -> S:
        """Return a copy that shares no buffer."""
        return replace(self, **{f.name: _clone(getattr(self, f.name)) for f in fields(self)})

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name, the step among them."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            named = {f"{field.name} {k}": part for k, part in enumerate(value)} if isinstance(value, tuple) else {}
            found.update(named or {field.name: torch.as_tensor(value)})
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Overwrite everything by what :meth:`tensors` returned."""
        for name, tensor in self.tensors().items():
            if name == "step":
                self.step = int(tensors[name])
            else:
                tensor.copy_(tensors[name])


class Init(Protocol):
    """Start chains at a position, shape (chains, ...) each part; copied."""

    def __call__(self, position: Parts) -> Any: ...


class Update(Protocol):
    """Take one step and return the new state; ``inplace`` reuses the old one's buffers, and is faster."""

    def __call__(self, state: Any, inplace: bool = False) -> Any: ...


class Kernel(NamedTuple):
    """A sampler, built: two functions."""

    init: Init
    update: Update


class Evaluator:
    """Keeps states' gradients up to date; binds anew when a state with other buffers comes along."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._buffers: Parts = ()

    def __call__(self, state: State) -> None:
        """Compute the gradient at the state's position."""
        if state.position is not self._buffers:
            self._buffers = state.position
            self._gradient = self._target.bind(state.position, state.gradient)
        self._gradient(state.step)

    def energy(self) -> Tensor:
        """Return U, shape (chains,), at the position of the last call."""
        return self._gradient.energy()


def start(target: Target, position: Parts) -> tuple[Parts, Parts]:
    """Return a contiguous copy of a position, and room for its gradient.

    Raises
    ------
    InputError
        If the shapes aren't the target's, or a number isn't finite.
    """
    found = tuple(tuple(part.shape) for part in position)
    if found != tuple(target.shapes):
        raise InputError("position's shapes", found, f"must be {target.shapes}")
    if not all(bool(torch.isfinite(part).all()) for part in position):
        raise InputError("position", "not finite", "chains must start at finite numbers")
    copies = tuple(part.detach().to(target.device, target.dtype, copy=True).contiguous() for part in position)
    return copies, tuple(torch.zeros_like(part) for part in copies)


def check_keys(target: Target, keys: Sequence[Key]) -> None:
    """Refuse keys that aren't one for each chain.

    Raises
    ------
    InputError
    """
    if len(keys) != target.chains:
        raise InputError("number of keys", len(keys), f"must be that of chains, {target.chains}")


def numbers(target: Target) -> int:
    """Return how many numbers one chain's position has."""
    return sum(math.prod(shape) for shape in target.shapes) // target.chains


def flat(part: Tensor, chains: int) -> Tensor:
    """View a part as (chains, numbers)."""
    return part.view(chains, -1)


class Cutter:
    """Cuts rows of shape (chains, numbers) into one piece (chains, size) for each part of a position."""

    def __init__(self, target: Target) -> None:
        ends = list(accumulate((math.prod(shape) // target.chains for shape in target.shapes), initial=0))
        self._pieces = [slice(begin, end) for begin, end in pairwise(ends)]

    def __call__(self, rows: Tensor) -> list[Tensor]:
        """Return views."""
        return [rows[:, piece] for piece in self._pieces]


def _clone(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(part.clone() for part in value)
    return value.clone() if isinstance(value, Tensor) else value
