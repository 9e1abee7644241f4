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
from phasekit.model import Induction, Model, Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import induction_map
from phasekit.theory.minima import Minima


class QuestionsCorrection(NamedTuple):
    """One number for each minimum of :func:`phasekit.theory.minima.find_minima`, in its order."""

    readout: Array
    """δU of the readout, to first order in 1/P: what to add to the action."""
    rest: Array
    """A lower bound of what both layers add to it (at most 0): a network's U lies between, up to the draw."""


def questions_correction(found: Minima) -> QuestionsCorrection:
    """Return what P questions, in place of infinitely many at temperature κ/P, change in the energies of minima.

    Raises
    ------
    InputError
        If they aren't those of an induction head.
    """
    models = found.models
    model = models if isinstance(models, Model) else models.base
    if not isinstance(model.task, Induction):
        raise InputError("task", model.task.name, "must be induction")
    if model.task.weight:
        raise InputError("weight", model.task.weight, "must be 0: no theory of finite data with two kinds of questions")
    p = models.parameters().expand()
    V, t, second = p.V, p.strength, found.order_parameters["alpha2"]
    g, q = ((V * x - 1) / (V - 1) for x in (second, found.averages["q"]))
    w, w1 = t * g / (1 + t * q), t / (1 + t)
    trace = t / (1 + t) + (V - 1) * t * q / (1 + t * q)
    # λ² tr Wᵀ(M + λ)⁻¹W: λ = 1/(tV) in units of σ_w², M = q/V in V − 1 directions and 1/V in one
    mean = ((V - 1) * w**2 / (1 + t * q) + w1**2 / (1 + t)) / (t * V)
    return QuestionsCorrection(-(found.loss * trace - mean) / (2 * p.kappa), -_rest(found, p, w))


def _rest(found: Minima, p: Parameters, w: Array) -> Array:
    """Return ½ σ_g² ⟨‖g‖²⟩ of both layers: each question's squared force, without the mean that the prior balances.

    A question pulls the logit of its right key up by F, that of every other key down by F/(L − 1); with softmax
    F = α₂(1 − α₂) w (e_right − e_other)/κ. A force on mixtures goes through the slope of layer 1's rows.
    """
    L, spread = p.L, np.sqrt(p.L / (p.L - 1))
    first, second = found.order_parameters["alpha1"], found.order_parameters["alpha2"]
    match, gap = found.coordinates["match"], found.coordinates["gap"]
    other = (1 - second) / (L - 1)
    pull = second * (1 - second) * w * (1 - w * (second - other)) / p.kappa
    on_match = pull * (L * first - 1) / (L - 1) * spread
    on_mixtures = np.abs(match) * pull * spread * np.maximum(induction_map.route(gap, L)[1], 1 / L)
    balanced = (p.V - 1) * match**2 / p.sigma_g**4, (L - 1) * gap**2 / p.sigma_g**4
    forces = zip((on_match, on_mixtures), balanced, strict=True)
    return np.asarray(p.sigma_g**2 / 2 * sum(np.maximum(p.P * force**2 - mean / p.P, 0) for force, mean in forces))
