"""Sample many heads at once: models × data sets × starts × members."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasekit import __version__
from phasekit.device import describe_device, resolve_device, resolve_dtype
from phasekit.errors import InputError
from phasekit.heads.build import EnergyPath, build_energy
from phasekit.heads.energy import Energy, common_model
from phasekit.heads.order_parameters import has_sign_symmetry
from phasekit.heads.starts import STARTS, draw_starts
from phasekit.model import Model
from phasekit.samplers.checkpoint import Checkpoint
from phasekit.samplers.heads import HeadsTarget
from phasekit.samplers.hmc import HMCState
from phasekit.samplers.methods import Method
from phasekit.samplers.minibatch import MinibatchTarget
from phasekit.samplers.observables import observable_names, observe
from phasekit.samplers.samples import Samples
from phasekit.samplers.target import State, Target
from phasekit.tasks.copy import Dataset, draw_dataset

Progress = Callable[[int, int], None]
Pause = Callable[[Callable[[], None]], None]

# Updates between two looks at whether all chains are finite, while nothing is recorded.
_LOOK_EVERY = 100


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
    models: Model | Sequence[Model],
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
    progress: Progress | None = None,
) -> Samples:
    """Sample exp(-U/T) for every model × data seed × start × member, all chains at once.

    Parameters
    ----------
    models : Model or sequence of Model
        With P; several may differ in P only.
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
    progress : callable, optional
        Called now and then with (updates done, updates in all).

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
    models = [models] if isinstance(models, Model) else list(models)
    _check_list("data_seeds", data_seeds)
    common_model(models)
    return sample_on(
        [draw_dataset(m, data_seed) for m, data_seed in product(models, data_seeds)],
        method,
        draws=draws,
        thin=thin,
        warmup=warmup,
        starts=starts,
        members=members,
        seed=seed,
        attention=attention,
        dtype=dtype,
        device=device,
        path=path,
        checkpoint=checkpoint,
        save_every=save_every,
        progress=progress,
        initial=initial,
    )


def sample_on(
    datasets: Sequence[Dataset],
    method: Method,
    *,
    draws: int,
    thin: int = 1,
    warmup: int = 0,
    starts: Sequence[str] = ("uniform", "copy"),
    members: int | Sequence[int] = 2,
    seed: int = 0,
    attention: bool = False,
    dtype: str = "float64",
    device: str = "auto",
    path: EnergyPath = "auto",
    checkpoint: str | Path | None = None,
    save_every: int = 1000,
    progress: Progress | None = None,
    initial: Samples | None = None,
    pause: Pause | None = None,
) -> Samples:
    """Sample as :func:`sample` does, on data sets that were drawn already.

    Parameters
    ----------
    datasets : sequence of Dataset
        Their models may differ in P only.
    pause : callable, optional
        Called every 100 updates with a function that saves the checkpoint: to save by the clock, or to stop by raising.
    method, draws, thin, warmup, starts, members, seed, attention, dtype, device, path, checkpoint, save_every, \
    progress, initial
        As for :func:`sample`.

    Raises
    ------
    InputError, ChainDiverged
        As :func:`sample` does.
    """
    run = _Run(datasets, method, thin, warmup, starts, members, seed, attention, dtype, device, path)
    for name, value in (("draws", draws), ("save_every", save_every)):
        _check_count(name, value, 1)
    run.start(initial)
    if checkpoint is not None and Path(checkpoint).exists():
        run.resume(Checkpoint.load(checkpoint, run.description))
        if len(run.recorded) > draws:
            raise InputError("draws", draws, f"the checkpoint holds {len(run.recorded)} already")
    last = warmup + draws * thin
    saved = run.state.step
    while run.state.step < last:
        run.advance()
        step = run.state.step
        if checkpoint is not None and (step == last or step - saved >= save_every):
            run.checkpoint().save(checkpoint)
            saved = step
        if progress is not None and (step == last or step % _LOOK_EVERY == 0):
            progress(step, last)
        if pause is not None and step < last and step % _LOOK_EVERY == 0:
            pause(lambda: None if checkpoint is None else run.checkpoint().save(checkpoint))
    return run.samples()


