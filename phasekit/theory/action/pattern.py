"""Encodings that can't make every pattern: the cheapest one is searched for among those that they can (docs/beyond.md).

All rows have the same logits by distance, b_d = σ_g (Bθ)_d, with whitened weights θ and the encoding's basis B. So

    S(θ) = Φ(g, q) + ‖θ‖²/2,     a = softmax(b),   g = a₁,   q = Σ a_d²,

in as many coordinates as the basis has columns, found by descents from even attention and from raised copy logits.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize

from phasekit.errors import InputError
from phasekit.model import Parameters
from phasekit.theory.action.base import Array
from phasekit.theory.action.listed import Branch, Listed

#: Gaps at which descents begin, in units of what the data can afford; how close two minima are that are one.
_SHARES, _SAME = (0.05, 0.15, 0.4, 1.0), 1e-5
_NEWTON_STEPS = 30


class _Jet(NamedTuple):
    value: float
    gradient: Array
    hessian: Array
    g: float
    q: float


class PatternMap(Listed):
    """S of softmax attention with an encoding that has a basis."""

    coordinates: tuple[str, ...] = ("gap",)
    course: ClassVar[str] = "patterns"

    def branches(self, p: Parameters) -> list[Branch]:
        basis = self._basis(p)
        found: list[tuple[float, Array]] = []
        for theta in self._starts(basis, p):
            end = _descend(theta, basis, p)
            jet = _jet(end, basis, p)
            new = all(abs(jet.g - _jet(other, basis, p).g) > _SAME for _, other in found)
            if new and np.linalg.eigvalsh(jet.hessian)[0] > 0:
                found.append((jet.value, end))
        found.sort(key=lambda each: each[0])
        return [Branch(np.nan, _values(theta, basis, p)) for _, theta in found]

    def lowest(self, p: Parameters) -> dict[str, Any]:
        return self.branches(p)[0].values

    def from_end(self, p: Parameters, copying: bool) -> float:
        basis = self._basis(p)
        starts = self._starts(basis, p)
        return _jet(_descend(starts[-1 if copying else 0], basis, p), basis, p).g

    def _basis(self, p: Parameters) -> Array:
        basis = p.setting.encoding.basis(round(float(p.L)))
        assert basis is not None
        return np.asarray(basis * p.sigma_g)

    def _starts(self, basis: Array, p: Parameters) -> list[Array]:
        """Return even attention, then the cheapest weights that raise the copy logit by more and more."""
        raised = basis[1] - basis.mean(0)
        afford = float(np.sqrt(p.P / p.kappa)) / float(np.linalg.norm(raised))
        return [np.zeros(basis.shape[1]), *(share * afford * raised for share in _SHARES)]


def check_pattern(encoding: Any, L: int) -> None:
    """Raise InputError if no weights put the copy entry of a row above all others."""
    basis = encoding.basis(L)
    above = basis[1] - np.delete(basis, 1, axis=0)
    found = linprog(np.zeros(basis.shape[1]), A_ub=-above, b_ub=-np.ones(L - 1), bounds=(None, None))
    if not found.success:
        raise InputError("encoding", encoding.name, f"can't represent the copy pattern: no weights raise it at L = {L}")


def _descend(theta: Array, basis: Array, p: Parameters) -> Array:
    """Return the minimum that L-BFGS and Newton's method reach."""

    def slope(x: Array) -> tuple[float, Array]:
        jet = _jet(x, basis, p, False)
        return jet.value, jet.gradient

    theta = minimize(slope, theta, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-13}).x
    for _ in range(_NEWTON_STEPS):
        jet = _jet(theta, basis, p)
        trial = theta - np.linalg.solve(jet.hessian, jet.gradient)
        if np.linalg.norm(_jet(trial, basis, p, False).gradient) >= np.linalg.norm(jet.gradient):
            break
        theta = trial
    return np.asarray(theta)


def _jet(theta: Array, basis: Array, p: Parameters, curved: bool = True) -> _Jet:
    t, data = float(p.strength), float(p.P / (2 * p.kappa * p.V))
    bulk = data * float(p.V - 1)
    b = basis @ theta
    a = np.exp(b - b.max())
    a /= a.sum()
    g, q = a[1], a @ a
    full = 1 + t * q
    w = t * g / full
    copy = np.zeros_like(a)
    copy[1] = 1
    on_g, on_q = g * (copy - a), 2 * a * (a - q)
    # dΦ = K(−2w dg + w² dq), and the readout answers with dw = (dg − w dq) t/(1 + tq)
    gradient = bulk * (-2 * w * on_g + w**2 * on_q)
    value = data / (1 + t) + bulk * (1 - w * g) + theta @ theta / 2
    if not curved:
        return _Jet(float(value), basis.T @ gradient + theta, np.empty(0), float(g), float(q))
    first, mean, flat, sharp = (basis.T @ x for x in (copy, a, a**2, on_g - w * on_q))
    outer = np.outer
    # second derivatives of g and q, between the columns of the basis
    spread = basis.T @ (basis * a[:, None]) - outer(mean, mean)
    bend_g = g * (outer(first - mean, first - mean) - spread)
    bend_q = basis.T @ (basis * (4 * a**2 - 2 * q * a)[:, None]) - 4 * (outer(flat, mean) + outer(mean, flat))
    bend_q += 6 * q * outer(mean, mean)
    hessian = bulk * (-2 * w * bend_g + w**2 * bend_q - 2 * t / full * outer(sharp, sharp)) + np.eye(theta.size)
    return _Jet(float(value), basis.T @ gradient + theta, hessian, float(g), float(q))


def _values(theta: Array, basis: Array, p: Parameters) -> dict[str, Any]:
    jet = _jet(theta, basis, p)
    g, q, L, V, t = jet.g, jet.q, float(p.L), float(p.V), float(p.strength)
    b, w = basis @ theta, t * jet.g / (1 + t * jet.q)
    copying = (g - 1 / L) / (1 - 1 / L)
    curvatures = np.linalg.eigvalsh(jet.hessian)
    scale = max(1.0, float(np.linalg.norm(theta))) * max(1.0, float(curvatures[-1]))
    return {
        "action": jet.value,
        "coordinates": {"gap": float(b[1] - np.delete(b, 1).mean())},
        "order_parameters": {"a1": 1 - copying, "aG": copying},
        "averages": {"s": 1.0, "s2": 1.0, "g": g, "q": q},
        "copying_share": g**2 / q,
        "coverage": ((1 - copying) ** 2 + 2 * copying * (1 - copying) + L * copying**2) / (L * q),
        "loss": 1 / (V * (1 + t) ** 2) + (1 - 1 / V) * (1 + w * (w * q - 2 * g)),
        "gradient_norm": float(np.linalg.norm(jet.gradient)) / scale,
        "curvature": float(curvatures[0]),
        "positions": {},
    }
