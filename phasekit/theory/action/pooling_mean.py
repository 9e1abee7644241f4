"""Means over the amplitudes of a pooling vector: linear attention with token+position inputs, posterior.

The mean s of the pooling vector is one mode of V, its part across is V − 1 of them: so few that their distribution
exp(−S) is broad, and where pooling grows fast it has two humps. A minimum says where it is largest; heads drawn from
the posterior are spread over all of it. Averages are taken here over (s, k), with noise and cG at their best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import pooled_field
from phasekit.theory.action.pooling_noise import (
    action_at,
    averages_of,
    data_of,
    modes_of,
    pattern_norm,
    relaxed,
    scales,
    variances,
)

#: Nodes along s and k, of the search for what counts and of the means; how often the search draws its grid
#: closer, around what lies how far above the least S, until its size changes by less than that factor.
_FEW, _MANY, _ZOOMS, _REACH, _CLOSE = (14, 11), (32, 17), 12, 9.0, 0.6
#: Steps in which cG follows; how well the noise is to settle.
_STEPS, _SETTLED = 2, 1e-7


class Means(NamedTuple):
    """Means over the posterior's amplitudes on one side of g²/q = 1/2, each an array of the points' shape."""

    s: Array
    """Root mean square: both signs are drawn equally often."""
    s2: Array
    g: Array
    """Of that s and the mean cG."""
    outside: Array
    """E‖A‖_F² outside of the two patterns."""
    q: Array
    loss: Array


@np.errstate(invalid="ignore")  # nodes without a stationary noise are NaN
def means_around(x: Array, p: Parameters) -> Means:
    """Return the means for minima at whitened (s, k, cG), shape (models, 3), of flat parameters.

    NaN where noise isn't found at one of the nodes that count.
    """
    box = _widest(x, p)
    far = np.arange(x.shape[0])
    for _ in range(_ZOOMS):
        nodes, action, _ = _at_nodes(box[far], x[far], p[far], _FEW, steps=1)
        closer = _closer(box[far], nodes, action, x[far])
        shrinks = ((closer[..., 1] - closer[..., 0]) < _CLOSE * (box[far, :, 1] - box[far, :, 0])).any(-1)
        box[far] = closer
        far = far[shrinks]
        if far.size == 0:
            break
    nodes, action, logs = _at_nodes(box, x, p, _MANY, _STEPS)
    action = action - np.nanmin(action, axis=-1, keepdims=True)
    weight = np.where(np.isinf(action), 0.0, np.exp(-action))
    weight = weight / weight.sum(-1, keepdims=True)

    def mean(values: Array) -> Array:
        return np.asarray(np.where(weight > 0, weight * values, weight).sum(-1))

    every, modes = p.expand(), modes_of(p.expand())
    averages = averages_of(nodes, logs, every)
    s, n, *_ = averages
    outside = averages[2] + (modes.outside * variances(averages, every, modes)).sum(-1)
    cG = nodes[..., 2] * scales(every)[2]
    q = pattern_norm(s, cG, every) + outside / every.L
    loss = pooled_field.loss(*averages, *data_of(every))
    rms = np.sqrt(mean(s**2))
    g = (1 - 1 / p.L) * mean(cG) + rms / p.L
    return Means(rms, mean(s**2 + n), g, mean(outside), mean(q), mean(loss))


def copying_share(x: Array, p: Parameters) -> Array:
    """Return g²/q of the pattern alone, as for positional inputs."""
    a, _, c = scales(p)
    s, cG = x[..., 0] * a, x[..., 2] * c
    return np.asarray((cG + (s - cG) / p.L) ** 2 / pattern_norm(s, cG, p))


def _widest(x: Array, p: Parameters) -> Array:
    """Return the ends of s and k, shape (models, 2, 2): from nothing to beyond a perfect pooling head."""
    a, b, _ = scales(p)
    largest = np.stack([np.maximum(5.0, 2.5 / a), np.maximum(np.sqrt(p.V - 1) + 5.0, 2.5 / b)], axis=-1)
    return np.stack([0 * largest, np.maximum(largest, 2 * x[:, :2])], axis=-1)


def _at_nodes(box: Array, x: Array, p: Parameters, counts: tuple[int, int], steps: int) -> tuple[Array, Array, Array]:
    """Return nodes (models, nodes, 3) in a box, −ln of the density of (s, k) there, and the noise.

    Nodes are midpoints: the density is even in s, so that their sum is exact for all that is smooth. The
    logarithm is infinite where cG, which follows in some steps, has gone over to the other side of g²/q = 1/2.
    """
    axes = [
        ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * (np.arange(count) + 0.5) / count
        for ends, count in zip(np.moveaxis(box, 1, 0), counts, strict=True)
    ]
    first, second = np.broadcast_arrays(axes[0][:, :, None], axes[1][:, None, :])
    models = x.shape[0]
    amplitudes = np.stack([first, second], axis=-1).reshape(models, -1, 2)
    cG = np.broadcast_to(x[:, None, 2:], (*amplitudes.shape[:2], 1))
    nodes = np.concatenate([amplitudes, cG], axis=-1)
    each = p[np.repeat(np.arange(models), nodes.shape[1])]
    flat = nodes.reshape(-1, 3)
    logs = relaxed(flat, each, settled=_SETTLED)
    c, rest = scales(each)[2], 1 - 1 / each.L
    for _ in range(steps):
        _, _, _, on_g, on_m, on_q = pooled_field.forces(*averages_of(flat, logs, each), *data_of(each))
        stiffness = 1 + 2 * c**2 * rest * (on_m + on_q)
        flat = np.concatenate([flat[:, :2], (-c * rest * on_g / stiffness)[:, None]], axis=-1)
        logs = relaxed(flat, each, logs, _SETTLED)
    action = action_at(flat, logs, each) + np.log(flat[:, 0] * flat[:, 1]) + np.log(stiffness) / 2
    # g²/q is taken at the minimum's s: at s near 0 any cG looks like copying.
    seen = np.concatenate([np.repeat(x[:, :2], nodes.shape[1], axis=0), flat[:, 2:]], axis=-1)
    other_side = (copying_share(seen, each) < 0.5).reshape(models, -1) != (copying_share(x, p) < 0.5)[:, None]
    shape = (models, nodes.shape[1])
    return flat.reshape(*shape, 3), np.where(other_side, np.inf, action.reshape(shape)), logs.reshape(*shape, 3)


def _closer(box: Array, nodes: Array, action: Array, x: Array) -> Array:
    """Return the box around all nodes whose weight counts, and the minimum, with one cell to spare on each side."""
    counts = action <= np.fmin.reduce(action, axis=-1)[:, None] + _REACH
    amplitudes = np.concatenate([nodes[..., :2], x[:, None, :2]], axis=1)
    inside = np.concatenate([counts, np.ones((x.shape[0], 1), dtype=bool)], axis=1)[..., None]
    cell = (box[..., 1] - box[..., 0]) / np.array(_FEW)
    low = np.where(inside, amplitudes, np.inf).min(1) - cell
    high = np.where(inside, amplitudes, -np.inf).max(1) + cell
    return np.stack([np.maximum(low, box[..., 0]), np.minimum(high, box[..., 1])], axis=-1)
