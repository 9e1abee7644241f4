"""Averages over one attention row under the posterior's tilt, for any score function (docs/theory.md, section 6).

Given the mean field, rows are independent, and the weight of a row's logits is the prior times exp(θ g + η q). The
tilt is strong (e^±10), and it acts on all logits at once: a key that takes weight from the copy entry is suppressed.
Rows drawn from the prior would miss what matters. They are drawn instead from product laws that imitate the tilt at
several anchors (θ, η) between no copying and full copying:

    copy logit ~ φ(h) exp[(θ − s) y + η y²],   other logits ~ φ(h) exp[−s y + η y²],   y = f(h) e^(−d),

where the multiplier s holds the expected sum of the y at 1, and d, the logarithm of the row's normaliser, is where the
law has most weight. Every row then counts by the exact ratio of the prior to the mixture of all these laws (the balance
heuristic), so what comes out is an average over the true row map whatever the anchors; they only decide how noisy it
is. The rows stay the same for all θ and η: ln Z is a smooth function with exact derivatives. Independent groups of
rows give its standard error.

Scores whose row isn't f(h)/Σf have a weak tilt at their transition; there it is enough to raise the copy logit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from phasekit.errors import InputError
from phasekit.scores import Score
from phasekit.scores.elementwise import ElementwiseSoftmax
from phasekit.theory.action.base import Array
from phasekit.theory.action.generated import mean_field

#: Independent groups of rows (each a scrambled Sobol sequence of its own), and rows of each anchor in a group.
GROUPS = 8
ROWS = 1024
#: Anchors between no copying and almost full copying.
_ANCHORS = 16
_GRID = np.linspace(-9.0, 15.0, 1921)  # logits in units of their prior's standard deviation
_STEP = _GRID[1] - _GRID[0]
_LOG_PRIOR = -(_GRID**2) / 2 - np.log(2 * np.pi) / 2
_NUMBERS_AT_ONCE = 2**21


class Cumulants(NamedTuple):
    """ln Z₁ and its derivatives: the means of g and q, and their variances and covariance over one row."""

    log_Z: float
    g: float
    q: float
    gg: float
    gq: float
    qq: float


class Law(NamedTuple):
    """A product law of a row: logarithms of the ratio to the prior on :data:`_GRID`, normalised."""

    copy: Array
    other: Array


@dataclass(frozen=True)
class RowSample:
    """Weighted rows of one system.

    Attributes
    ----------
    g, q : arrays, shape (groups, rows)
        Copy weight and squared norm of each row.
    log_weight : array, shape (groups, rows)
        Logarithm of prior over mixture; each group's weights average to 1 up to noise.
    fields : array
        The anchors' θ, increasing.
    """

    g: Array
    q: Array
    log_weight: Array
    fields: Array

    def cumulants(self, theta: float, eta: float) -> Cumulants:
        """Return ln Z₁ and its first two derivatives at a tilt."""
        exponent = theta * self.g + eta * self.q + self.log_weight
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        weight /= total
        g, q = float((weight * self.g).sum()), float((weight * self.q).sum())
        from_g, from_q = self.g - g, self.q - q
        weighted = weight * from_g
        return Cumulants(
            top + np.log(total / self.g.size),
            g,
            q,
            float((weighted * from_g).sum()),
            float((weighted * from_q).sum()),
            float((weight * from_q * from_q).sum()),
        )

    def group_log_Z(self, theta: float, eta: float) -> Array:
        """Return ln Z₁ from each group alone, shape (groups,): their spread is the error of the whole."""
        exponent = theta * self.g + eta * self.q + self.log_weight
        top = exponent.max()
        return np.asarray(top + np.log(np.exp(exponent - top).mean(axis=1)))

    def effective_rows(self, theta: float, eta: float) -> float:
        """Return (Σw)²/Σw²: how many independent rows carry the average at a tilt."""
        exponent = theta * self.g + eta * self.q + self.log_weight
        weight = np.exp(exponent - exponent.max())
        return float(weight.sum() ** 2 / (weight**2).sum())


def data_strength(theta: float, g: float, q: float, L: float, V: float, sigma_w: float) -> float:
    """Return t = Pσ_w²/(κV) at which a field θ and averages (g, q) balance: θ L = −Φ_g, a quadratic in t."""
    c = theta * L * sigma_w**2 / (V - 1)
    return float((c * q + np.sqrt((c * q) ** 2 + 4 * g * c)) / (2 * g))


def squeeze(t: float, g: float, q: float, L: float, V: float, sigma_w: float) -> float:
    """Return η = −Φ_q/L."""
    P = t * V / sigma_w**2  # at κ = 1; only t enters
    _, _, _, on_q = mean_field.forces(*(np.asarray(x) for x in (1.0, 1.0, g, q, P, V, sigma_w, 1.0)))
    return -float(on_q) / L


@lru_cache(maxsize=64)
def row_sample(score: Score, L: int, V: float, sigma_w: float, sigma_g: float, seed: int = 0) -> RowSample:
    """Draw the rows of a system; V and σ_w only place the anchors where its stationary states are.

    Raises
    ------
    InputError
        If no product law imitates the rows: their logits are too wide, or hardly any data are left for a word.
    """
    if isinstance(score, ElementwiseSoftmax):
        try:
            laws, fields = _tilted_laws(score, L, V, sigma_w, sigma_g)
        except ArithmeticError as error:
            system, allowed = (L, V, sigma_w, sigma_g), f"rows of {score.name} can't be sampled there: {error}"
            raise InputError("L, V, sigma_w, sigma_g", system, allowed) from None
    else:
        laws, fields = _raised_laws()
    g, q, log_weight = (np.empty((GROUPS, len(laws) * ROWS)) for _ in range(3))
    for group in range(GROUPS):
        generator = np.random.default_rng([seed, group])
        for k, law in enumerate(laws):
            points = stats.qmc.Sobol(L, rng=generator).random(ROWS)
            np.clip(points, 1e-12, 1 - 1e-12, out=points)
            place = slice(k * ROWS, (k + 1) * ROWS)
            logits = np.empty_like(points)
            logits[:, 0] = _quantile(points[:, 0], _LOG_PRIOR + law.copy)
            logits[:, 1:] = _quantile(points[:, 1:], _LOG_PRIOR + law.other)
            g[group, place], q[group, place] = _weights(score, logits * sigma_g)
            log_weight[group, place] = -_log_mixture(logits, laws)
    return RowSample(g, q, log_weight, fields)


def _weights(score: Score, logits: Array) -> tuple[Array, Array]:
    """Return copy weight and squared norm of each row, by the score's own row map."""
    import torch

    g, q = [], []
    step = max(1, _NUMBERS_AT_ONCE // logits.shape[1])
    for first in range(0, len(logits), step):
        A = score.rows(torch.from_numpy(logits[first : first + step]))
        g.append(A[:, 0].numpy())
        q.append((A * A).sum(dim=1).numpy())
    return np.concatenate(g), np.concatenate(q)


def _log_mixture(logits: Array, laws: list[Law]) -> Array:
    """Return the logarithm of the mixture of all laws over the prior; densities are those that are drawn from."""
    copy, other = (np.stack([_LOG_PRIOR + law[k] for law in laws], axis=-1) for k in (0, 1))
    place = np.clip((logits - _GRID[0]) / _STEP, 0, len(_GRID) - 1.001)
    cells = place.astype(np.int64)
    share = place - cells
    parts = np.empty((len(logits), len(laws)))
    rows = max(1, _NUMBERS_AT_ONCE // (logits.shape[1] * len(laws)))
    for first in range(0, len(logits), rows):
        now = slice(first, first + rows)
        parts[now] = _interpolated(copy, cells[now, :1], share[now, :1])
        parts[now] += _interpolated(other, cells[now, 1:], share[now, 1:])
    top = parts.max(axis=1)
    mixture = top + np.log(np.exp(parts - top[:, None]).mean(axis=1))
    return np.asarray(mixture + (logits**2 / 2 + np.log(2 * np.pi) / 2).sum(axis=1))


def _interpolated(table: Array, cells: NDArray[np.int64], share: Array) -> Array:
    """Return Σ over a row's entries of tables (grid, laws) at the entries, linear within cells; shape (rows, laws)."""
    slope = np.diff(table, axis=0)
    return np.asarray(table[cells].sum(axis=1) + np.einsum("rj,rjk->rk", share, slope[cells]))


def _quantile(points: Array, log_density: Array) -> Array:
    """Turn uniform numbers into draws of the density exp(piecewise linear) on :data:`_GRID`, exactly."""
    density = np.exp(log_density)
    slope = np.diff(log_density)
    flat = np.abs(slope) < 1e-8
    safe = np.where(flat, 1.0, slope)
    mass = _STEP * density[:-1] * np.where(flat, 1.0, np.expm1(safe) / safe)
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    cell = np.clip(np.searchsorted(cumulative, points * cumulative[-1], side="right") - 1, 0, len(mass) - 1)
    part = np.clip((points * cumulative[-1] - cumulative[cell]) / mass[cell], 0.0, 1.0)
    bent = np.log1p(part * np.expm1(safe[cell])) / safe[cell]
    return np.asarray(_GRID[cell] + _STEP * np.where(flat[cell], part, bent))


def _normalised(log_ratio: Array) -> Array:
    """Subtract the constant that makes exp(log_ratio) a density against the prior, as :func:`_quantile` draws it."""
    log_ratio = np.maximum(log_ratio, log_ratio.max() - 600.0)
    log_density = _LOG_PRIOR + log_ratio
    slope = np.diff(log_density)
    flat = np.abs(slope) < 1e-8
    safe = np.where(flat, 1.0, slope)
    top = log_density.max()
    mass = np.exp(log_density[:-1] - top) * np.where(flat, 1.0, np.expm1(safe) / safe)
    return np.asarray(log_ratio - top - np.log(mass.sum() * _STEP))


def _raised_laws() -> tuple[list[Law], Array]:
    """Return laws that shift the copy logit by 0 … 5 prior standard deviations, the others as in the prior."""
    shifts = np.linspace(0.0, 5.0, _ANCHORS)
    nothing = _normalised(np.zeros_like(_GRID))
    laws = [Law(_normalised(shift * _GRID), nothing) for shift in shifts]
    return laws, np.concatenate([[0.0], np.geomspace(0.01, 1e4, _ANCHORS - 1)])


def _tilted_laws(
    score: ElementwiseSoftmax, L: int, V: float, sigma_w: float, sigma_g: float
) -> tuple[list[Law], Array]:
    """Return the prior and the product laws at anchors along the (approximate) curve of stationary states."""
    log_f = _log_weights(score, sigma_g)
    nothing = _normalised(np.zeros_like(_GRID))
    laws, fields = [Law(nothing, nothing)], [0.0]
    theta, g = 0.5, 0.0
    eta = 0.0
    while g < 0.95 and theta < 1e7:
        for _ in range(30):  # relax η; the laws tolerate a coarse answer
            law, g, q = _best_law(log_f, L, theta, eta)
            t = data_strength(theta, g, q, L, V, sigma_w)
            wanted = squeeze(t, g, q, L, V, sigma_w)
            if abs(wanted - eta) < 0.01 * (1 + abs(eta)):
                break
            eta += 0.5 * (wanted - eta)
        laws.append(law)
        fields.append(theta)
        theta *= 2
    keep = np.unique(np.linspace(0, len(laws) - 1, min(len(laws), 2 * _ANCHORS)).round().astype(int))
    return [laws[k] for k in keep], np.array([fields[k] for k in keep])


def _log_weights(score: ElementwiseSoftmax, sigma_g: float) -> Array:
    import torch

    logits = torch.from_numpy(_GRID * sigma_g)
    values: Array = score.transform(logits, **score.values(None, logits)).numpy()
    return values


def _best_law(log_f: Array, L: int, theta: float, eta: float) -> tuple[Law, float, float]:
    """Return the product law at the normaliser with most weight, and its means of g and q.

    Where logits are narrow, weights can't add up to 1 at every normaliser: those have no weight.

    Raises
    ------
    ArithmeticError
        If they can at none that the grid shows.
    """

    def at(d: float, every: int) -> tuple[float, Law, float, float] | None:
        """Return the law at a normaliser and ln of its weight, on every so many points of the grid; None if none."""
        log_prior = _LOG_PRIOR[::every]
        norm = np.exp(log_prior).sum()
        y = np.exp(np.minimum(log_f[::every] - d, 200.0))
        square = eta * y * y

        def densities(s: float) -> tuple[Array, Array]:
            """Return the weights of the copy entry and of another."""
            other = log_prior + square - s * y
            copy = other + theta * y
            a, b = np.exp(copy - copy.max()), np.exp(other - other.max())
            return a / a.sum(), b / b.sum()

        def missing(s: float) -> float:
            copy, other = densities(s)
            return 1 - float(copy @ y + (L - 1) * (other @ y))

        s = _increasing_root(missing)
        if s is None:
            return None
        copy, other = densities(s)
        law = Law(square + (theta - s) * y, square - s * y)
        g, square_mean = float(copy @ y), float(other @ (y * y))
        q = float(copy @ (y * y)) + (L - 1) * square_mean
        spread = q - g**2 - (L - 1) * float(other @ y) ** 2
        if not (spread > 0 and g > 0):  # rows that are all alike, as far as the grid can tell
            return None
        weight = s + _log_sum(log_prior + law.copy, norm) + (L - 1) * _log_sum(log_prior + law.other, norm)
        return weight - np.log(spread) / 2, law, g, q

    def log_weight(d: float) -> float:
        found = at(d, 8)
        return -np.inf if found is None else found[0]

    typical = np.log(L) + _log_sum(_LOG_PRIOR + log_f, float(np.exp(_LOG_PRIOR).sum()))
    best = max(typical + np.linspace(-1.5, 2.5, 17), key=log_weight)  # holds the typical one itself
    for width in (0.1, 0.03):
        best = max(best + width * np.arange(-2, 3), key=log_weight)
    found = at(best, 1)
    if found is None:
        raise ArithmeticError("no product law imitates the tilted row")
    _, law, g, q = found
    return Law(_normalised(law.copy), _normalised(law.other)), g, q


def _log_sum(exponent: Array, norm: float) -> float:
    top = exponent.max()
    return float(top + np.log(np.exp(exponent - top).sum() / norm))


def _increasing_root(function: Callable[[float], float]) -> float | None:
    """Return the root of an increasing function, by widening a bracket around 0; None if there is none up to 1e9."""
    low, high = -1.0, 1.0
    while function(low) > 0 and low > -1e9:
        low *= 4
    while function(high) < 0 and high < 1e9:
        high *= 4
    if not function(low) <= 0 <= function(high):
        return None
    return float(brentq(function, low, high, xtol=1e-9, rtol=1e-9))
