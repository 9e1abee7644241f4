"""Underdamped Langevin dynamics by the BAOAB splitting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.checks import real_number
from phasekit.samplers.noise import Key, NormalStreams
from phasekit.samplers.schedule import Schedule, checked_schedule, value_at
from phasekit.samplers.target import (
    Cutter,
    Evaluator,
    Kernel,
    State,
    Target,
    check_keys,
    flat,
    numbers,
    side_by_side,
    start,
)


def build(
    target: Target, keys: Sequence[Key], *, step: Schedule, friction: float, temperature: Schedule = 1.0
) -> Kernel:
    """Build BAOAB (Leimkuhler and Matthews 2013, arXiv:1203.5428).

    It integrates, with momentum p of unit mass in units of the target's ``scale`` of θ, over a time **dt = step**,

        dθ = scale p dt,      dp = -scale ∇U dt - γ p dt + √(2γT) dB

    by five maps, the middle one exact whatever the friction γ::

        B  p - step / 2 * scale * gradient
        A  theta + step / 2 * scale * p
        O  exp(-friction * step) * p + sqrt((1 - exp(-2 * friction * step)) * temperature) * xi
        A  theta + step / 2 * scale * p
        B  p - step / 2 * scale * gradient

    One gradient a step. The law of θ is exp(-U/T) up to a bias of second order in ``step``, and without bias where U
    is quadratic; chains diverge from step = 2/√λ on, λ the largest curvature in units of the scale.

    Parameters
    ----------
    target : Target
    keys : sequence of tuples of int
        One for each chain; see :mod:`phasekit.samplers.noise`.
    step : float or Decay
        A time: step² here compares with SGLD's step.
    friction : float
        1/(time after which momentum is forgotten). Chains are fastest near √λ of the slowest direction.
    temperature : float or Decay

    Raises
    ------
    InputError
        If a number is out of range, or there isn't one key for each chain.
    """
    step, temperature = checked_schedule("step", step, positive=True), checked_schedule("temperature", temperature)
    friction = real_number("friction", friction, least=0)
    check_keys(target, keys)
    evaluate, cut = Evaluator(target), Cutter(target)
    noise = NormalStreams("langevin", keys, numbers(target), target.dtype, target.device)
    first = NormalStreams("langevin start", keys, numbers(target), target.dtype, target.device)

    def init(position: Tensors) -> LangevinState:
        """Momenta are drawn from their equilibrium."""
        where, gradient = start(target, position)
        heat = math.sqrt(value_at(temperature, 0))
        momentum = {name: (heat * xi).reshape(where[name].shape) for name, xi in cut(first.at(0)).items()}
        state = LangevinState(0, where, gradient, momentum)
        evaluate(state)
        return state

    def kick(state: LangevinState, half: float) -> None:
        for p, gradient, scale in side_by_side(state.momentum, state.gradient, target.scales):
            p.add_(gradient, alpha=-half * scale)

    def drift(state: LangevinState, half: float) -> None:
        for theta, p, scale in side_by_side(state.position, state.momentum, target.scales):
            theta.add_(p, alpha=half * scale)

    def update(state: LangevinState, inplace: bool = False) -> LangevinState:
        state = state if inplace else state.copy()
        now, heat = value_at(step, state.step), value_at(temperature, state.step)
        kick(state, now / 2)
        drift(state, now / 2)
        width = math.sqrt(-math.expm1(-2 * friction * now) * heat)
        for p, xi in side_by_side(state.momentum, cut(noise.at(state.step))):
            flat(p.mul_(math.exp(-friction * now)), target.chains).add_(xi, alpha=width)
        drift(state, now / 2)
        state.step += 1
        evaluate(state)
        kick(state, now / 2)
        return state

    return Kernel(init, update)


@dataclass
class LangevinState(State):
    """With momenta, shaped as positions, in units where their variance is T."""

    momentum: dict[str, Tensor]
