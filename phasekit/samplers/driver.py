"""Sample many heads at once: models × data sets × starts × members."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasekit import __version__
from phasekit.checkpoint import Pause, Tensors
from phasekit.checks import whole_number
from phasekit.device import describe_device, resolve_device, resolve_dtype, suitable_threads
from phasekit.errors import InputError
from phasekit.heads.build import EnergyPath, build_energy
from phasekit.heads.energy import Energy
from phasekit.heads.order_parameters import has_sign_symmetry
from phasekit.heads.population import Population, draw_datasets
from phasekit.model import Model
from phasekit.progress import Progress, reported
from phasekit.samplers.chains import Chains, NotFinite
from phasekit.samplers.heads import HeadsTarget
from phasekit.samplers.hmc import HMCState
from phasekit.samplers.methods import Method
from phasekit.samplers.minibatch import MinibatchTarget
from phasekit.samplers.noise import Key, key_of
from phasekit.samplers.observables import observable_names, observe
from phasekit.samplers.samples import Samples
from phasekit.samplers.target import Target
from phasekit.tasks.copy import Dataset


class ChainDiverged(ArithmeticError):
    """A chain is no longer finite: its step is too long.

    Attributes
    ----------
    chain : str
        Which one: start, member, P and data seed.
    draw : int or None
        The first draw that isn't finite, counted from 0; None in warm-up.
    samples : Samples or None
        The draws before.
    """

    def __init__(self, chain: str, draw: int | None, step: int, samples: Samples | None) -> None:
        self.chain, self.draw, self.samples = chain, draw, samples
        where = "in warm-up" if draw is None else f"at draw {draw}"
        super().__init__(f"chain {chain} is not finite {where} (step {step}); a shorter step may help")


def sample(
    models: Model | Sequence[Model] | Sequence[Dataset],
    method: Method,
    *,
    draws: int,
    thin: int = 1,
    warmup: int = 0,
    data_seeds: Sequence[int] = (0,),
    starts: Sequence[str] = ("uniform", "copy"),
    members: int | Sequence[int] = 2,
    initial: Samples | None = None,
    seed: int = 0,
    attention: bool = False,
    dtype: str = "float64",
    device: str = "auto",
    path: EnergyPath = "auto",
    checkpoint: str | Path | None = None,
    save_every: int = 1000,
    progress: Progress = None,
    pause: Pause | None = None,
) -> Samples:
    """Sample exp(-U/T) for every model × data seed × start × member, all chains at once.

    Parameters
    ----------
    models : Model, sequence of Model, or sequence of Dataset
        With P; several may differ in P only. Data sets are taken as they are; ``data_seeds`` then plays no role.
    method : SGLD, Langevin or HMC
        From :mod:`phasekit.samplers`.
    draws : int
        Draws to record for each chain, one every ``thin`` updates after ``warmup`` updates.
    thin, warmup : int
        HMC tunes its step sizes during warm-up.
    data_seeds : sequence of int
        One data set is drawn for each model and data seed, and shared by all chains on it.
    starts : sequence of str
        From :data:`phasekit.heads.starts.STARTS`. Chains from both ends ("uniform" and "copy") show coexistence.
    members : int or sequence of int
        How many chains for each start, or their numbers. A chain's random numbers belong to (seed, P, data seed,
        start, number) and the step: sampling numbers 0-3 and 4-7 apart draws the same noise as 0-7 together.
    initial : Samples, optional
        Begin each chain where the chain in the same place of these samples ended (another P, say), not at its start,
        which then is a label only.
    seed : int
    attention : bool
        Whether to average the attention matrix over the draws.
    dtype : "float32" or "float64"
    device : "auto", "cpu", "cuda" or "cuda:N"
    path : "auto", "moments" or "sequences"
        See :func:`phasekit.heads.build.build_energy`.
    checkpoint : path, optional
        A file (.npz) to save the state to, and to resume from if it exists: the run then goes on bit for bit as if it
        had never stopped. ``draws`` may have grown; everything else must be the same.
    save_every : int
        Updates between saves. The end is saved too.
    progress : bool or callable, optional
        Whether to show a bar; None: in a notebook only. Or what is called now and then: (updates done, in all).
    pause : callable, optional
        Called every 100 updates with a function that saves the checkpoint: to save by the clock, or to stop by raising.

    Returns
    -------
    Samples
        See :func:`phasekit.samplers.diagnose` for whether they can be trusted.

    Raises
    ------
    InputError
        For anything out of range, and for a checkpoint of another run.
    ChainDiverged
        When a chain isn't finite any more; it names the chain and the draw, and carries the draws before.
    """
    draws, save_every = whole_number("draws", draws, 1), whole_number("save_every", save_every, 1)
    thin, warmup = whole_number("thin", thin, 1), whole_number("warmup", warmup, 0)
    population = Population.of(draw_datasets(models, data_seeds), starts, members, seed)
    run = _Run(population, method, initial, attention, dtype, device, path)
    threads = suitable_threads(run.device, run.energy.multiplications * len(run.population.members))
    with threads, reported(progress, "sampling") as report:
        return run.samples(
            draws, thin, warmup, checkpoint=checkpoint, save_every=save_every, progress=report, pause=pause
        )


class _Run:
    """What was asked for: which heads, how they are sampled, and what is written down of them."""

    def __init__(
        self,
        population: Population,
        method: Method,
        initial: Samples | None,
        attention: bool,
        dtype: str,
        device: str,
        path: EnergyPath,
    ) -> None:
        if not isinstance(method, Method):
            raise InputError("method", method, "must be SGLD(...), Langevin(...) or HMC(...)")
        self.population, self.dtype, self.device = population, dtype, resolve_device(device)
        self.energy: Energy = build_energy(population.datasets, dtype=dtype, device=self.device, path=path)
        self.keys = chain_keys(population)
        members, precision = len(population.members), resolve_dtype(dtype)
        self.target: Target = HeadsTarget(self.energy, members)
        if method.minibatch is not None:
            self.target = MinibatchTarget(
                population.datasets, members, method.minibatch, self.keys, precision, self.device
            )
        self.position: Tensors
        if initial is None:
            self.position = population.draw(precision, self.device)
        else:
            ends = initial.final().items()
            self.position = {name: torch.from_numpy(x).to(self.device, precision) for name, x in ends}
        self.continued = initial is not None
        self.method = method.settled(self.target, self.position)
        D, L = len(population.datasets), population.model.L
        self.attention = torch.zeros(D, members, L, L, dtype=torch.float64, device=self.device) if attention else None

    def samples(self, draws: int, thin: int, warmup: int, **about_running: Any) -> Samples:
        """Sample, and return what was recorded, labelled."""
        kernel = self.method.build(self.target, self.keys, warmup)
        sums = {} if self.attention is None else {"attention": self.attention}
        asked = {**self.describe(), "warmup": warmup, "thin": thin}
        chains = Chains(
            self.target, kernel, self.position, self.observe, thin=thin, warmup=warmup, description=asked, sums=sums
        )
        try:
            chains.run(draws, **about_running)
        except NotFinite as error:
            so_far = self.labelled(chains) if chains.recorded else None
            raise ChainDiverged(self.name_of(error.chain), error.draw, error.step, so_far) from None
        return self.labelled(chains)

    def describe(self) -> dict[str, Any]:
        """Return what determines all chains, as plain JSON values."""
        known = {
            **self.population.describe(),
            "method": self.method.describe(),
            "dtype": self.dtype,
            "path": self.energy.path,
            "attention": self.attention is not None,
        }
        if self.continued:
            arrays = [self.position[name].cpu().numpy() for name in self.target.shapes]
            known["initial"] = [zlib.crc32(array.tobytes()) for array in arrays]
        return known

    def observe(self, position: Tensors) -> Tensor:
        """Return what is recorded of a draw, and add its attention matrices to their sum."""
        observables = observe(self.energy, position)
        if self.attention is not None:
            A = self.energy.mean_attention(position["G"])
            if has_sign_symmetry(self.population.model.score):
                A = A * torch.where(observables[0] + observables[1] < 0, -1.0, 1.0)[..., None, None]
            self.attention += A
        return observables

    def name_of(self, chain: int) -> str:
        """Return a chain's labels in words."""
        d, m = divmod(chain, len(self.population.members))
        (start, number), data = self.population.members[m], self.population.datasets[d]
        return f"{m} (start {start}, number {number}, P = {len(data.tokens)}, data seed {data.seed})"

    def labelled(self, chains: Chains) -> Samples:
        """Return draws with their labels."""
        shape = (len(self.population.datasets), len(self.population.members))
        statistics = {}
        if isinstance(chains.state, HMCState):
            statistics["step_size"] = chains.state.log_step.exp().view(shape).cpu().numpy()
            statistics["acceptance"] = (chains.state.accepted.double() / chains.state.tried).view(shape).cpu().numpy()
        count = len(chains.recorded)
        return Samples.from_draws(
            names=observable_names(self.population.model.score),
            draws=chains.draws(),
            chain=self.population.member_labels(),
            dataset=self.population.dataset_labels(),
            statistics=statistics,
            attributes={
                "model": json.dumps(self.population.model.at(P=None).describe()),
                "method": json.dumps(self.method.describe()),
                "seed": self.population.seed,
                "warmup": chains.warmup,
                "thin": chains.thin,
                "dtype": self.dtype,
                "device": describe_device(self.device),
                "path": self.energy.path,
                "phasekit": __version__,
            },
            final={name: part.cpu().numpy() for name, part in chains.state.position.items()},
            attention=None if self.attention is None else (self.attention / count).cpu().numpy(),
        )


def chain_keys(population: Population) -> list[Key]:
    """Return the keys of all chains' random numbers: (seed, P, data seed, start, number), members fastest."""
    return [
        key_of(population.seed, len(d.tokens), d.seed, start, number)
        for d in population.datasets
        for start, number in population.members
    ]
