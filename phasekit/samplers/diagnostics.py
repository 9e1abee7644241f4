"""Whether chains agree, and what to say if they don't."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from phasekit.errors import InputError
from phasekit.samplers.samples import Samples

MIXED, COEXISTENCE, NOT_MIXED = "mixed", "coexistence", "not mixed"

# Two wells' means are at least this many standard deviations (pooled, within a well) apart: histograms don't overlap.
_SEPARATION = 4.0
# A chain has settled if its mean moves by less than this share of the distance, from its first half to its second.
_DRIFT = 0.1


@dataclass(frozen=True)
class Well:
    """Chains that explore the same region.

    Attributes
    ----------
    chains : tuple of int
    starts : tuple of str
        Where these chains came from, in the order of ``chains``.
    mixed : bool
        Whether the well's chains meet the bounds on R̂ and effective sample size by themselves. If not, its means are
        those of chains that stayed where they are, but weren't long enough to measure it well.
    mean, mcse : dict of str to float
        Mean of every quantity over the well's chains, and its Monte Carlo standard error.
    """

    chains: tuple[int, ...]
    starts: tuple[str, ...]
    mixed: bool
    mean: dict[str, float]
    mcse: dict[str, float]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the chains of each data set say together.

    Attributes
    ----------
    table : xarray.Dataset
        Dimensions ``quantity`` and ``dataset`` (coordinates P, data_seed). ``rhat`` (rank-normalised, split; the
        larger of bulk and folded), ``ess_bulk``, ``ess_tail``, ``tau`` (integrated autocorrelation time of the mean, in
        draws); ``mean``, ``mcse`` and ``sd``, which are NaN unless the chains are mixed; and ``verdict`` (dataset):

        * "mixed": R̂ and effective sample sizes of all quantities are within bounds
        * "coexistence": they aren't, because chains settled in two wells of the copy order parameter: the wells don't
          overlap, no chain left its own, none drifts. Near a first-order transition this is the finding, not a failure
        * "not mixed": anything else

    wells : tuple of tuples of Well
        For each data set: one if mixed, two (lower copy order parameter first) if wells coexist, none if not mixed.
    """

    table: xr.Dataset
    wells: tuple[tuple[Well, ...], ...]

    def verdict(self, dataset: int = 0) -> str:
        """Return a data set's verdict."""
        return str(self.table.verdict.values[dataset])


def diagnose(samples: Samples, *, rhat_max: float = 1.05, ess_min: float = 100.0) -> Diagnosis:
    """Judge whether the chains of each data set sampled the same distribution.

    Rank-normalised R̂ and effective sample sizes (Vehtari et al. 2021, arXiv:1903.08008) come from ArviZ. Quantities are
    those that no symmetry changes (:meth:`phasekit.samplers.samples.Samples.invariants`).

    Parameters
    ----------
    samples : Samples
        At least two chains.
    rhat_max : float
        R̂ of perfectly mixed chains exceeds 1 by about (number of chains)/(effective sample size): a smaller bound,
        such as the recommended 1.01, wants longer chains.
    ess_min : float
        Least bulk and tail effective sample size, over all chains.

    Raises
    ------
    InputError
        For fewer than two chains or eight draws.
    """
    data = samples.invariants()
    for name, least in (("chain", 2), ("draw", 8)):
        if data.sizes[name] < least:
            raise InputError(f"number of {name}s", data.sizes[name], f"diagnostics need at least {least}")
    normalised = samples.model.score.normalised
    if normalised:
        data = data.drop_vars(["s", "s2"])  # 1, whatever the draw
    order = "aG" if normalised else "cG_cG"
    names = [str(name) for name in data.data_vars]
    rows, wells = [], []
    for d in range(data.sizes["dataset"]):
        one = data.isel(dataset=d)
        numbers = _convergence(one)
        verdict, found = _judge(one, numbers, order, rhat_max, ess_min)
        summary = _summary(one) if verdict == MIXED else {key: {} for key in ("mean", "mcse", "sd")}
        columns = {name: [values.get(v, np.nan) for v in names] for name, values in {**numbers, **summary}.items()}
        rows.append((columns, verdict))
        wells.append(found)
    table = xr.Dataset(
        {
            **{name: (("dataset", "quantity"), [columns[name] for columns, _ in rows]) for name in rows[0][0]},
            "verdict": ("dataset", [verdict for _, verdict in rows]),
        },
        {"quantity": names, "P": data.P, "data_seed": data.data_seed},
        {"rhat_max": rhat_max, "ess_min": ess_min},
    )
    return Diagnosis(table, tuple(wells))


