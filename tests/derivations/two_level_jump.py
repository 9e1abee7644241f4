"""P* of two-level actions written down from the model's definition: where both minima have the same action.

Nothing of the derivations or of the package's theory is used but a starting point for Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath

from tests.derivations.reference import phi

mp = mpmath.mp.clone()
mp.dps = 50
_STEP = mp.mpf(10) ** -30


class Jump(NamedTuple):
    """P*, and the copy weight on both sides."""

    P: float
    low: float
    high: float


def data(copy: Any, P: Any, V: Any, L: Any, sigma_w: Any, kappa: Any) -> Any:
    """Data part at weight ``copy`` on the copy entry and equal weights elsewhere."""
    other = (1 - copy) / (L - 1)
    return phi(1, 1, copy, copy**2 + (L - 1) * other**2, P, V, sigma_w, kappa)


def ssa_jump(
    n: float, b: float, V: float, L: float, lam: float, start: tuple[float, float, float], **scales: float
) -> Jump:
    """P* of SSA, both logits free; ``lam`` is the cost of the mean. ``start``: P*, and u, v at the upper minimum."""
    n, b, V, L, lam = (mp.mpf(number) for number in (n, b, V, L, lam))
    sigma_w, sigma_g, kappa = (mp.mpf(scales.get(name, 1.0)) for name in ("sigma_w", "sigma_g", "kappa"))

    def copy(u: Any, v: Any) -> Any:
        raised, other = (1 + b * u) ** n, (1 - b * v) ** -n  # u > 0 > v at every minimum
        return raised / (raised + (L - 1) * other)

    def action(u: Any, v: Any, P: Any) -> Any:
        mean = (u + (L - 1) * v) / L
        prior = (L - 1) * (u - v) ** 2 + lam * mean**2
        return data(copy(u, v), P, V, L, sigma_w, kappa) + prior / (2 * sigma_g**2)

    P, u, v = (mp.mpf(number) for number in start)
    low = (mp.mpf(0), mp.mpf(0))
    for _ in range(60):  # the lower minimum answers to the force of the data at it
        on_u, on_v = _gradient(lambda *z: data(copy(*z), P, V, L, sigma_w, kappa), low)
        # In gap and mean the prior is diagonal: u = mean + gap (1 − 1/L), v = mean − gap/L.
        gap = -(on_u * (1 - 1 / L) - on_v / L) * sigma_g**2 / (L - 1)
        mean = -(on_u + on_v) * sigma_g**2 / lam
        low = (mean + gap * (1 - 1 / L), mean - gap / L)
    return _solve(action, copy, low, (u, v), P)


def entmax_jump(k: float, V: float, L: float, start: tuple[float, float], **scales: float) -> Jump:
    """P* of α-entmax, k = α − 1, over the log odds of the copy weight. ``start``: P*, and α at the upper minimum."""
    k, V, L = (mp.mpf(number) for number in (k, V, L))
    sigma_w, sigma_g, kappa = (mp.mpf(scales.get(name, 1.0)) for name in ("sigma_w", "sigma_g", "kappa"))

    def copy(logit: Any) -> Any:
        return 1 / (1 + mp.exp(-logit))

    def action(logit: Any, P: Any) -> Any:
        raised = copy(logit)
        other = (1 - raised) / (L - 1)
        gap = (raised**k - other**k) / k  # p = [(α−1)h − τ]^(1/(α−1)) for both levels
        return data(raised, P, V, L, sigma_w, kappa) + (L - 1) * gap**2 / (2 * sigma_g**2)

    P, high = (mp.mpf(number) for number in start)
    low = mp.log(1 / (L - 1)) + mp.mpf(10) ** -3
    low = mp.findroot(lambda x: _gradient(lambda z: action(z, P), (x,))[0], (low, low + mp.mpf(10) ** -3))
    return _solve(action, copy, (low,), (mp.log(high / (1 - high)),), P)


def _gradient(function: Callable[..., Any], z: tuple[Any, ...]) -> list[Any]:
    """Complex steps."""
    return [function(*(mp.mpc(x, _STEP) if i == k else x for i, x in enumerate(z))).imag / _STEP for k in range(len(z))]


def _solve(action: Callable[..., Any], copy: Callable[..., Any], low: Any, high: Any, P: Any) -> Jump:
    """Newton's method for both minima and P* together; both must be minima, and different ones."""
    size, count = P, len(low)

    def conditions(*x: Any) -> list[Any]:
        first, second, scale = x[:count], x[count : 2 * count], mp.exp(x[-1])
        slopes = [
            part / size for place in (first, second) for part in _gradient(lambda *z: action(*z, scale), tuple(place))
        ]
        return [*slopes, (action(*first, scale) - action(*second, scale)) / size]

    found = mp.findroot(conditions, (*low, *high, mp.log(P)), tol=mp.mpf(10) ** -40, maxsteps=60)
    scale = mp.exp(found[2 * count])
    places = [tuple(found[i * count + j] for j in range(count)) for i in (0, 1)]
    for place in places:
        hessian = mp.matrix(count, count)
        for i in range(count):
            for j in range(count):
                h = mp.mpf(10) ** -12 * (1 + abs(place[j]))
                moved = [tuple(x + s * h * (m == j) for m, x in enumerate(place)) for s in (1, -1)]
                ends = [_gradient(lambda *z: action(*z, scale), each)[i] for each in moved]
                hessian[i, j] = (ends[0] - ends[1]) / (2 * h)
        assert min(mp.eigsy(hessian, eigvals_only=True)) > 0
    weights = [float(copy(*place)) for place in places]
    assert weights[1] > 1.5 * weights[0]
    return Jump(float(scale), *weights)
