"""The free energy of the copy order parameter from umbrella windows, and the barrier between its wells.

Windows are joined by MBAR (Shirts and Chodera 2008), as implemented in pymbar (extra ``evidence``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import logsumexp

from phasekit.checks import finite_numbers, whole_number
from phasekit.errors import InputError
from phasekit.evidence.hysteresis import RHAT_MAX
from phasekit.extras import require

#: Neighbouring windows that share less than this can't be joined to one free energy.
LEAST_OVERLAP = 0.03
#: Barriers of less than half the temperature separate nothing.
_COUNTS = 0.5
# MBAR's equations say that each window's weights add up to 1; this far may their logarithm be from 0.
_RESIDUAL = 1e-4
# Blocks of the bootstrap in autocorrelation times: what reaches over their ends is lost from the errors.
_BLOCK = 6


class NotJoined(ArithmeticError):
    """Umbrella windows don't make one free energy; the message says why, in one line."""


class Undecided(ArithmeticError):
    """A barrier can't be told from none, or none from one, with errors that large.

    Attributes
    ----------
    height, error : float
        Of the lower barrier, and the larger of both errors.
    """

    def __init__(self, height: float, error: float) -> None:
        why = f"± {error:.1g}" if np.isfinite(error) else "that some resamples have no draw for"
        super().__init__(f"a barrier of {height:.2g} {why} can't be told from none: draw more")
        self.height, self.error = height, error


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
        The smallest overlap between neighbouring windows (MBAR's overlap matrix).
    """

    profile: xr.Dataset
    replicas: NDArray[np.float64]
    rhat: NDArray[np.float64]
    overlap: float

    @property
    def trusted(self) -> bool:
        """Whether chains from both ends agree in every window."""
        return bool(self.rhat.max() <= RHAT_MAX)

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

    Heights depend on the coordinate along which F is taken: along aG and along its log odds they differ by one.
    What the wells weigh, and with it the place of the transition, doesn't.

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
    NotJoined
        If neighbouring windows overlap too little, or MBAR's equations were not solved.
    """
    bins, bootstrap = whole_number("bins", bins, 2), whole_number("bootstrap", bootstrap, 2)
    a = finite_numbers("draws", windows[windows.attrs["order"]].transpose("window", "chain", "draw").to_numpy())
    if len(a) < 2:
        raise InputError("windows", len(a), "a free energy needs at least 2")
    if a.shape[-1] < 8:
        raise InputError("draws", a.shape[-1], "a free energy needs at least 8 in every chain")
    rhats, taus = _convergence(a)
    edges = np.linspace(a.min(), np.nextafter(a.max(), np.inf), bins + 1)
    centres, stiffness = windows.centre.to_numpy(), float(windows.attrs["stiffness"])
    joined = _Windows(a, centres, stiffness, edges)
    offsets, overlap = joined.solve()
    probability = joined.probabilities(offsets)
    random = np.random.default_rng(seed)
    replicas = np.empty((bootstrap, bins))
    for k in range(bootstrap):
        again = joined.resampled(_draws_drawn(a.shape, taus, random))
        replicas[k] = again.probabilities(again.solve(offsets)[0])
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

    A well counts if both barriers around it are at least half the temperature high.

    Raises
    ------
    Undecided
        If the errors are too large to tell: a barrier within three standard errors of none, or none within half the
        temperature of one.
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
    height, error = min(from_low, from_high)
    if not max(from_low[1], from_high[1]) < np.inf or error >= (_COUNTS if height <= _COUNTS else height / 3):
        raise Undecided(height, max(from_low[1], from_high[1]))
    if height <= _COUNTS:
        return None
    weights = np.exp(-F)
    difference = np.log(weights[:top].sum() / weights[top:].sum())
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
        self._centres = centres
        self._springs = 0.5 * stiffness * (flat - centres[:, None]) ** 2
        self._counts = np.full(len(a), flat.size // len(a))
        self._bin = np.clip(np.searchsorted(edges, flat, side="right") - 1, 0, len(edges) - 2)
        self._bins = len(edges) - 1

    def resampled(self, draws: NDArray[np.int64]) -> _Windows:
        """Return the same windows with these draws, as many of each window as before."""
        again = copy(self)
        again._springs, again._bin = self._springs[:, draws], self._bin[draws]
        return again

    def solve(self, start: NDArray[np.float64] | None = None) -> tuple[NDArray[np.float64], float]:
        """Return the windows' free energies, and the smallest overlap between neighbours.

        Raises
        ------
        NotJoined
            If that overlap is too small.
        """
        with _quiet_mbar() as MBAR:
            solved = MBAR(
                self._springs, self._counts, initial_f_k=start, solver_protocol="robust", relative_tolerance=1e-8
            )
            overlaps = np.diagonal(np.asarray(solved.compute_overlap()["matrix"]), 1)
        k = int(np.argmin(overlaps))
        if start is None and not overlaps[k] >= LEAST_OVERLAP:
            raise NotJoined(
                f"windows at {self._centres[k]:.4g} and {self._centres[k + 1]:.4g} overlap by {overlaps[k]:.2g}, "
                f"less than {LEAST_OVERLAP}: place more windows, or draw more"
            )
        return np.asarray(solved.f_k), float(overlaps[k])

    def probabilities(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each bin's probability without the springs, p_n ∝ 1/Σ_k N_k exp(f_k − spring_k(n)) for draw n.

        Raises
        ------
        NotJoined
            If the windows' free energies don't solve the equations: each window's Σ_n exp(f_k − spring_k(n)) p_n is 1.
        """
        log_weight = -logsumexp((offsets + np.log(self._counts))[:, None] - self._springs, axis=0)
        unsolved = np.abs(logsumexp(offsets[:, None] - self._springs + log_weight, axis=1)).max()
        if not unsolved < _RESIDUAL:
            raise NotJoined(f"MBAR's equations were not solved (residual {unsolved:.2g})")
        sums = np.bincount(self._bin, np.exp(log_weight - log_weight.max()), minlength=self._bins)
        return np.asarray(sums / sums.sum())


def _convergence(a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return R̂ and the autocorrelation time (at least 1 draw) of each window."""
    from arviz_stats import sampling_diagnostics  # here, because it takes a second

    statistics: Any = sampling_diagnostics
    sizes = np.array([statistics.ess(each, method="mean") for each in a])
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that stand still: NaN or ∞
        rhats = np.array([statistics.rhat(each) for each in a])
    return rhats, np.maximum(1.0, a[0].size / sizes)


def _draws_drawn(shape: tuple[int, ...], taus: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return the places of draws, counted over all windows, if every chain's blocks of draws are drawn anew.

    pymbar's own bootstrap draws them one by one, which makes errors too small where draws are correlated.
    """
    windows, chains, draws = shape
    result = np.empty(shape, dtype=np.int64)
    for window, tau in zip(range(windows), taus, strict=True):
        length = min(draws // 4, int(np.ceil(_BLOCK * tau)))
        for chain in range(chains):
            begins = random.integers(0, draws, size=-(-draws // length))
            index = (begins[:, None] + np.arange(length)).ravel()[:draws] % draws  # blocks wrap around
            result[window, chain] = (window * chains + chain) * draws + index
    return result.ravel()


@contextmanager
def _quiet_mbar() -> Iterator[Any]:
    """Import pymbar's MBAR; pymbar announces on its log that it computes with JAX if there is JAX."""
    require("pymbar")
    log = logging.getLogger("pymbar")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        from pymbar import MBAR

        yield MBAR
    finally:
        log.setLevel(level)
