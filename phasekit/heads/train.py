"""Train many heads at once and say what became of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from phasekit import __version__
from phasekit.checkpoint import Pause, load_checkpoint, save_checkpoint
from phasekit.checks import real_number
from phasekit.device import describe_device, resolve_device, resolve_dtype, suitable_threads
from phasekit.errors import InputError
from phasekit.heads.adam import Adam, AdamEnsemble
from phasekit.heads.build import EnergyPath, build_energy
from phasekit.heads.encoded import EncodedEnergy
from phasekit.heads.energy import Energy, PositionalEnergy
from phasekit.heads.ensemble import Ensemble
from phasekit.heads.induction import InductionEnergy
from phasekit.heads.order_parameters import has_sign_symmetry, order_parameter_names, order_parameters
from phasekit.heads.population import Population, draw_datasets
from phasekit.heads.starts import STARTS
from phasekit.model import Copy, Induction, Model
from phasekit.progress import Progress, Report, reported
from phasekit.tasks.copy import Dataset

_DEFAULT_SETTINGS = Adam()
_PAUSE_EVERY = 50


def train(
    models: Model | Sequence[Model] | Sequence[Dataset],
    *,
    data_seeds: Sequence[int] = (0,),
    starts: Sequence[str] = tuple(STARTS),
    members: int | Sequence[int] = 2,
    seed: int = 0,
    settings: Adam = _DEFAULT_SETTINGS,
    tolerance: float = 1e-7,
    dtype: str = "float32",
    device: str = "auto",
    path: EnergyPath = "auto",
    progress: Progress = None,
    checkpoint: str | Path | None = None,
    pause: Pause | None = None,
) -> Ensemble:
    """Minimise U by full-batch Adam, for every model × data seed × start × member, all at once.

    Parameters
    ----------
    models : Model, sequence of Model, or sequence of Dataset
        With P; several may differ in P only. Data sets are taken as they are; ``data_seeds`` then plays no role.
    data_seeds : sequence of int
        One data set is drawn for each model and data seed, and shared by all members trained on it.
    starts : sequence of str
        From :data:`phasekit.heads.starts.STARTS`: "uniform", "copy", "random".
    members : int or sequence of int
        How many members for each start, or their numbers. A member's start is drawn from its own stream
        (seed, start, number): training numbers 0-3 and 4-7 apart gives the same heads as 0-7 together,
        up to rounding in the products of the shared kernels.
    settings : Adam
        Steps and learning rates.
    tolerance : float
        A member has converged if its estimated distance to the minimum is below ``tolerance * U``.
        The estimate takes the priors' curvature for the smallest one; near a transition the true distance was up
        to 100 times larger. The default keeps it well below 1e-4 of U.
    dtype : "float32" or "float64"
        Precision of training. The final state is always evaluated in float64.
    device : "auto", "cpu", "cuda" or "cuda:N"
    path : "auto", "moments" or "sequences"
        See :func:`phasekit.heads.build.build_energy`.
    progress : bool or callable, optional
        Whether to show a bar; None: in a notebook only. Or what is called now and then: (steps done, steps in all).
    checkpoint : path, optional
        A file (.npz) to resume from if it exists: training goes on from there, bit for bit.
    pause : callable, optional
        Called every 50 steps with a function that saves the checkpoint: to save by the clock, or to stop by raising.

    Raises
    ------
    InputError
        For anything out of range; one line.

    Notes
    -----
    From the "uniform" and "copy" starts 400 steps were enough for V = 8, L = 16-24, P < 1000; random ones took up to
    1000. The condition of U grows with P: at P = 16 384 the default 1000 steps leave softmax heads 1e-3 above their
    minimum, and they are flagged. Ensembles of small heads run on one CPU thread, which is fastest for them.
    """
    datasets = draw_datasets(models, data_seeds, Copy, Induction)
    if not isinstance(settings, Adam):
        raise InputError("settings", settings, "must be phasekit.heads.Adam(...)")
    tolerance = real_number("tolerance", tolerance, above=0)
    population = Population.of(datasets, starts, members, seed, Copy, Induction)
    place, precision = resolve_device(device), resolve_dtype(dtype)
    if isinstance(population.model.task, Induction):
        energy: Energy | InductionEnergy = InductionEnergy(datasets, place, precision)
    else:
        energy = build_energy(datasets, dtype=dtype, device=place, path=path)
    ensemble = AdamEnsemble(energy, population.draw(precision, place), settings)
    with torch.no_grad(), suitable_threads(place, energy.multiplications * len(population.members)):
        run = {**population.describe(), "settings": settings.describe(), "dtype": dtype, "path": energy.path}
        with reported(progress, "training heads") as report:
            _descend(ensemble, run, checkpoint, pause, report)
        at = ensemble.position
        if isinstance(energy, Energy):
            found = evaluate(energy, at["W"], at["G"], tolerance)
        else:
            found = energy.evaluate(at, tolerance)
    return Ensemble.from_arrays(
        dataset=population.dataset_labels(),
        member=population.member_labels(),
        arrays={name: value.cpu().numpy() for name, value in found.items()},
        attributes={
            "model": json.dumps(population.model.at(P=None).describe()),
            "settings": json.dumps(settings.describe()),
            "seed": population.seed,
            "tolerance": tolerance,
            "steps": ensemble.steps_done,
            "dtype": dtype,
            "device": describe_device(place),
            "path": energy.path,
            "phasekit": __version__,
        },
    )


def _descend(
    ensemble: AdamEnsemble,
    run: dict[str, object],
    checkpoint: str | Path | None,
    pause: Pause | None,
    report: Report | None,
) -> None:
    """Take all steps that are left, with a pause now and then."""

    def save() -> None:
        if checkpoint is not None:
            save_checkpoint(checkpoint, run, ensemble.state())

    if checkpoint is not None and Path(checkpoint).exists():
        ensemble.restore(load_checkpoint(checkpoint, run))
    steps = ensemble.settings.steps
    while ensemble.steps_done < steps:
        ensemble.run(min(steps - ensemble.steps_done, steps if pause is None else _PAUSE_EVERY), report)
        if pause is not None and ensemble.steps_done < steps:
            pause(save)


@torch.no_grad()
def evaluate(energy: Energy, W: Tensor, G: Tensor, tolerance: float) -> dict[str, Tensor]:
    """Return everything an :class:`Ensemble` records about its members, computed in float64.

    Where heads come in pairs of opposite sign (linear attention), the one with c₁ + c_G ≥ 0 is reported.
    """
    model = energy.model
    energy = energy.in_double()
    W, G = W.double(), G.double()
    U, dW, dG = energy.energy_and_gradient(W, G)
    averages = energy.averages(W, G)
    if has_sign_symmetry(model.score):
        sign = torch.where(averages.s < 0, -1.0, 1.0).to(averages.s)
        W, G = energy.mirrored(W, G, sign)
        averages = energy.averages(W, G)
    first, second, coverage = order_parameters(averages, model.mask.mean_keys(model.L))
    square_W, square_G = dW.square().flatten(2).sum(2), dG.square().flatten(2).sum(2)
    scales = energy.prior_scales
    excess = 0.5 * (scales["W"] ** 2 * square_W + scales["G"] ** 2 * square_G)
    names = order_parameter_names(model.score)
    scalars = {
        "U": U,
        "loss": averages.loss,
        "gradient_norm": (square_W + square_G).sqrt(),
        "excess": excess,
        names[0]: first,
        names[1]: second,
        "coverage": coverage,
        "s": averages.s,
        "s2": averages.s2,
        "g": averages.g,
        "q": averages.q,
    }
    failed = ~(torch.isfinite(U) & torch.isfinite(excess))
    A = energy.mean_attention(G)
    by_position = {}
    if isinstance(energy, PositionalEnergy | EncodedEnergy) and model.mask.hides:
        by_position["copy"] = A.roll(-1, dims=-2).diagonal(dim1=-2, dim2=-1).roll(1, dims=-1)
        by_position["position_loss"] = energy.position_losses(W, G)
    return {
        **{name: value.masked_fill(failed, torch.nan) for name, value in scalars.items()},
        "converged": ~failed & (excess <= tolerance * U),
        "failed": failed,
        "W": W,
        "G": energy.logit_matrix(G),
        "A": A,
        **by_position,
    }
