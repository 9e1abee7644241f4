"""Fluctuations of linear attention's logits around their pattern, squeezed by the data (docs/theory.md, section 6).

The logits' noise falls into groups of modes. A mode of variance ρ adds to q and s₂ in proportion to ρ, and costs the
relative entropy h(ρ/σ_g²)/2, h(r) = r − 1 − ln r. At the minimum over all ρ

    ρ = σ_g² / [1 + 2 σ_g² (a Φ_q + b Φ_s₂)/n],

where n modes together add a ρ to q and b ρ to s₂. So the noise is a function of the two forces Φ_q, Φ_s₂ alone, and
these depend on it through q and s₂ alone: two equations in two unknowns, whatever the number of groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import mean_field

#: Newton steps at most (5 to 8 suffice in practice), and plain ones after them (rarely more than a hundred).
_STEPS, _PLAIN_STEPS = 60, 2000


class Modes(NamedTuple):
    """Groups of modes, along a new last axis: their number, and what a unit of variance adds to q and to s₂.

    ``outside``: what a unit of variance adds to ‖A‖_F² outside of the two patterns. Two modes lie along the patterns
    and are left out of it: of the row means their mean (the uniform pattern), of the other entries the shift.
    """

    number: Array
    in_q: Array
    in_s2: Array
    outside: Array


class Noise(NamedTuple):
    """Relaxed noise: totals q and s₂ (pattern and noise), the variances (last axis: groups), ‖A‖_F² outside of the
    patterns, the entropy."""

    q: Array
    s2: Array
    variances: Array
    outside: Array
    entropy: Array


def modes_of(p: Parameters) -> Modes:
    """Return the groups of modes with positional inputs: the L(L−1) entries of rows of zero mean, and the L row means.

    An entry of H adds 1/L² to ‖A‖_F².
    """
    L = p.L
    nothing = 0.0 * L
    rows = (L, 1 / L**2, 1 / L, (L - 1) / L**2)
    bulk = (L * (L - 1), (L - 1) / L**2, nothing, (L * (L - 1) - 1) / L**2)
    return Modes(*(np.stack(np.broadcast_arrays(*column), axis=-1) for column in zip(bulk, rows, strict=True)))


def relax(s: Array, s2: Array, g: Array, q: Array, p: Parameters) -> Noise:
    """Return the noise that minimises the action around a pattern with averages s, s₂, g, q.

    The solution is found from above (from the prior's noise). More noise is squeezed less, so plain iteration falls
    monotonically to the largest solution; Newton's method takes over where it stays between the known bounds, and what
    it hasn't settled is left to plain iteration. NaN where that doesn't settle either.
    """
    modes = modes_of(p)
    sigma2 = p.sigma_g**2
    shape = np.broadcast_shapes(*(np.shape(x) for x in (s, s2, g, q)), p.shape)
    floor_q, floor_s2 = np.broadcast_to(q, shape), np.broadcast_to(s2, shape)
    most_q = top_q = floor_q + sigma2 * modes.in_q.sum(-1)
    most_s2 = top_s2 = floor_s2 + sigma2 * modes.in_s2.sum(-1)
    data = (p.P, p.V, p.sigma_w, p.kappa)
    settled = np.zeros(shape, dtype=bool)  # each by itself: what a model's noise is doesn't hang on its neighbours
    for k in range(_STEPS + _PLAIN_STEPS):
        variances, response = _squeezed(modes, mean_field.forces(s, top_s2, g, top_q, *data), sigma2)
        rest_q = floor_q + (modes.in_q * variances).sum(-1) - top_q  # ≤ 0: the largest solution lies below
        rest_s2 = floor_s2 + (modes.in_s2 * variances).sum(-1) - top_s2
        _, _, k_s2, _, _, k_q = mean_field.stiffness(s, top_s2, g, top_q, *data)
        step_q, step_s2 = _solve_2x2(
            1 + response[0] * k_q, response[1] * k_s2, response[1] * k_q, 1 + response[2] * k_s2, rest_q, rest_s2
        )
        usable = (top_q + step_q >= floor_q) & (top_s2 + step_s2 >= floor_s2)
        usable &= (top_q + step_q <= most_q) & (top_s2 + step_s2 <= most_s2)
        usable &= k < _STEPS
        step_q, step_s2 = np.where(usable, step_q, rest_q), np.where(usable, step_s2, rest_s2)
        top_q, top_s2 = np.where(settled, top_q, top_q + step_q), np.where(settled, top_s2, top_s2 + step_s2)
        settled |= (np.abs(step_q) <= 1e-14 * top_q) & (np.abs(step_s2) <= 1e-14 * top_s2)
        if settled.all():
            break
    settled |= (np.abs(step_q) <= 1e-9 * top_q) & (np.abs(step_s2) <= 1e-9 * top_s2)
    top_q, top_s2 = np.where(settled, top_q, np.nan), np.where(settled, top_s2, np.nan)
    variances, _ = _squeezed(modes, mean_field.forces(s, top_s2, g, top_q, *data), sigma2)
    squeeze = sigma2[..., None] / variances - 1  # h in terms of σ_g²/ρ, whose logarithm holds however small ρ is
    entropy = (modes.number / 2 * (np.log1p(squeeze) - squeeze / (1 + squeeze))).sum(-1)
    return Noise(top_q, top_s2, variances, (modes.outside * variances).sum(-1), entropy)


def _squeezed(
    modes: Modes, forces: tuple[Array, Array, Array, Array], sigma2: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return the variances under given forces, and the response of the noise N = (in q, in s₂) to the forces.

    The response is −dN/dforce for the forces (Φ_q, Φ_s₂): entries (qq, qs₂, s₂s₂), positive.
    """
    _, on_s2, _, on_q = (np.asarray(force)[..., None] for force in forces)
    sigma2 = np.asarray(sigma2)[..., None]
    variances = sigma2 / (1 + 2 * sigma2 * (modes.in_q * on_q + modes.in_s2 * on_s2) / modes.number)
    give = 2 * variances**2 / modes.number
    pairs = ((modes.in_q, modes.in_q), (modes.in_q, modes.in_s2), (modes.in_s2, modes.in_s2))
    qq, qs, ss = ((a * b * give).sum(-1) for a, b in pairs)
    return variances, (qq, qs, ss)


def _solve_2x2(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Solve [[a, b], [c, d]] (u, v) = (x, y)."""
    determinant = a * d - b * c
    with np.errstate(divide="ignore", invalid="ignore"):  # singular: no number compares as usable
        return (d * x - b * y) / determinant, (a * y - c * x) / determinant
