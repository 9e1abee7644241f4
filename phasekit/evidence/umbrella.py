"""Umbrella sampling: chains held near given values of the copy order parameter by springs, so that they cross barriers.

Each window adds stiffness/2 · (a − centre)² to U, where a is the copy order parameter (aG, or cG for linear attention).
Reweighting (:mod:`phasekit.evidence.free_energy`) takes the springs out again: Torrie and Valleau 1977.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from phasekit.checkpoint import Pause, Tensors
from phasekit.checks import real_number, whole_number
from phasekit.device import suitable_threads
from phasekit.errors import InputError
from phasekit.heads import build_energy
from phasekit.heads.energy import Energy
from phasekit.heads.starts import draw_starts
from phasekit.model import Model
from phasekit.progress import Report
from phasekit.samplers import HMC, Chains, HeadsTarget
from phasekit.samplers.noise import key_of
from phasekit.samplers.observables import observable_names, observe
from phasekit.samplers.target import Gradient
from phasekit.tasks.copy import draw_dataset

#: Chains of every window start on both branches: if they agree, nothing else than the spring holds them back.
_STARTS = ("uniform", "copy")


class SpringTarget:
    """exp(−U − stiffness/2 · (a − centre)²), each member with a centre of its own.

    Parameters
    ----------
    energy : Energy
        Of positional inputs: a is then linear in the one attention matrix.
    centres : sequence of float
        One for each member.
    stiffness : float

    Raises
    ------
    InputError
        For token+position inputs.
    """

    exact = True

    def __init__(self, energy: Energy, centres: Sequence[float], stiffness: float) -> None:
        if energy.model.inputs != "positional":
            raise InputError("inputs", energy.model.inputs, "umbrella sampling is for positional inputs")
        energy.model.refuse("umbrella sampling is for heads without", "encoding", "mask")
        self._heads = HeadsTarget(energy, len(centres))
        self.shapes, self.chains, self.scales = self._heads.shapes, self._heads.chains, self._heads.scales
        self.dtype, self.device = energy.dtype, energy.device
        self.energy = energy
        self.stiffness = stiffness
        self.centres = torch.tensor(centres, dtype=self.dtype, device=self.device)
        L = energy.model.L
        shift = torch.eye(L, dtype=self.dtype, device=self.device).roll(1, dims=1).T
        #: a = ⟨A, pattern⟩ = (g − s/L)/(1 − 1/L): docs/theory.md, section 3.
        self.pattern = (shift / L - 1 / L**2) / (1 - 1 / L)

    def bind(self, position: Tensors, gradient: Tensors) -> Gradient:
        return _SpringGradient(self, position, gradient, self._heads.bind(position, gradient))


class _SpringGradient:
    def __init__(self, target: SpringTarget, position: Tensors, gradient: Tensors, plain: Gradient) -> None:
        self._target, self._G, self._dG, self._plain = target, position["G"], gradient["G"], plain
        self._excess = torch.empty(0)

    def __call__(self, step: int) -> None:
        self._plain(step)
        target, score = self._target, self._target.energy.model.score
        A = score.rows(self._G)
        self._excess = (A * target.pattern).sum((-2, -1)) - target.centres
        pull = target.stiffness * self._excess[..., None, None] * target.pattern
        self._dG += score.pull_back(self._G, A, pull)

    def energy(self) -> Tensor:
        return self._plain.energy() + 0.5 * self._target.stiffness * self._excess.square().flatten()


def umbrella(
    model: Model,
    centres: Sequence[float],
    stiffness: float,
    method: HMC,
    *,
    draws: int,
    thin: int = 1,
    warmup: int = 0,
    data_seed: int = 0,
    members: int = 1,
    seed: int = 0,
    dtype: str = "float64",
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    progress: Report | None = None,
    pause: Pause | None = None,
) -> xr.Dataset:
    """Sample all windows at once on one data set.

    Parameters
    ----------
    model : Model
        With P; positional inputs.
    centres : sequence of float
        Values of the copy order parameter. Neighbouring windows must overlap: a spacing of about 2/√stiffness.
    stiffness : float
        Of the springs, in units of U per squared order parameter.
    method : HMC
        Exact, because reweighting takes the law for granted.
    draws, thin, warmup, data_seed, seed, dtype, device, checkpoint, progress, pause
        As in :func:`phasekit.samplers.sample`.
    members : int
        Chains from each end ("uniform", "copy") in every window.

    Returns
    -------
    xarray.Dataset
        Dimensions ``window`` (coordinate ``centre``), ``chain`` (coordinate ``start``) and ``draw``; variables as in
        :attr:`phasekit.samplers.Samples.posterior`, and ``acceptance`` (window, chain).

    Raises
    ------
    InputError
        For anything out of range.
    """
    if len(centres) < 2 or len(set(centres)) != len(centres):
        raise InputError("centres", list(centres), "must be at least two different numbers")
    centres = sorted(real_number("centres", centre) for centre in centres)
    stiffness, members = real_number("stiffness", stiffness, above=0), whole_number("members", members, 1)
    if not isinstance(method, HMC):
        raise InputError("method", method, "must be HMC(...)")
    starts = list(product(_STARTS, range(members)))
    everyone = starts * len(centres)
    energy = build_energy([draw_dataset(model, data_seed)], dtype=dtype, device=device)
    target = SpringTarget(energy, np.repeat(centres, len(starts)).tolist(), stiffness)
    P = len(energy.datasets[0].tokens)
    keys = [
        key_of(seed, P, data_seed, "umbrella", window, start, number)
        for window, (start, number) in product(range(len(centres)), starts)
    ]
    chains = Chains(
        target,
        method.build(target, keys, whole_number("warmup", warmup, 0)),
        draw_starts([model], everyone, seed, energy.dtype, energy.device),
        lambda position: observe(energy, position)[:, 0],
        thin=thin,
        warmup=warmup,
        description={"model": model.describe(), "umbrella": centres, "stiffness": stiffness, "data_seed": data_seed,
                     "members": members, "seed": seed, "thin": thin, "warmup": warmup, "dtype": dtype,
                     "method": method.describe()},
    )  # fmt: skip
    with suitable_threads(energy.device, energy.multiplications * len(everyone)):
        chains.run(draws, checkpoint=checkpoint, progress=progress, pause=pause)
    shape = (len(centres), len(starts))
    values = np.moveaxis(chains.draws(), 0, -1).reshape(-1, *shape, draws)
    state: Any = chains.state
    acceptance = (state.accepted.double() / state.tried).reshape(shape).cpu().numpy()
    names = observable_names(model.score)
    return xr.Dataset(
        {
            **{name: (("window", "chain", "draw"), values[k]) for k, name in enumerate(names)},
            "acceptance": (("window", "chain"), acceptance),
        },
        {"centre": ("window", centres), "start": ("chain", [start for start, _ in starts])},
        {"model": json.dumps(model.describe()), "stiffness": stiffness, "order": names[1], "data_seed": data_seed},
    )