class _Run:
    """A sampling run: what was asked for, the chains, and what they recorded."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        method: Method,
        thin: int,
        warmup: int,
        starts: Sequence[str],
        members: int | Sequence[int],
        seed: int,
        attention: bool,
        dtype: str,
        device: str,
        path: EnergyPath,
    ) -> None:
        numbers = list(range(members)) if isinstance(members, int) else [int(number) for number in members]
        _check_list("starts", starts)
        _check_list("members", numbers)
        for start in starts:
            if start not in STARTS:
                raise InputError("start", start, f"must be one of {', '.join(STARTS)}")
        if not isinstance(method, Method):
            raise InputError("method", method, "must be SGLD(...), Langevin(...) or HMC(...)")
        _check_count("thin", thin, 1)
        _check_count("warmup", warmup, 0)
        self.model, self.method = common_model([d.model for d in datasets]), method
        self.thin, self.warmup = thin, warmup
        self.seed, self.with_attention, self.dtype = seed, attention, dtype
        self.device, torch_dtype = resolve_device(device), resolve_dtype(dtype)

        self.datasets = list(datasets)
        self.labels = list(product(starts, numbers))
        self.energy: Energy = build_energy(self.datasets, dtype=dtype, device=self.device, path=path)
        keys = [
            (seed, len(d.tokens), d.seed, zlib.crc32(start.encode()), number)
            for d, (start, number) in product(self.datasets, self.labels)
        ]
        target: Target = HeadsTarget(self.energy, len(self.labels))
        if method.minibatch is not None:
            target = MinibatchTarget(self.datasets, len(self.labels), method.minibatch, keys, torch_dtype, self.device)
        self.kernel = method.build(target, keys, warmup)
        #: What determines all chains; a checkpoint with another description isn't theirs.
        self.description: dict[str, Any] = {
            "model": self.model.at(P=None).describe(),
            "method": method.describe(),
            "datasets": [[len(d.tokens), d.seed] for d in self.datasets],
            "chains": [list(label) for label in self.labels],
            "seed": seed,
            "warmup": warmup,
            "thin": thin,
            "dtype": dtype,
            "path": self.energy.path,
            "attention": attention,
        }

    def start(self, initial: Samples | None) -> None:
        """Put the chains at their starts, or where others ended."""
        if initial is None:
            models = [d.model for d in self.datasets]
            W, G = draw_starts(models, self.labels, self.seed, self.energy.dtype, self.device)
        else:
            W, G = (torch.from_numpy(part).to(self.device, self.energy.dtype) for part in initial.final())
            self.description["initial"] = [zlib.crc32(part.cpu().numpy().tobytes()) for part in (W, G)]
        self.state: State = self.kernel.init((W, G))
        self.recorded: list[np.ndarray[Any, np.dtype[np.float64]]] = []
        L = self.model.L
        self.attention = torch.zeros(*W.shape[:2], L, L, dtype=torch.float64, device=self.device)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Put the chains where a checkpoint left them."""
        tensors = dict(checkpoint.tensors)
        self.attention.copy_(tensors.pop("attention"))
        self.state.restore(tensors)
        self.recorded = list(checkpoint.draws)

    def checkpoint(self) -> Checkpoint:
        """Return where the run stands."""
        draws = np.stack(self.recorded) if self.recorded else np.empty((0, 0, 0, 0))
        return Checkpoint(self.description, {**self.state.tensors(), "attention": self.attention}, draws)

    def advance(self) -> None:
        """Take one update; record a draw when it is time."""
        self.state = self.kernel.update(self.state, inplace=True)
        since = self.state.step - self.warmup
        if since > 0 and since % self.thin == 0:
            self._record()
        elif self.state.step % _LOOK_EVERY == 0:
            self._look(torch.stack([part.flatten(2).sum(2) for part in self.state.position]))

    def _record(self) -> None:
        W, G = self.state.position
        observables = observe(self.energy, W, G)
        self._look(observables)
        if self.with_attention:
            A = self.energy.mean_attention(G)
            if has_sign_symmetry(self.model.score):
                A = A * torch.where(observables[0] + observables[1] < 0, -1.0, 1.0)[..., None, None]
            self.attention += A
        self.recorded.append(observables.double().cpu().numpy())

    def _look(self, numbers: Tensor) -> None:
        """Stop if any number of shape (..., D, M) isn't finite."""
        bad = (~torch.isfinite(numbers)).flatten(0, -3).any(0).nonzero()
        if len(bad) == 0:
            return
        d, m = bad[0].tolist()
        start, number = self.labels[m]
        chain = f"{m} (start {start}, number {number}, P = {len(self.datasets[d].tokens)}, "
        chain += f"data seed {self.datasets[d].seed})"
        draw = None if self.state.step <= self.warmup else (self.state.step - self.warmup - 1) // self.thin
        samples = self.samples() if self.recorded else None
        raise ChainDiverged(chain, draw, self.state.step, samples)

    def samples(self) -> Samples:
        """Return what was recorded, labelled."""
        shape = (len(self.datasets), len(self.labels))
        statistics = {}
        if isinstance(self.state, HMCState):
            statistics["step_size"] = self.state.log_step.exp().view(shape).cpu().numpy()
            statistics["acceptance"] = (self.state.accepted.double() / self.state.tried).view(shape).cpu().numpy()
        return Samples.from_draws(
            names=observable_names(self.model.score),
            draws=np.stack(self.recorded),
            chain={
                "start": np.array([start for start, _ in self.labels]),
                "number": np.array([number for _, number in self.labels]),
            },
            dataset={
                "P": np.array([len(d.tokens) for d in self.datasets]),
                "data_seed": np.array([d.seed for d in self.datasets]),
            },
            statistics=statistics,
            attributes={
                "model": json.dumps(self.model.at(P=None).describe()),
                "method": json.dumps(self.method.describe()),
                "seed": self.seed,
                "warmup": self.warmup,
                "thin": self.thin,
                "dtype": self.dtype,
                "device": describe_device(self.device),
                "path": self.energy.path,
                "phasekit": __version__,
            },
            final=tuple(part.cpu().numpy() for part in self.state.position),
            attention=(self.attention / len(self.recorded)).cpu().numpy() if self.with_attention else None,
        )


def _check_list(name: str, values: Sequence[object]) -> None:
    if len(values) == 0 or isinstance(values, str):
        raise InputError(name, values, "must be a list with at least one entry")
    if len(set(values)) != len(values):
        raise InputError(name, values, "must not repeat an entry")


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(name, value, f"must be a whole number of at least {least}")
