"""The noise around a pooling vector, squeezed by the data: linear attention, token+position inputs.

As in :mod:`phasekit.theory.action.noise`, with three averages instead of two: the noise collected along the constant
direction (n), along the rest of the pooling vector (m) and along each of the other V − 2 directions (q) of vocabulary
space. Coordinates are whitened (s, k, cG) along a last axis, noise is given by its logarithms. All may be complex:
derivatives are taken by complex steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.descent import Numbers, by_complex_step
from phasekit.theory.action.generated import pooled_field
from phasekit.theory.action.linear import copying_scale, pooling_scale

#: Steps at most, the change of a logarithm at which they end, and that at which the noise counts as found.
_STEPS, _SETTLED, _FOUND = 100, 1e-13, 1e-9
#: Instead of no modes at all (V = 2 has one direction across the constant one): they carry nothing.
_SOME = 1e-300


class PoolingModes(NamedTuple):
    """Groups of modes, along a new last axis: their number, what a unit of variance adds to the noise (n, m, q) along
    the constant direction, along k⊥ and along each other one (one more axis), and to ‖A‖_F² outside of the patterns."""

    number: Array
    loads: Array
    outside: Array


def modes_of(p: Parameters) -> PoolingModes:
    """Return the groups of modes of the noise: all of G but the pooling vector and cG.

    Rows of a block of G that is read at key tokens vary from query to query and collect E[φφᵀ] like the pooling vector:
    1/V for the direction that they point to, and through the tokens' random frequencies 1/(VL) for every other one.
    Logits of key positions average out over the tokens there, except along the constant direction.
    """
    V, L = p.V, p.L
    nothing = np.zeros(np.broadcast_shapes(V.shape, L.shape))
    token, position = (V - 1) / V, (L - 1) / L  # of the rows, without their mean
    direct, random = 1 / V, 1 / (V * L)
    key_tokens = (
        (1, (direct, random, random), direct),  # along the constant direction
        (1, (random, direct, random), direct),  # along k⊥
        (V - 2, ((V - 2) * random, (V - 2) * random, direct + (V - 3) * random), (V - 2) * direct),
    )
    groups = [
        (rows * number, tuple(share * load for load in loads), share * outside)
        for rows, share in ((V - 1, token), (L - 1, position))
        for number, loads, outside in key_tokens
    ]
    inside = (0 * L, position / L, position / L)
    groups += [
        (V * (L - 1), inside, position),  # query token × key position
        (L * (L - 1), inside, (L * (L - 1) - 1) / L**2),  # query position × key position, but for the shift
        *(
            (rows, (share / L, share / L**2, share / L**2), share / L)  # the row means of both
            for rows, share in ((V - 1, token), (L - 1, position))
        ),
    ]

    def laid(columns: tuple[Array, ...]) -> Array:
        return np.stack([column + nothing for column in columns], axis=-1)

    number, loads, outside = zip(*groups, strict=True)
    return PoolingModes(
        laid(number), np.stack([laid(load) for load in zip(*loads, strict=True)], axis=-1), laid(outside)
    )


def data_of(p: Parameters) -> tuple[Array, ...]:
    """Return the numbers of a model that Φ depends on besides the averages."""
    return p.P, p.V, p.L, p.sigma_w, p.kappa


def scales(p: Parameters) -> tuple[Array, Array, Array]:
    """Return the prior standard deviations of s, of k in each of its V − 1 directions, and of cG."""
    return pooling_scale(p), np.asarray(p.sigma_g * np.sqrt((1 / p.V + 1 / p.L) / p.V)), copying_scale(p)


def pattern_norm(s: Numbers, cG: Numbers, p: Parameters) -> Numbers:
    """Return q of the pattern: of c1 = s − cG and cG."""
    return np.asarray((1 - 1 / p.L) * cG**2 + s**2 / p.L)


def averages_of(x: Numbers, logs: Numbers, p: Parameters) -> tuple[Numbers, ...]:
    """Return what Φ is a function of, (s, n, k⊥², g, m, q), at whitened coordinates and logarithms of the noise."""
    s, k, cG = (part * scale for part, scale in zip(np.moveaxis(x, -1, 0), scales(p), strict=True))
    n, m, q = np.moveaxis(np.exp(logs), -1, 0)
    return s, n, k**2, (1 - 1 / p.L) * cG + s / p.L, m, q


def variances(averages: tuple[Numbers, ...], p: Parameters, modes: PoolingModes) -> Numbers:
    """Return the variances, along a last axis of groups, that the data's forces leave (see noise.py)."""
    _, on_n, _, _, *on_others = pooled_field.forces(*averages, *data_of(p))
    squeezed = (modes.loads * np.stack([on_n, *on_others], axis=-1)[..., None, :]).sum(-1)
    sigma2 = p.sigma_g[..., None] ** 2
    return np.asarray(sigma2 / (1 + 2 * sigma2 * squeezed / np.maximum(modes.number, _SOME)))


