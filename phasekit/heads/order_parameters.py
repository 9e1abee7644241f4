"""Order parameters of an attention matrix, from four averages (docs/theory.md, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from phasekit.heads.energy import Averages
from phasekit.scores import Score


def order_parameter_names(score: Score) -> tuple[str, str]:
    """Return what pooling and copy order parameter are called: a1, aG where rows sum to 1, else c1, cG."""
    return ("a1", "aG") if score.normalised else ("c1", "cG")


def order_parameters(averages: Averages, L: float) -> tuple[Tensor, Tensor, Tensor]:
    """Project on the two symmetric patterns, ``A ≈ a₁ 11ᵀ/L + a_G S``, by least squares.

    With token+position inputs the averages run over the training sequences too: the order parameters are then those
    of the mean attention matrix, and the coverage is their share of the mean squared one. With a mask the first pattern
    spreads evenly over what each position sees, and ``L`` is the harmonic mean of how many keys that are
    (:meth:`phasekit.masks.Mask.mean_keys`).

    Returns
    -------
    a1, aG : Tensor
        a_G = (g - s/L)/(1 - 1/L), a₁ = s - a_G.
    coverage : Tensor
        (a₁² + 2a₁a_G + L a_G²)/‖A‖_F², the share of the squared pattern that the two explain.
    """
    aG = (averages.g - averages.s / L) / (1 - 1 / L)
    a1 = averages.s - aG
    return a1, aG, (a1**2 + 2 * a1 * aG + L * aG**2) / (L * averages.q)


def has_sign_symmetry(score: Score) -> bool:
    """Whether A(-H) = -A(H), so that (W, G) and (-W, -G) are the same head."""
    logits = torch.linspace(-1.0, 2.0, 12, dtype=torch.float64).view(3, 4)
    return bool(torch.equal(score.rows(-logits), -score.rows(logits)))