def _judge(
    data: xr.Dataset, numbers: dict[str, dict[str, float]], order: str, rhat_max: float, ess_min: float
) -> tuple[str, tuple[Well, ...]]:
    """Return the verdict on one data set, and its wells."""

    def agree(data: xr.Dataset, numbers: dict[str, dict[str, float]]) -> bool:
        # A quantity that is the same number in all draws (at L = 2 some are) says nothing, and its R̂ is NaN.
        varying = [str(name) for name, x in data.data_vars.items() if float(x.max()) > float(x.min())]
        sizes = {name: min(numbers["ess_bulk"][name], numbers["ess_tail"][name]) for name in varying}
        return bool(varying) and all(numbers["rhat"][name] <= rhat_max and sizes[name] >= ess_min for name in varying)

    everyone = np.arange(data.sizes["chain"])
    if agree(data, numbers):
        return MIXED, (_well(data, everyone, True),)
    wells = _settled(data[order].transpose("chain", "draw").values)
    if wells is None:
        return NOT_MIXED, ()
    parts = [(chains, data.isel(chain=chains)) for chains in wells]
    return COEXISTENCE, tuple(_well(data, chains, agree(part, _convergence(part))) for chains, part in parts)


def _settled(x: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Split chains, x of shape (chains, draws), at the widest gap between their means, if they settled in two wells.

    A chain that never moved has settled nowhere.
    """
    if (x.min(1) == x.max(1)).any():
        return None
    means = x.mean(1)
    rank = np.argsort(means)
    cut = int(np.argmax(np.diff(means[rank]))) + 1
    low, high = np.sort(rank[:cut]), np.sort(rank[cut:])
    distance, middle = x[high].mean() - x[low].mean(), (x[high].mean() + x[low].mean()) / 2
    separated = distance > _SEPARATION * np.sqrt((x[low].var() + x[high].var()) / 2)
    stayed = x[low].max() < middle < x[high].min()
    half = x.shape[1] // 2
    drift = np.abs(x[:, half:].mean(1) - x[:, :half].mean(1)).max()
    return (low, high) if separated and stayed and drift < _DRIFT * distance else None


def _convergence(data: xr.Dataset) -> dict[str, dict[str, float]]:
    """Return R̂, bulk and tail ESS, and the autocorrelation time of each variable over chains and draws."""
    from arviz_stats.sampling_diagnostics import ess, rhat  # here, because it brings matplotlib and takes a second

    if data.sizes["chain"] == 1:  # R̂ compares the halves of a single chain
        half = data.sizes["draw"] // 2
        halves = [data.isel(chain=0, draw=slice(k * half, (k + 1) * half)).drop_vars("draw") for k in range(2)]
        data = xr.concat(halves, "chain")
    total = data.sizes["chain"] * data.sizes["draw"]
    mean_ess = _each(ess, data, method="mean")
    return {
        "rhat": _each(rhat, data),
        "ess_bulk": _each(ess, data, method="bulk"),
        "ess_tail": _each(ess, data, method="tail", prob=(0.05, 0.95)),
        "tau": {name: total / ess for name, ess in mean_ess.items()},
    }


def _summary(data: xr.Dataset) -> dict[str, dict[str, float]]:
    from arviz_stats.sampling_diagnostics import mcse

    return {
        "mean": {str(name): float(x.mean()) for name, x in data.data_vars.items()},
        "mcse": _each(mcse, data, method="mean"),
        "sd": {str(name): float(x.std()) for name, x in data.data_vars.items()},
    }


def _well(data: xr.Dataset, chains: NDArray[np.int64], mixed: bool) -> Well:
    here = data.isel(chain=chains)
    numbers = _summary(here)
    starts = tuple(str(start) for start in here.start.values)
    return Well(tuple(int(c) for c in chains), starts, mixed, numbers["mean"], numbers["mcse"])


def _each(function: Any, data: xr.Dataset, **options: Any) -> dict[str, float]:
    """Apply one of ArviZ's functions to arrays of shape (chains, draws); if chains stand still: NaN or ∞."""
    arrays = {str(name): x.transpose("chain", "draw").values for name, x in data.data_vars.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        return {name: float(function(array, **options)) for name, array in arrays.items()}
