"""The samplers' settings: what to put into a record, and which kernel to build."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from phasekit.checkpoint import Tensors
from phasekit.describe import Description, Registry
from phasekit.errors import InputError
from phasekit.samplers import hmc, langevin, sgld
from phasekit.samplers.curvature import stiffest_curvature
from phasekit.samplers.noise import Key
from phasekit.samplers.schedule import Decay, Schedule, checked_schedule
from phasekit.samplers.target import Kernel, Target

_SCHEDULES = {
    "step": "must be a number above 0, a Decay or auto",
    "temperature": "must be a number of at least 0 or a Decay",
}


class Method(Description):
    """A sampler and its settings."""

    name: ClassVar[str]

    @property
    def minibatch(self) -> int | None:
        """Sequences in a gradient; None for all."""
        return getattr(self, "batch", None)

    def settled(self, target: Target, position: Tensors) -> Self:
        """Return the method with everything decided that depends on where the chains begin (a step "auto")."""
        return self

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        """Return the kernel; ``warmup`` updates may be spent on tuning.

        Raises
        ------
        InputError
            If the settings don't suit the target.
        """
        raise NotImplementedError


_METHODS: Registry[Method] = Registry("method", Method)


class _Scheduled(Method):
    """Methods without a Metropolis test, whose step and temperature may fall."""

    step: Schedule | Literal["auto"]
    temperature: Schedule = 1.0

    def settled(self, target: Target, position: Tensors) -> Self:
        """Replace "auto" by a tenth of the longest stable step, rounded, where the chains begin.

        Raises
        ------
        InputError
            For minibatches, whose noise heats the chain by an amount that curvature says nothing about.
        """
        if self.step != "auto":
            return self
        if not target.exact:
            raise InputError("step", "auto", "needs the gradient of all data: leave batch out, or give a step")
        return self.at(step=float(f"{self._longest(stiffest_curvature(target, position)) / 10:.2g}"))

    @staticmethod
    def _longest(curvature: float) -> float:
        """Return the step from which on chains diverge where U is quadratic."""
        raise NotImplementedError

    @field_validator("step", "temperature", mode="before", check_fields=False)
    @classmethod
    def _number_or_decay(cls, given: Any, about: Any) -> Any:
        if about.field_name == "step" and isinstance(given, str) and given == "auto":
            return given
        if isinstance(given, Mapping):
            given = Decay(**given)
        return checked_schedule(about.field_name, given, positive=about.field_name == "step")


@_METHODS.register
class SGLD(_Scheduled):
    """Settings of :func:`phasekit.samplers.sgld.build`.

    Parameters
    ----------
    step : float, Decay or "auto"
        "auto" takes a tenth of the longest stable step, as measured where the chains begin.
    temperature : float or Decay
    batch : int, optional
        Sequences in a gradient, drawn with replacement
        (:class:`phasekit.samplers.minibatch.MinibatchTarget`); all data if left out.
    """

    name: ClassVar[str] = "sgld"
    rules: ClassVar[Mapping[str, str]] = _SCHEDULES

    batch: Annotated[int, Field(ge=1)] | None = None

    @staticmethod
    def _longest(curvature: float) -> float:
        return 2 / curvature

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        return sgld.build(target, keys, step=_known(self.step), temperature=self.temperature)


@_METHODS.register
class Langevin(_Scheduled):
    """Settings of :func:`phasekit.samplers.langevin.build` (BAOAB).

    Parameters
    ----------
    step : float, Decay or "auto"
        As for :class:`SGLD`.
    friction : float
    temperature : float or Decay
    batch : int, optional
        As for :class:`SGLD`.
    """

    name: ClassVar[str] = "langevin"
    rules: ClassVar[Mapping[str, str]] = _SCHEDULES

    friction: float = Field(default=1.0, ge=0)
    batch: Annotated[int, Field(ge=1)] | None = None

    @staticmethod
    def _longest(curvature: float) -> float:
        return 2 / math.sqrt(curvature)

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        step = _known(self.step)
        return langevin.build(target, keys, step=step, friction=self.friction, temperature=self.temperature)


@_METHODS.register
class HMC(Method):
    """Settings of :func:`phasekit.samplers.hmc.build`; step sizes are tuned during warm-up.

    Parameters
    ----------
    step : float
    leaps : int
    acceptance, jitter, temperature : float
    """

    name: ClassVar[str] = "hmc"

    step: float = Field(default=0.1, gt=0)
    leaps: int = Field(default=16, ge=1)
    acceptance: float = Field(default=0.8, gt=0, lt=1)
    jitter: float = Field(default=0.2, ge=0, lt=1)
    temperature: float = Field(default=1.0, gt=0)

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        return hmc.build(target, keys, adapt=warmup, **self.model_dump())


def _known(step: Schedule | Literal["auto"]) -> Schedule:
    """Return a step that isn't left open."""
    if isinstance(step, str):
        raise InputError("step", step, "isn't known before chains begin: see Method.settled")
    return step


def get_method(description: Mapping[str, Any]) -> Method:
    """Return the method that ``describe`` described.

    Raises
    ------
    InputError
        For an unknown name or setting.
    """
    return _METHODS.build(description)
