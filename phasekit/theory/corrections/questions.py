"""What a finite number of questions does to an induction head's energy (docs/induction.md, section 5).

The theory averages the data. P questions fluctuate around their average, and the weights follow: to first order U falls
by ½ ⟨gᵀH⁻¹g⟩, with the gradient's fluctuation g at the theory's minimum and the Hessian H. In the readout's part all is
known. At the minimum every question is like every other up to a relabelling of the tokens: each has the same squared
error, the loss. So the fluctuation of the readout's gradient has the covariance loss · M − (its mean)², M = E[φφᵀ], and

    δU = −(1/(2κ)) { loss · tr M(M + λ)⁻¹ − λ² tr Wᵀ(M + λ)⁻¹W },     λ = κ/(Pσ_w²)

The other weights' part is bounded from below by taking the prior's curvature for the Hessian's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasekit.errors import InputError
from phasekit.model import Induction, Model, given_model
from phasekit.theory.action import InductionMap, action_for
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import induction_map
from phasekit.theory.minima import Minima, find_minima


class QuestionsCorrection(NamedTuple):
    """One number for each minimum of a model, lowest action first."""

    readout: Array
    """δU of the readout, to first order in 1/P: what to add to the action."""
    rest: Array
    """A lower bound of what both layers add to it (at most 0): a network's U lies between, up to the draw."""


def questions_correction(model: Model) -> QuestionsCorrection:
    """Return what P questions, in place of infinitely many at temperature κ/P, change in the energies of all minima.

    Raises
    ------
    InputError
        If the model is no induction head, or has no theory or no P.
    """
    if not isinstance(given_model(model).task, Induction):
        raise InputError("task", model.task.name, "must be induction")
    action, found = action_for(model), find_minima(model)
    assert isinstance(action, InductionMap)
    p = model.parameters()
    P, V, L, t = float(p.P), float(p.V), float(p.L), float(p.strength)
    first, second = found.order_parameters["alpha1"], found.order_parameters["alpha2"]
    g, q = ((V * x - 1) / (V - 1) for x in (second, found.averages["q"]))
    w, w1, share = t * g / (1 + t * q), t / (1 + t), t * q / (1 + t * q)
    trace = t / (1 + t) + (V - 1) * share
    # λ² tr Wᵀ(M + λ)⁻¹W, with λ = 1/(tV), M = q/V and 1/V, and V − 1 and 1 directions
    mean = ((V - 1) * w**2 / (1 + t * q) + w1**2 / (1 + t)) / (t * V)
    readout = -(found.loss * trace - mean) / (2 * model.kappa)
    return QuestionsCorrection(readout, -_rest(model, found, first, second, w, P, V, L))


def _rest(model: Model, found: Minima, first: Array, second: Array, w: Array, P: float, V: float, L: float) -> Array:
    """Return ½ σ_g² ⟨‖g‖²⟩ of both layers: each question's squared force, without the mean that the prior balances.

    A question pulls the logit of its right key up by F, that of every other key down by F/(L − 1); with softmax
    F = α₂(1 − α₂) w (e_right − e_other)/κ.
    """
    other = (1 - second) / (L - 1)
    pull = second * (1 - second) * w * (1 - w * (second - other)) / model.kappa
    contrast = (L * first - 1) / (L - 1)
    on_match = pull * contrast * np.sqrt(L / (L - 1))  # norm of the force on G₂
    match, gap = found.coordinates["match"], found.coordinates["gap"]
    prior_match = (V - 1) * match**2 / model.sigma_g**4
    # The force on the mixtures, β F L/(L − 1) on the right key's own row, goes through the slope of each row's softmax.
    slope = induction_map.route(gap, np.asarray(L))[1]
    on_mixing = np.abs(match) * pull * np.sqrt(L / (L - 1)) * np.maximum(slope, 1 / L)
    prior_gap = (L - 1) * gap**2 / model.sigma_g**4
    fluctuation = np.maximum(P * on_match**2 - prior_match / P, 0) + np.maximum(P * on_mixing**2 - prior_gap / P, 0)
    return np.asarray(model.sigma_g**2 * fluctuation / 2)
