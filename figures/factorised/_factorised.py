"""What factorised heads are compared with theory by: where network energies cross, free minimisation, and HMC."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from phasekit.model import Model

#: How far from the expected jump, in ln P, networks say where it is.
_AROUND = 0.06
#: A singular value of A counts from this share of the largest one on; A itself from this size on.
_SHARE, _NOTHING = 1e-2, 1e-6


class Measured(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


def pattern_of(A: NDArray[np.float64], normalised: bool) -> NDArray[np.str_]:
    """Name the patterns of attention matrices A (..., L, L) by rank: "nothing", "pooling" (one), "copying" (more).

    Rows of normalised scores sum to 1 whatever the pattern: uniform attention is their "nothing".
    """
    singular = np.linalg.svd(A - normalised / A.shape[-1], compute_uv=False)
    several = singular[..., 1] > _SHARE * singular[..., 0]
    return np.where(singular[..., 0] < _NOTHING, "nothing", np.where(several, "copying", "pooling"))


def measured_jump(networks: pd.DataFrame, expected: float, before: str, after: str, kappa: float = 1.0) -> Measured:
    """Return the P at which networks with two patterns have the same energy, and its standard error over data sets.

    Near the jump the difference of their lowest energies is close to linear in ln P: one line is fitted for each data
    seed. ``networks`` has a column ``pattern``; those further than :data:`_AROUND` from ``expected`` are left out.

    Raises
    ------
    ArithmeticError
        If the patterns were not found side by side at two P in two data sets.
    """
    near = networks[(np.log(networks["P"] / expected).abs() < _AROUND) & networks["converged"]]
    lowest = near.groupby(["data_seed", "P", "pattern"])["U"].min().unstack()
    if before == "nothing" and after == "pooling":
        lowest["nothing"] = lowest.index.get_level_values("P") / (2 * kappa)  # W = G = 0, a minimum whatever the data
    advantage = (lowest[before] - lowest[after]).dropna() if {before, after} <= {*lowest} else pd.Series(dtype=float)
    found = []
    for _, line in advantage.groupby("data_seed"):
        if len(line) >= 2:
            slope, offset = np.polyfit(np.log(line.index.get_level_values("P")), line, 1)
            found.append(np.exp(-offset / slope))
    if len(found) < 2:
        raise ArithmeticError(f"networks show {before} and {after} side by side in {len(found)} data sets")
    return Measured(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found))))


def free_minimum(model: Model, starts: int, seed: int = 0) -> float:
    """Return the lowest energy over all factors on infinite data, W eliminated, by L-BFGS from several starts.

    It assumes no pattern: A is whatever the factors make of it. Starts are the copying and the pooling pattern, copying
    in half of the rows, a smooth band (rank 2), and ``starts`` draws of different size.
    """
    L, V, P, d = model.L, model.V, float(model.P or 0), int(model.key_dim or 0)
    r, shift = min(d, L), torch.roll(torch.eye(L, dtype=torch.float64), 1, dims=1).T
    t, half = float(model.parameters().strength), P / (2 * model.kappa * V)

    def action(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        factors = torch.from_numpy(x).requires_grad_()
        queries, keys = factors.view(2, r, L)
        A = model.score.rows(queries.T @ keys)
        sums = A.sum(1)
        s, s2, g, q = sums.mean(), sums.square().mean(), (A * shift).sum() / L, A.square().sum() / L
        data = half * (1 - t * s**2 / (1 + t * s2)) + half * (V - 1) * (1 - t * g**2 / (1 + t * q))
        value = data + factors.square().sum() * d**0.5 / (2 * model.sigma_g)
        (gradient,) = torch.autograd.grad(value, factors)
        return value.item(), gradient.numpy()

    random, S = np.random.default_rng(seed), shift.numpy()
    angles = 2 * np.pi * (np.arange(L)[:, None] - 1 - np.arange(L)) / L
    patterns = [4 * (S - 1 / L), 4 * S, np.full((L, L), 4.0), 3 * np.cos(angles)]
    patterns.append(np.where(np.arange(L)[:, None] < L // 2, patterns[0], 0))
    patterns += [size * random.standard_normal((L, L)) for size in np.geomspace(0.1, 3, starts)]
    lowest = np.inf
    for pattern in patterns:
        u, x, v = np.linalg.svd(pattern + 0.05 * random.standard_normal((L, L)))
        start = np.stack([np.sqrt(x[:r, None]) * u.T[:r], np.sqrt(x[:r, None]) * v[:r]])
        options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-14, "gtol": 1e-8}
        lowest = min(lowest, minimize(action, start.ravel(), jac=True, method="L-BFGS-B", options=options).fun)
    return float(lowest)


class Draws(NamedTuple):
    """Observables over HMC draws, each of shape (chains, draws), "H" among them; first the chains from one end."""

    observables: dict[str, NDArray[np.float64]]

    def mean(self, name: str) -> Measured:
        """Return mean and standard error, taken from the scatter between chains."""
        return _over_chains(self.observables[name].mean(1))

    def slope(self, name: str) -> Measured:
        """Return the predicted d⟨O⟩/d(1/d) at d = ∞: the covariance with H, over 4."""
        H, x = self.observables["H"], self.observables[name]
        return _over_chains(((H - H.mean()) * (x - x.mean())).mean(1) / 4)

    def disagreement(self, name: str) -> float:
        """Return by how many standard errors chains from the two ends differ."""
        low, high = (_over_chains(part) for part in np.split(self.observables[name].mean(1), 2))
        return abs(low.value - high.value) / float(np.hypot(low.error, high.error))


def rate(table: pd.DataFrame) -> dict[str, float]:
    """Fit O(d) = O(∞) + a/d + b/d² to rows d (inf: Gaussian G), mean, error; and |O(d) − O(∞)| ∝ d^(−ν).

    Returns
    -------
    ``a``, ``a_error``, ``chi2`` with ``dof`` = rows − 3; ``nu``, ``nu_error`` between the two smallest d of the rows
    """
    x, y, weight = 1 / table["d"].to_numpy(), table["mean"].to_numpy(), 1 / table["error"].to_numpy()
    fit, covariance = np.polyfit(x, y, 2, w=weight, cov="unscaled")
    limit = table[np.isinf(table["d"])].iloc[0]
    near, far = (table[table["d"] == d].iloc[0] for d in np.sort(table["d"])[:2])
    gaps = [abs(row["mean"] - limit["mean"]) for row in (near, far)]
    # The limit's error enters both gaps with the same sign.
    parts = [near["error"] / gaps[0], far["error"] / gaps[1], limit["error"] * (1 / gaps[0] - 1 / gaps[1])]
    span = np.log(far["d"] / near["d"])
    return {
        "a": float(fit[1]),
        "a_error": float(np.sqrt(covariance[1, 1])),
        "chi2": float(((weight * (np.polyval(fit, x) - y)) ** 2).sum()),
        "dof": len(table) - 3,
        "nu": float(np.log(gaps[0] / gaps[1]) / span),
        "nu_error": float(np.linalg.norm(parts) / span),
    }


def _over_chains(values: NDArray[np.float64]) -> Measured:
    return Measured(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))
