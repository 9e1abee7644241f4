"""A passage: one change of the global minimum as P grows, with the states on both sides of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Action, Point

#: What a minimum does: no pattern at all, most of it pooling (g²/q below 1/2), most of it copying.
NOTHING, POOLING, COPYING = PHASES = ("nothing", "pooling", "copying")


@dataclass(frozen=True)
class Threshold:
    """A name that passages go by.

    Attributes
    ----------
    name : as in results and on the command line ("P_star")
    symbol : as pictures write it
    meaning : one line for people
    """

    name: str
    symbol: str
    meaning: str


@dataclass(frozen=True)
class State:
    """A minimum of the action.

    Attributes
    ----------
    phase : "nothing", "pooling" or "copying"
    order_parameters : name to value
    loss : training loss per sequence, averaged over positions
    action : S
    """

    phase: str
    order_parameters: Mapping[str, float]
    loss: float
    action: float


@dataclass(frozen=True)
class Passage:
    """One change of the global minimum of a model as P grows.

    Attributes
    ----------
    name : that of its :class:`Threshold`: "P_star"
    kind : "onset" (a pattern grows continuously from zero), "jump" (between two minima that both exist) or "crossover"
        (smooth: the place is a convention)
    P : where it is
    before, after : State
        The global minimum just below and just above P; they differ at a jump only.
    window : pair of float, or None
        Between which P both minima of a jump exist (the spinodals; inf: for ever); None without a jump.
    evidence : what was computed beside it
    error : float, or None
        Of P, absolute, as far as it is known: how far a finer computation lies, or a standard error (drawn rows).
    """

    name: str
    kind: str
    P: float
    before: State
    after: State
    window: tuple[float, float] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    error: float | None = None

    @property
    def spinodals(self) -> tuple[float, float]:
        """Between which P both minima of a jump exist.

        Raises
        ------
        InputError
            For a passage that isn't a jump.
        """
        if self.window is None:
            raise InputError("passage", self.name, f"is no jump but {self.kind}: it has no spinodals")
        return self.window

    @property
    def jump(self) -> dict[str, list[float]]:
        """The order parameters and the loss by name, each [before, after]."""
        pairs = {
            name: [self.before.order_parameters[name], self.after.order_parameters[name]]
            for name in self.before.order_parameters
        }
        return {**pairs, "loss": [self.before.loss, self.after.loss]}


def state_at(action: Action, z: Point, p: Parameters) -> State:
    """Return the state of one model (flat parameters of length 1) at whitened coordinates."""
    order = {name: _number(x) for name, x in zip(action.order_parameters, action.order(z, p), strict=True)}
    return State(
        phase_of(_number(action.copying_share(z, p)), any(order.values())),
        order,
        _number(action.loss(z, p)),
        _number(action.jet(z, p).value),
    )


def phase_of(copying_share: float, pattern: bool) -> str:
    """Return the phase of a state from g²/q, and whether it has a pattern at all."""
    return NOTHING if not pattern else POOLING if copying_share < 0.5 else COPYING


def _number(value: Any) -> float:
    return float(np.ravel(value)[0])
