"""Stochastic gradient Langevin dynamics: gradient descent plus noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from phasekit.checkpoint import Tensors
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


def build(target: Target, keys: Sequence[Key], *, step: Schedule, temperature: Schedule = 1.0) -> Kernel:
    """Build SGLD (Welling and Teh 2011).

    One update, with ξ standard normal and ``scale`` the target's unit of θ (1 unless it says otherwise)::

        theta - step * scale**2 * gradient + sqrt(2 * step * temperature) * scale * xi

    This is the Euler-Maruyama step of dθ = -∇U dt + √(2T) dB with **dt = step**. Other packages count differently:
    see docs/samplers.md.

    The chain's law is exp(-U/T) up to a bias of first order in ``step``. Where U is quadratic with curvature λ (in
    units of the scale), the variance is T/(λ(1 - λ step/2)), and chains diverge from step = 2/λ on. With a minibatch
    target the gradient's own noise heats the chain in addition
    (:class:`phasekit.samplers.minibatch.MinibatchTarget` says by how much).

    Parameters
    ----------
    target : Target
    keys : sequence of tuples of int
        One for each chain; see :mod:`phasekit.samplers.noise`.
    step, temperature : float or Decay
        At temperature 0 this is gradient descent.

    Raises
    ------
    InputError
        If a number is out of range, or there isn't one key for each chain.
    """
    step, temperature = checked_schedule("step", step, positive=True), checked_schedule("temperature", temperature)
    check_keys(target, keys)
    evaluate, cut = Evaluator(target), Cutter(target)
    noise = NormalStreams("sgld", keys, numbers(target), target.dtype, target.device)

    def init(position: Tensors) -> SGLDState:
        state = SGLDState(0, *start(target, position))
        evaluate(state)
        return state

    def update(state: SGLDState, inplace: bool = False) -> SGLDState:
        state = state if inplace else state.copy()
        now, heat = value_at(step, state.step), value_at(temperature, state.step)
        for theta, gradient, scale in side_by_side(state.position, state.gradient, target.scales):
            theta.add_(gradient, alpha=-now * scale**2)
        if heat > 0:
            xis = cut(noise.at(state.step))
            for theta, xi, scale in side_by_side(state.position, xis, target.scales):
                flat(theta, target.chains).add_(xi, alpha=math.sqrt(2 * now * heat) * scale)
        state.step += 1
        evaluate(state)
        return state

    return Kernel(init, update)


@dataclass
class SGLDState(State):
    """SGLD needs to know no more than any sampler."""
