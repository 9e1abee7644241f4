"""Which way of computing the energy suits which model and data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from phasekit.device import resolve_device, resolve_dtype
from phasekit.errors import InputError
from phasekit.heads.encoded import EncodedEnergy
from phasekit.heads.energy import Energy, PositionalEnergy, common_model, multiplications
from phasekit.heads.energy_linear_tokens import LinearTokenEnergy
from phasekit.heads.energy_moments import MomentEnergy
from phasekit.heads.energy_sequences import SequenceEnergy
from phasekit.heads.energy_tokens import TokenEnergy
from phasekit.heads.factorised import FactorisedEnergy
from phasekit.model import Model
from phasekit.scores import Linear
from phasekit.tasks.copy import Dataset

EnergyPath = Literal["auto", "moments", "sequences"]


def build_energy(
    datasets: Sequence[Dataset],
    *,
    dtype: str = "float32",
    device: str | torch.device = "auto",
    path: EnergyPath = "auto",
) -> Energy:
    """Return the energy U of heads trained on these data sets.

    Parameters
    ----------
    datasets : sequence of Dataset
        Their models may differ in P only.
    dtype : "float32" or "float64"
    device : str
        "auto" takes the GPU where there is one.
    path : "auto", "moments" or "sequences"
        How the energy is computed from G, factorised or not. For positional inputs: from second moments, by running
        every sequence, or whichever takes fewer operations.
        With token+position inputs every sequence is run; for linear attention "auto" sums over keys first.

    Raises
    ------
    InputError
        For an unknown device, dtype or path, data sets that don't belong together, or "moments" with token+position.
    """
    model = common_model([d.model for d in datasets])
    torch_device = device if isinstance(device, torch.device) else resolve_device(device)
    torch_dtype = resolve_dtype(dtype)
    if path not in get_args(EnergyPath):
        raise InputError("path", path, f"must be one of {', '.join(get_args(EnergyPath))}")
    _refuse_setting(model)
    energy = _of_logits(model, datasets, torch_device, torch_dtype, path)
    if model.encoding is not None:
        assert isinstance(energy, PositionalEnergy)
        return EncodedEnergy(energy)
    return energy if model.key_dim is None else FactorisedEnergy(energy)


def _refuse_setting(model: Model) -> None:
    """Raise InputError for combinations that no energy computes."""
    if model.encoding is not None and model.key_dim is not None:
        raise InputError("key_dim", model.key_dim, f"goes with one-hot positions, not with {model.encoding.name} ones")
    if model.mask.hides and model.inputs == "token+position":
        raise InputError("mask", model.mask.name, "networks with token+position inputs know no mask")


def _of_logits(
    model: Model, datasets: Sequence[Dataset], device: torch.device, dtype: torch.dtype, path: EnergyPath
) -> Energy:
    """Return the energy as a function of W and G, whatever the prior of G."""
    if model.inputs == "token+position":
        if path == "moments":
            raise InputError("path", path, "second moments don't determine the energy with token+position inputs")
        summed_first = isinstance(model.score, Linear) and path == "auto"
        return (LinearTokenEnergy if summed_first else TokenEnergy)(datasets, device, dtype)
    if path == "auto":
        path = choose_path(model.at(P=max(len(d.tokens) for d in datasets)))
    kind: type[Energy] = MomentEnergy if path == "moments" else SequenceEnergy
    return kind(datasets, device, dtype)


def choose_path(model: Model) -> EnergyPath:
    """Return the way that takes fewer multiplications for a model with P; "auto" for token+position inputs.

    Second moments win always from P = L·V on.
    """
    if model.inputs == "token+position":
        return "auto"
    return min(("moments", "sequences"), key=lambda path: multiplications(model, path))
