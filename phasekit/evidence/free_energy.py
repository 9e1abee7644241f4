"""The free energy of the copy order parameter from umbrella windows, and the barrier between its wells.

Windows are joined by MBAR (Shirts and Chodera 2008), as implemented in pymbar (extra ``evidence``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import root

from phasekit.checks import finite_numbers
from phasekit.errors import InputError

# MBAR's equations say that each window's weights add up to 1; this far may their logarithm be from 0.
_RESIDUAL = 1e-4
# Blocks of the bootstrap in autocorrelation times: what reaches over their ends is lost from the errors.
_BLOCK = 6


@dataclass(frozen=True, eq=False)
class FreeEnergy:
    """F(a) = −ln p(a), in units of the temperature, up to a constant; its lowest bin is 0.

    Attributes
    ----------
    profile : xarray.Dataset
        Dimension ``a`` (middles of the bins): ``F`` and ``probability``; NaN / 0 where no draw fell.
    replicas : array, shape (bootstrap, bins)
        Probabilities from resampled chains, all windows anew each time: errors of anything that follows from the
        profile are its scatter over these.
    rhat : array, shape (windows,)
        R̂ of the order parameter in every window, over chains from both ends. Where it is well above 1, something
        else than the order parameter is slow, and the profile there must not be trusted.
    overlap : float
        The smallest overlap between neighbouring windows (MBAR's overlap matrix); below about 0.03 they are too
        far apart.
    """

    profile: xr.Dataset
    replicas: NDArray[np.float64]
    rhat: NDArray[np.float64]
    overlap: float

    @property
    def error(self) -> NDArray[np.float64]:
        """Standard error of F in each bin; NaN where a replica has no draw."""
        with np.errstate(divide="ignore"):
            F = -np.log(self.replicas)
        lowest = np.nanargmin(self.profile.F.to_numpy())
        with np.errstate(invalid="ignore"):
            return np.asarray((F - F[:, [lowest]]).std(axis=0, ddof=1))


@dataclass(frozen=True)
class Barrier:
    """Two wells and the barrier between them, each number with its standard error.

    Attributes
    ----------
    low, top, high : float
        Where the wells' bottoms and the barrier are.
    from_low, from_high : (value, error)
        Height of the barrier above either bottom, in units of the temperature.
    difference : (value, error)
        F of the high well minus F of the low one, each integrated up to the barrier: 0 at coexistence.
    """

    low: float
    top: float
    high: float
    from_low: tuple[float, float]
    from_high: tuple[float, float]
    difference: tuple[float, float]


def free_energy(windows: xr.Dataset, bins: int = 40, *, bootstrap: int = 100, seed: int = 0) -> FreeEnergy:
    """Join the windows of :func:`phasekit.evidence.umbrella`.

    Parameters
    ----------
    windows : xarray.Dataset
    bins : int
        Over the range of all draws.
    bootstrap : int
        Replicas for the errors. Blocks of draws, several autocorrelation times long, are resampled within each chain.
    seed : int

    Raises
    ------
    InputError
        For fewer than 2 windows, 8 draws, 2 bins or 2 replicas, draws that aren't finite, or without pymbar.
    ArithmeticError
        If MBAR's equations were not solved.
    """
    for name, value, least in (("bins", bins, 2), ("bootstrap", bootstrap, 2)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(name, value, f"must be a whole number of at least {least}")
    a = finite_numbers("draws", windows[windows.attrs["order"]].transpose("window", "chain", "draw").to_numpy())
    if len(a) < 2:
        raise InputError("windows", len(a), "a free energy needs at least 2")
    if a.shape[-1] < 8:
        raise InputError("draws", a.shape[-1], "a free energy needs at least 8 in every chain")
    rhats, taus = _convergence(a)
    edges = np.linspace(a.min(), np.nextafter(a.max(), np.inf), bins + 1)
    centres, stiffness = windows.centre.to_numpy(), float(windows.attrs["stiffness"])
    windows_of = _Windows(a, centres, stiffness, edges)
    offsets, overlap = windows_of.solve()
    probability = windows_of.probabilities(offsets)
    random = np.random.default_rng(seed)
    replicas = np.empty((bootstrap, bins))
    for k in range(bootstrap):
        times = _times_drawn(a.shape, taus, random).ravel()
        replicas[k] = windows_of.probabilities(windows_of.solve_again(offsets, times), times)
    with np.errstate(divide="ignore"):
        F = np.where(probability > 0, -np.log(probability), np.nan)
    profile = xr.Dataset(
        {"F": ("a", F - np.nanmin(F)), "probability": ("a", probability)},
        {"a": (edges[1:] + edges[:-1]) / 2},
        {"bin": edges[1] - edges[0], **windows.attrs},
    )
    return FreeEnergy(profile, replicas, rhats, overlap)


def barrier(found: FreeEnergy) -> Barrier | None:
    """Return the two wells and the barrier between them; None if there is one well only.

    A well counts if both barriers around it are at least three standard errors and half the temperature high.
    """
    a, F = found.profile.a.to_numpy(), found.profile.F.to_numpy()
    known = np.isfinite(F)
    a, F, p = a[known], F[known], found.replicas[:, known]
    split = _split(F)
    if split is None:
        return None
    low, top, high = split
    with np.errstate(divide="ignore"):
        replicas = -np.log(p)
        weights_apart = np.log(p[:, :top].sum(1) / p[:, top:].sum(1))

    def with_error(value: float, values: NDArray[np.float64]) -> tuple[float, float]:
        seen = np.isfinite(values).all()  # a bin without a draw in some replica is not known at all
        return float(value), float(values.std(ddof=1)) if seen else np.inf

    with np.errstate(invalid="ignore"):
        from_low = with_error(F[top] - F[low], replicas[:, top] - replicas[:, low])
        from_high = with_error(F[top] - F[high], replicas[:, top] - replicas[:, high])
    weights = np.exp(-F)
    difference = np.log(weights[:top].sum() / weights[top:].sum())
    if any(not height > max(0.5, 3 * error) for height, error in (from_low, from_high)):
        return None
    return Barrier(
        float(a[low]), float(a[top]), float(a[high]), from_low, from_high, with_error(difference, weights_apart)
    )


def _split(F: NDArray[np.float64]) -> tuple[int, int, int] | None:
    """Return low well, top and high well: the interior bin whose lower barrier is highest."""
    left, right = np.minimum.accumulate(F), np.minimum.accumulate(F[::-1])[::-1]
    height = F - np.maximum(left, right)
    top = int(np.argmax(height))
    if not height[top] > 0:
        return None
    return int(np.argmin(F[:top])), top, top + 1 + int(np.argmin(F[top + 1 :]))


class _Windows:
    """The draws of all windows, a of shape (windows, chains, draws), and MBAR's equations for them."""

    def __init__(
        self, a: NDArray[np.float64], centres: NDArray[np.float64], stiffness: float, edges: NDArray[np.float64]
    ) -> None:
        flat = a.ravel()
        self._springs = 0.5 * stiffness * (flat - centres[:, None]) ** 2
        self._counts = np.full(len(a), flat.size // len(a))
        self._bin = np.clip(np.searchsorted(edges, flat, side="right") - 1, 0, len(edges) - 2)
        self._bins = len(edges) - 1

    def solve(self) -> tuple[NDArray[np.float64], float]:
        """Return the windows' free energies, and the smallest overlap between neighbours."""
        with _quiet_mbar() as MBAR:
            solved = MBAR(self._springs, self._counts, solver_protocol="robust", relative_tolerance=1e-8)
            overlap = np.asarray(solved.compute_overlap()["matrix"])
        return np.asarray(solved.f_k), float(np.diagonal(overlap, 1).min())

    def solve_again(self, offsets: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the windows' free energies if each draw had come up so many ``times``.

        pymbar knows draws that count once only, and takes most of a second for each set of them. From the solution for
        the draws as they are, a few steps of Powell's method (scipy) lead to that for a resampled set.
        """

        def residual(rest: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            shares = self._shares(np.append(0.0, rest)) * times
            sums = shares.sum(1)
            pairs = shares @ (shares / np.where(times > 0, times, 1.0)).T
            slope = (np.diag(sums) - pairs * self._counts) / sums[:, None]
            return np.log(sums)[1:], slope[1:, 1:]

        found = root(residual, (offsets - offsets[0])[1:], jac=True, tol=1e-10)
        return np.append(0.0, found.x)

    def probabilities(
        self, offsets: NDArray[np.float64], times: NDArray[np.float64] | float = 1.0
    ) -> NDArray[np.float64]:
        """Return each bin's probability without the springs.

        Raises
        ------
        ArithmeticError
            If the windows' free energies don't solve the equations.
        """
        unsolved = np.abs(np.log((self._shares(offsets) * times).sum(1))).max()
        if not unsolved < _RESIDUAL:
            raise ArithmeticError(f"MBAR's equations were not solved (residual {unsolved:.2g})")
        log_weight = self._log_weight(offsets)
        weight = np.exp(log_weight - log_weight.max()) * times
        sums = np.bincount(self._bin, weight, minlength=self._bins)
        return np.asarray(sums / sums.sum())

    def _log_weight(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the unbiased weight of each draw, p_n ∝ 1/Σ_k N_k exp(f_k − spring_k)."""
        terms = (offsets + np.log(self._counts))[:, None] - self._springs
        top = terms.max(axis=0)
        return np.asarray(-(top + np.log(np.exp(terms - top).sum(axis=0))))

    def _shares(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return W_kn = exp(f_k − spring_k(n)) p_n; MBAR's equations say that each window's add up to 1."""
        return np.asarray(np.exp(offsets[:, None] - self._springs + self._log_weight(offsets)))


def _convergence(a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return R̂ and the autocorrelation time (at least 1 draw) of each window."""
    from arviz_stats import sampling_diagnostics  # here, because it takes a second

    statistics: Any = sampling_diagnostics
    sizes = np.array([statistics.ess(each, method="mean") for each in a])
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still: NaN or ∞
        rhats = np.array([statistics.rhat(each) for each in a])
    return rhats, np.maximum(1.0, a[0].size / sizes)


def _times_drawn(shape: tuple[int, ...], taus: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Return how often each draw comes up if every chain's blocks of draws are drawn anew."""
    result = np.zeros(shape)
    windows, chains, draws = shape
    for window, tau in zip(range(windows), taus, strict=True):
        length = min(draws // 4, int(np.ceil(_BLOCK * tau)))
        for chain in range(chains):
            begins = random.integers(0, draws, size=-(-draws // length))
            index = (begins[:, None] + np.arange(length)).ravel()[:draws] % draws  # blocks wrap around
            result[window, chain] = np.bincount(index, minlength=draws)
    return result


@contextmanager
def _quiet_mbar() -> Iterator[Any]:
    """Import pymbar's MBAR; pymbar announces on its log that it computes with JAX if there is JAX."""
    log = logging.getLogger("pymbar")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        from pymbar import MBAR

        yield MBAR
    except ImportError:
        raise InputError("pymbar", None, "isn't installed: pip install 'phasekit[evidence]'") from None
    finally:
        log.setLevel(level)
