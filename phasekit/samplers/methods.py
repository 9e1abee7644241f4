"""The samplers' settings: what to put into a record, and which kernel to build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from phasekit.errors import InputError
from phasekit.samplers import hmc, langevin, sgld
from phasekit.samplers.noise import Key
from phasekit.samplers.schedule import Decay, Schedule
from phasekit.samplers.target import Kernel, Target


@dataclass(frozen=True)
class Method:
    """A sampler and its settings."""

    name: ClassVar[str]

    @property
    def minibatch(self) -> int | None:
        """Sequences in a gradient; None for all."""
        return getattr(self, "batch", None)

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        """Return the kernel; ``warmup`` updates may be spent on tuning.

        Raises
        ------
        InputError
            For a setting out of range.
        """
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return name and settings as plain JSON values; :func:`get_method` takes them back."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class SGLD(Method):
    """Settings of :func:`phasekit.samplers.sgld.build`.

    Parameters
    ----------
    step : float or Decay
    temperature : float or Decay
    batch : int, optional
        Sequences in a gradient, drawn with replacement
        (:class:`phasekit.samplers.minibatch.MinibatchTarget`); all data if left out.
    """

    name: ClassVar[str] = "sgld"

    step: Schedule
    temperature: Schedule = 1.0
    batch: int | None = None

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        return sgld.build(target, keys, step=self.step, temperature=self.temperature)


@dataclass(frozen=True)
class Langevin(Method):
    """Settings of :func:`phasekit.samplers.langevin.build` (BAOAB).

    Parameters
    ----------
    step : float or Decay
    friction : float
    temperature : float or Decay
    batch : int, optional
        As for :class:`SGLD`.
    """

    name: ClassVar[str] = "langevin"

    step: Schedule
    friction: float = 1.0
    temperature: Schedule = 1.0
    batch: int | None = None

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        return langevin.build(target, keys, step=self.step, friction=self.friction, temperature=self.temperature)


@dataclass(frozen=True)
class HMC(Method):
    """Settings of :func:`phasekit.samplers.hmc.build`; step sizes are tuned during warm-up.

    Parameters
    ----------
    step : float
    leaps : int
    acceptance, jitter, temperature : float
    """

    name: ClassVar[str] = "hmc"

    step: float = 0.1
    leaps: int = 16
    acceptance: float = 0.8
    jitter: float = 0.2
    temperature: float = 1.0

    def build(self, target: Target, keys: Sequence[Key], warmup: int) -> Kernel:
        return hmc.build(target, keys, adapt=warmup, **asdict(self))


METHODS: dict[str, type[Method]] = {kind.name: kind for kind in (SGLD, Langevin, HMC)}


def get_method(description: Mapping[str, Any]) -> Method:
    """Return the method that ``describe`` described.

    Raises
    ------
    InputError
        For an unknown name or setting.
    """
    settings = dict(description)
    name = settings.pop("name", None)
    if name not in METHODS:
        raise InputError("method", name, f"must be one of {', '.join(METHODS)}")
    kind = METHODS[name]
    unknown = sorted(set(settings) - set(kind.__dataclass_fields__))
    if unknown:
        raise InputError(f"method {name}", unknown[0], f"unknown; settings are {', '.join(kind.__dataclass_fields__)}")
    for field, value in settings.items():
        if isinstance(value, Mapping):
            settings[field] = Decay(**value)
    return kind(**settings)