def imbalance(x: Numbers, logs: Numbers, p: Parameters, modes: PoolingModes) -> Numbers:
    """Return what vanishes at relaxed noise, along a last axis of (n, m, q): relative excess over what makes it up."""
    free = (modes.loads * variances(averages_of(x, logs, p), p, modes)[..., None]).sum(-2)
    return np.asarray(1 - (free + own_noise(x, p)) / np.exp(logs))


def free_noise(x: Array, p: Parameters, modes: PoolingModes) -> Array:
    """Return the logarithms of the prior's noise and of what is noise of the pattern itself, at most what there is."""
    free = p.sigma_g[..., None] ** 2 * modes.loads.sum(-2)
    return np.asarray(np.log(free + own_noise(x, p)))


def own_noise(x: Numbers, p: Parameters) -> Numbers:
    """Return what the pattern and the tokens' random frequencies add to (n, m, q): least for free noise."""
    s, k, cG = (part * scale for part, scale in zip(np.moveaxis(x, -1, 0), scales(p), strict=True))
    pattern, random = pattern_norm(s, cG, p), k**2 / p.L
    return np.stack(np.broadcast_arrays(random, pattern, pattern + random), axis=-1)


def relaxed(x: Array, p: Parameters, start: Array | None = None, settled: float = _SETTLED) -> Array:
    """Return the noise that is stationary at given coordinates, as logarithms; NaN where it isn't found.

    From above, as in noise.py, or from ``start``, that of a point nearby: plain iteration converges, and
    Newton's method takes over where it stays between the bounds.
    """
    modes = modes_of(p)
    top = free_noise(x, p, modes)
    logs = top if start is None else start
    floor = np.log(own_noise(x, p))
    done = np.zeros((*logs.shape[:-1], 1), dtype=bool)  # each by itself, as in noise.py
    for _ in range(_STEPS):
        excess = imbalance(x, logs, p, modes)
        plain = np.log1p(-excess)
        newton = solve(by_complex_step(lambda logs: imbalance(x, logs, p, modes), logs), -excess)
        usable = ((logs + newton <= top) & (logs + newton >= floor)).all(-1, keepdims=True)
        step = np.where(usable, newton, plain)
        logs = np.where(done, logs, logs + step)
        far = np.abs(step).max(-1, keepdims=True)
        done = done | ~(far > settled)
        if done.all():
            break
    return np.where(far <= max(_FOUND, settled), logs, np.nan)


def action_at(x: Array, logs: Array, p: Parameters) -> Array:
    """Return S at whitened coordinates and logarithms of the noise (docs/theory.md, section 6)."""
    modes, averages = modes_of(p), averages_of(x, logs, p)
    ratio = variances(averages, p, modes) / p.sigma_g[..., None] ** 2
    entropy = (modes.number * (ratio - 1 - np.log(ratio))).sum(-1)
    s2, k2, cG2 = np.moveaxis(x**2, -1, 0)
    entropy = entropy + (s2 - 1 - np.log(s2)) + (k2 - (p.V - 1) * (1 + np.log(k2 / (p.V - 1)))) + cG2
    return np.asarray(pooled_field.action(*averages, *data_of(p)) + entropy / 2)


def solve(matrix: Array, right: Array) -> Array:
    """Solve for one right-hand side (…, n) or several (…, n, k); NaN where the numbers have gone."""
    columns = right if right.ndim == matrix.ndim else right[..., None]
    whole = np.isfinite(matrix).all((-2, -1), keepdims=True) & np.isfinite(columns).all((-2, -1), keepdims=True)
    found = np.linalg.solve(np.where(whole, matrix, np.eye(matrix.shape[-1])), np.where(whole, columns, np.nan))
    return np.asarray(found if right.ndim == matrix.ndim else found[..., 0])
