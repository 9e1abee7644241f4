"""Learned parameters of scores: unconstrained float32 numbers per head, kept out of weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from phasekit.checks import whole_number
from phasekit.errors import InputError

if TYPE_CHECKING:
    from phasekit.scores.base import Score


class ScoreParameters(nn.Module):
    """Base of the modules that ``Score.make_parameters`` returns. Calling one gives the mapping ``Score.rows`` takes.

    Its parameters never fall below float32: ``model.to(torch.bfloat16)``, ``model.half()`` and loading a reduced
    checkpoint leave them in float32 at full accuracy. (A bfloat16 parameter near 1 moves in steps of 2⁻⁷, so a small
    learning rate doesn't move it at all.) ``model.double()`` widens them.
    """

    def forward(self) -> dict[str, Tensor]:
        """Return the constrained values, each broadcasting as (heads, 1, 1)."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Put every parameter back to its starting value."""
        raise NotImplementedError

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ScoreParameters:
        """Let ``fn`` (what ``to``, ``half`` … do to a tensor) move parameters, but not narrow them."""

        def guarded(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if moved.is_floating_point() and moved.element_size() < 4:
                return tensor.to(device=moved.device, dtype=torch.float32)
            return moved

        super()._apply(guarded, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Widen what a reduced checkpoint holds, so that loading by assignment keeps float32 too."""
        for name in self._parameters:
            loaded = state_dict.get(prefix + name)
            if isinstance(loaded, Tensor) and loaded.element_size() < 4:
                state_dict[prefix + name] = loaded.float()
        super()._load_from_state_dict(state_dict, prefix, *args)


class BoundedParameters(ScoreParameters):
    """One number per head for each learnable field: value = bound + softplus(raw).

    Parameters
    ----------
    score : Score
        Gives names, bounds and starting values.
    heads : int

    Raises
    ------
    InputError
        If a starting value doesn't lie above its bound, or for a number of heads that is none.
    """

    def __init__(self, score: Score, heads: int) -> None:
        super().__init__()
        heads = whole_number("heads", heads, least=1)
        self.bounds = dict(score.learnable)
        self.start = {name: float(getattr(score, name)) for name in self.bounds}
        for name, bound in self.bounds.items():
            if self.start[name] <= bound:
                raise InputError(f"score {score.name}: {name}", self.start[name], f"must start above {bound} to learn")
            self.register_parameter(f"raw_{name}", nn.Parameter(torch.empty(heads, dtype=torch.float32)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, bound in self.bounds.items():
            nn.init.constant_(self.get_parameter(f"raw_{name}"), inverse_softplus(self.start[name] - bound))

    def forward(self) -> dict[str, Tensor]:
        return {
            # as an attribute: pruning, parametrisations and functional calls put other tensors there
            name: (bound + softplus(getattr(self, f"raw_{name}")))[:, None, None]
            for name, bound in self.bounds.items()
        }

    def extra_repr(self) -> str:
        return ", ".join(f"{name} > {bound} from {self.start[name]}" for name, bound in self.bounds.items())


def inverse_softplus(value: float) -> float:
    """Return x with ln(1 + eˣ) = value."""
    return value + math.log(-math.expm1(-value))


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split a model's trainable parameters for an optimiser, so that no score parameter is decayed.

    Decay pulls a raw parameter to 0, that is n to 1.69 and b to 0.69, whatever the data say.

    Parameters
    ----------
    model : nn.Module
    weight_decay : float
        For everything else.

    Returns
    -------
    list of two dict
        ``{"params": [...], "weight_decay": weight_decay}`` and the score parameters with 0.0, in the model's order.
        Parameters that occur twice in the model (tied weights) occur once.
    """
    exempt = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, ScoreParameters)
        for parameter in module.parameters()
    }
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (kept if id(parameter) in exempt else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def learned_values(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return what scores have learned so far: by module and parameter, one number for each head.

    Examples
    --------
    >>> from phasekit.attention import ScoredAttention
    >>> {name: values["n"].tolist() for name, values in learned_values(ScoredAttention(2)).items()}
    {'score_parameters': [1.5, 1.5]}
    """
    found: dict[str, dict[str, Tensor]] = {}
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{outer}.") or outer == "" for outer in found)  # the parts of a composite
        if isinstance(module, ScoreParameters) and not inside:
            with torch.no_grad():
                found[name] = {key: value[..., 0, 0] for key, value in module().items()}
    return found
