"""Where linear attention starts to learn on the data it actually sees."""

from __future__ import annotations

import torch

from phasekit.errors import InputError
from phasekit.networks.energy_moments import MomentEnergy
from phasekit.networks.task import Dataset
from phasekit.scores import Linear


def onset_ratio(dataset: Dataset) -> float:
    """Return how far a data set is past its own onset: W = G = 0 is the minimum of U up to 1, and a saddle above.

    For linear attention with positional inputs U is, to second order in (W, G),

        P/(2κ) - 1/(κL²) Σ_ik,ab G_ik C_{k,i-1}[a,b] W_ab + ‖W‖²/(2σ_w²) + ‖G‖²/(2σ_g²),

    so the ratio is ``σ_w σ_g/(κL²)`` times the largest singular value of the L²×V² matrix of pair counts. On infinite
    data it is 1 at P₁ of docs/theory.md, section 4. On P sequences, the counts' fluctuations raise it by a factor of
    about ``1 + (1 + V²/L²)/(2P)``: networks learn a little earlier than the theory says, and just above P₁, where
    the order parameters grow as √(P - P₁), that shows.

    Raises
    ------
    InputError
        For another score, or token+position inputs.
    """
    model = dataset.model
    if not isinstance(model.score, Linear):
        raise InputError("score", model.score.name, "only linear attention has an onset at W = G = 0")
    if model.inputs != "positional":
        raise InputError("inputs", model.inputs, "must be positional")
    pairs = MomentEnergy([dataset], torch.device("cpu"), torch.float64).copy_pairs[0]
    largest = float(torch.linalg.matrix_norm(pairs, ord=2))
    return model.sigma_w * model.sigma_g * largest / (model.kappa * model.L**2)
