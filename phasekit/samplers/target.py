"""What a sampler needs to know of the distribution it samples: exp(-U/T) through U and its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.errors import InputError
from phasekit.samplers.noise import Key


class Gradient(Protocol):
    """The gradient of U for fixed buffers; binding once and calling many times keeps the workspace."""

    def __call__(self, step: int) -> None:
        """Overwrite the gradient by dU/dθ at what the position holds now. A minibatch is chosen by the step."""

    def energy(self) -> Tensor:
        """Return U, shape (chains,), at the position (and for the minibatch) of the last call."""


class Target(Protocol):
    """The distribution exp(-U(θ)/T) of several independent chains.

    Where chains stand is a mapping of names to tensors: a head's are W and G, a network's its parameters.
    """

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shapes of a position's tensors; the leading dimensions of each multiply to ``chains``."""

    @property
    def chains(self) -> int:
        """Number of chains."""

    @property
    def scales(self) -> Mapping[str, float]:
        """The unit in which samplers measure each tensor of θ.

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

    def bind(self, position: Tensors, gradient: Tensors) -> Gradient:
        """Return what computes the gradient at ``position`` into ``gradient``, as often as these buffers change."""


S = TypeVar("S", bound="State")


@dataclass
class State:
    """Everything that determines how chains go on: saved and loaded, they go on bit for bit.

    Attributes
    ----------
    step : int
        Updates done. With the chains' keys it determines all random numbers to come.
    position : dict of str to Tensor
    gradient : dict of str to Tensor
        dU/dθ at the position (for the minibatch of ``step``, if there are minibatches).
    """

    step: int
    position: dict[str, Tensor]
    gradient: dict[str, Tensor]

    def copy(self: S) -> S:
        """Return a copy that shares no buffer."""
        return replace(self, **{f.name: _clone(getattr(self, f.name)) for f in fields(self)})

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name, the step among them."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            named = {f"{field.name} {name}": part for name, part in value.items()} if isinstance(value, dict) else {}
            found.update(named or {field.name: torch.as_tensor(value)})
        return found

    def restore(self, tensors: Tensors) -> None:
        """Overwrite everything by what :meth:`tensors` returned, or by what earlier versions saved: numbered tensors.

        Raises
        ------
        InputError
            If tensors are missing or of other shapes.
        """
        numbered = {
            f"{field.name} {name}": f"{field.name} {k}"
            for field in fields(self)
            if isinstance(getattr(self, field.name), dict)
            for k, name in enumerate(getattr(self, field.name))
        }
        for name, tensor in self.tensors().items():
            saved = tensors.get(name, tensors.get(numbered.get(name, "")))
            if saved is None or saved.shape != tensor.shape:
                raise InputError("checkpoint", name, "is the state of other chains")
            if name == "step":
                self.step = int(saved)
            else:
                tensor.copy_(saved)


class Init(Protocol):
    """Start chains at a position, tensors of shape (chains, ...); copied."""

    def __call__(self, position: Tensors) -> Any: ...


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
        self._buffers: Tensors = {}

    def __call__(self, state: State) -> None:
        """Compute the gradient at the state's position."""
        if state.position is not self._buffers:
            self._buffers = state.position
            self._gradient = self._target.bind(state.position, state.gradient)
        self._gradient(state.step)

    def energy(self) -> Tensor:
        """Return U, shape (chains,), at the position of the last call."""
        return self._gradient.energy()


def start(target: Target, position: Tensors) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a contiguous copy of a position, and room for its gradient.

    Raises
    ------
    InputError
        If names or shapes aren't the target's, or a number isn't finite.
    """
    found = {name: tuple(part.shape) for name, part in position.items()}
    if found != dict(target.shapes):
        raise InputError("position's shapes", found, f"must be {dict(target.shapes)}")
    if not all(bool(torch.isfinite(part).all()) for part in position.values()):
        raise InputError("position", "not finite", "chains must start at finite numbers")
    copies = {
        name: position[name].detach().to(target.device, target.dtype, copy=True).contiguous() for name in target.shapes
    }
    return copies, {name: torch.zeros_like(part) for name, part in copies.items()}


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
    return sum(math.prod(shape) for shape in target.shapes.values()) // target.chains


def flat(part: Tensor, chains: int) -> Tensor:
    """View a tensor as (chains, numbers)."""
    return part.view(chains, -1)


def side_by_side(*named: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield what several mappings hold under the same name, one name after another."""
    for name in named[0]:
        yield tuple(each[name] for each in named)


class Cutter:
    """Cuts rows of shape (chains, numbers) into one piece (chains, size) for each tensor of a position."""

    def __init__(self, target: Target) -> None:
        self._sizes = {name: math.prod(shape) // target.chains for name, shape in target.shapes.items()}

    def __call__(self, rows: Tensor) -> dict[str, Tensor]:
        """Return views."""
        return dict(zip(self._sizes, torch.split(rows, list(self._sizes.values()), dim=1), strict=True))


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: part.clone() for name, part in value.items()}
    return value.clone() if isinstance(value, Tensor) else value
