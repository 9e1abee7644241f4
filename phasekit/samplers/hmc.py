"""Hamiltonian Monte Carlo: the exact reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.checks import real_number, whole_number
from phasekit.errors import InputError
from phasekit.samplers.noise import Key, NormalStreams, UniformStreams
from phasekit.samplers.target import (
    Cutter,
    Evaluator,
    Kernel,
    State,
    Target,
    check_keys,
    flat,
    numbers,
    start,
)

# Dual averaging, as in Hoffman and Gelman 2014 (arXiv:1111.4246), section 3.2.
_SHRINKAGE, _EARLY, _FORGETTING = 0.05, 10.0, 0.75


def build(
    target: Target,
    keys: Sequence[Key],
    *,
    step: float,
    leaps: int,
    adapt: int = 0,
    acceptance: float = 0.8,
    jitter: float = 0.2,
    temperature: float = 1.0,
) -> Kernel:
    """Build HMC with a Metropolis test (Duane et al. 1987; Neal 2011, arXiv:1206.1901).

    An update draws momenta p (normal, variance T; unit mass in units of the target's ``scale`` of θ), follows
    Hamilton's equations for ``leaps`` leapfrog steps::

        p - step / 2 * scale * gradient
        theta + step * scale * p
        p - step / 2 * scale * gradient

    and accepts with probability min(1, exp(-(change of U + p²/2)/T)). The law is exp(-U/T) without bias. A trajectory
    that overflows is rejected.

    Each chain has a step size of its own, tuned by dual averaging to the wanted mean acceptance during the first
    ``adapt`` updates and frozen afterwards: draws before aren't exact.

    Parameters
    ----------
    target : Target
        With an exact gradient.
    keys : sequence of tuples of int
        One for each chain; see :mod:`phasekit.samplers.noise`.
    step : float
        First (without ``adapt``: only) step size, a time.
    leaps : int
        Leapfrog steps, each with one gradient.
    adapt : int
        Updates that tune the step size.
    acceptance : float
        Mean acceptance to tune for.
    jitter : float
        Each update's step size is drawn uniformly within this fraction of the chain's: no trajectory length can be a
        period of the motion for long.
    temperature : float

    Raises
    ------
    InputError
        If a number is out of range, there isn't one key for each chain, or the gradient is a minibatch's.
    """
    step, temperature = real_number("step", step, above=0), real_number("temperature", temperature, above=0)
    leaps, adapt = whole_number("leaps", leaps, 1), whole_number("adapt", adapt, 0)
    if not 0 < acceptance < 1:
        raise InputError("acceptance", acceptance, "must be above 0 and below 1")
    if not 0 <= jitter < 1:
        raise InputError("jitter", jitter, "must be at least 0 and below 1")
    if not target.exact:
        raise InputError("method", "hmc", "the Metropolis test needs exact energies, not a minibatch's")
    check_keys(target, keys)
    evaluate, cut, chains = Evaluator(target), Cutter(target), target.chains
    noise = NormalStreams("hmc", keys, numbers(target), target.dtype, target.device)
    uniform = UniformStreams("hmc accept", keys, 2, target.device)

    def init(position: Tensors) -> HMCState:
        where, gradient = start(target, position)
        log_step = torch.full((chains,), math.log(step), dtype=torch.float64, device=target.device)
        nothing = torch.zeros_like(log_step)
        counts = torch.zeros(chains, dtype=torch.int64, device=target.device)
        state = HMCState(0, where, gradient, nothing, log_step, log_step.clone(), nothing.clone(), nothing.clone(),
                         counts, counts.clone())  # fmt: skip
        evaluate(state)
        state.energy = evaluate.energy().double()
        return state

    def update(state: HMCState, inplace: bool = False) -> HMCState:
        state = state if inplace else state.copy()
        draws = uniform.at(state.step)
        size = (state.log_step.exp() * (1 + jitter * (2 * draws[:, 0] - 1))).to(target.dtype)
        before = [part.clone() for part in (*state.position.values(), *state.gradient.values())]
        p = [math.sqrt(temperature) * xi for xi in cut(noise.at(state.step)).values()]
        start_energy, start_kinetic = state.energy, kinetic(p)

        leapfrog(target, evaluate, state, p, size, leaps)
        state.energy = evaluate.energy().double()
        state.error = (state.energy - start_energy) + (kinetic(p) - start_kinetic)
        probability = torch.nan_to_num((-state.error / temperature).exp().clamp(max=1.0), nan=0.0)
        accepted = draws[:, 1] < probability
        for part, old in zip((*state.position.values(), *state.gradient.values()), before, strict=True):
            keep = accepted.view(chains, 1)
            torch.where(keep, flat(part, chains), flat(old, chains), out=flat(part, chains))
        state.energy = torch.where(accepted, state.energy, start_energy)

        state.step += 1
        if state.step <= adapt:
            tune(state, probability, math.log(10 * step), acceptance)
            if state.step == adapt:
                state.log_step = state.mean_log_step.clone()
        else:
            state.accepted += accepted
            state.tried += 1
        return state

    return Kernel(init, update)


@dataclass
class HMCState(State):
    """All of shape (chains,), besides what every sampler has.

    Attributes
    ----------
    energy : U at the position
    log_step : ln of the step size in use
    mean_log_step, shortfall : dual averaging's mean of log_step, and of (wanted - found acceptance)
    error : change of the total energy over the last trajectory
    accepted, tried : trajectories since tuning ended
    """

    energy: Tensor
    log_step: Tensor
    mean_log_step: Tensor
    shortfall: Tensor
    error: Tensor
    accepted: Tensor
    tried: Tensor


def leapfrog(target: Target, evaluate: Evaluator, state: State, p: list[Tensor], size: Tensor, leaps: int) -> None:
    """Move position (and its gradient) and momenta, in place, by leapfrog steps of each chain's size."""
    chains = target.chains
    moves = [size.view(chains, 1) * target.scales[name] for name in state.position]
    thetas, gradients = ([flat(part, chains) for part in parts.values()] for parts in (state.position, state.gradient))
    for leap in range(leaps + 1):
        whole = 0 < leap < leaps  # two half kicks of neighbouring leaps make a whole one
        for k, move in enumerate(moves):
            p[k] = torch.addcmul(p[k], gradients[k], move, value=-1.0 if whole else -0.5)
        if leap == leaps:
            return
        for theta, momentum, move in zip(thetas, p, moves, strict=True):
            theta.addcmul_(momentum, move)
        evaluate(state)


def kinetic(p: list[Tensor]) -> Tensor:
    """Return p²/2 of each chain."""
    return torch.stack([part.double().square().sum(1) for part in p]).sum(0) / 2


def tune(state: HMCState, probability: Tensor, target_log_step: float, acceptance: float) -> None:
    """Move the step sizes towards the wanted acceptance: dual averaging."""
    n = state.step
    state.shortfall = state.shortfall + (acceptance - probability - state.shortfall) / (n + _EARLY)
    state.log_step = target_log_step - math.sqrt(n) / _SHRINKAGE * state.shortfall
    weight = n**-_FORGETTING
    state.mean_log_step = weight * state.log_step + (1 - weight) * state.mean_log_step
