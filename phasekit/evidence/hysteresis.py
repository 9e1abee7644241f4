"""Sweep P up and down with chains carried along: at a first-order transition the two ways differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.samplers import Diagnosis, Method, Samples, diagnose, sample
from phasekit.samplers.diagnostics import COEXISTENCE

DIRECTIONS = ("up", "down")
#: Where a sweep begins: at few data on the uniform branch, at many on the copy branch.
_ENDS = {"up": "uniform", "down": "copy"}


@dataclass(frozen=True, eq=False)
class Loop:
    """Both ways of a sweep.

    Attributes
    ----------
    model : Model
    data : xarray.Dataset
        The draws of all quantities (:attr:`phasekit.samplers.Samples.posterior`), dimensions ``direction``
        ("up", "down"), ``P`` (ascending), ``dataset``, ``chain``, ``draw``. A chain is the same head all along its
        way; every P has data of its own.
    """

    model: Model
    data: xr.Dataset

    @property
    def order(self) -> str:
        """The quantity that shows copying: aG, or cG² where the sign is a symmetry."""
        return "aG" if self.model.score.normalised else "cG_cG"

    def samples(self, P: float, ways: Sequence[str] = DIRECTIONS) -> Samples:
        """Return the chains of both ways (or of one) at one P as one set of samples, their starts "up" and "down".

        :func:`phasekit.samplers.diagnose` and :func:`phasekit.evidence.susceptibility` then keep wells apart.
        """
        return _joined(self.model, self.data.sel(P=P, direction=list(ways)))

    def diagnoses(self, *, rhat_max: float = 1.2, ess_min: float = 20.0) -> list[Diagnosis]:
        """Judge at every P whether chains on their way up and down sample the same distribution.

        "coexistence" inside a hysteresis loop is its sign: chains settled in two wells by the way they came. The bounds
        are looser than :func:`phasekit.samplers.diagnose`'s own, because a sweep stays at each P for a short time.
        """
        sizes = self.data.P.to_numpy()
        return [diagnose(self.samples(P), rhat_max=rhat_max, ess_min=ess_min) for P in sizes]

    def split(self, **bounds: float) -> xr.DataArray:
        """Return the share of data sets at each P on which the way up and the way down settled in different wells."""
        found = [_parted(diagnosis) for diagnosis in self.diagnoses(**bounds)]
        return xr.DataArray(found, {"P": self.data.P}, ("P",), "split")

    def area(self, quantity: str | None = None) -> tuple[float, float]:
        """Return the loop's area ∫ (down - up) d ln P, and its standard error.

        Every chain's way is one integral over its means; ways of different chains are independent, so that their
        scatter gives the error whatever the autocorrelation.
        """
        means = _samples(self.model, self.data).invariants()[quantity or self.order].mean("draw")
        ways = _integral(means, np.log(means.P.values)).stack(way=("dataset", "chain"))
        n = ways.sizes["way"]
        mean, error = ways.mean("way"), ways.std("way", ddof=1) / np.sqrt(n)
        difference = float(mean.sel(direction="down") - mean.sel(direction="up"))
        return difference, float(np.sqrt((error**2).sum()))


def sweep(
    model: Model,
    P: Sequence[int],
    method: Method,
    *,
    draws: int,
    thin: int = 1,
    warmup: int = 0,
    data_seeds: Sequence[int] = (0,),
    members: int = 2,
    seed: int = 0,
    dtype: str = "float64",
    device: str = "auto",
) -> Loop:
    """Sample at one P after another, upwards and downwards, each chain beginning where it ended at the last P.

    Parameters
    ----------
    model : Model
        Its P is ignored.
    P : sequence of int
        At least two; sorted here.
    method : Method
        Its dynamics decides how fast barriers are crossed: HMC's draws are far apart, SGLD's are training with noise.
    draws, thin, warmup : int
        At each P, as in :func:`phasekit.samplers.sample`. The fewer, the faster the sweep.
    data_seeds, members, seed, dtype, device
        As in :func:`phasekit.samplers.sample`; ``members`` chains on each data set and way.

    Raises
    ------
    InputError
        For fewer than two P or chains, and whatever :func:`phasekit.samplers.sample` refuses.
    ChainDiverged
    """
    ascending = sorted({int(value) for value in P})
    if len(ascending) < 2:
        raise InputError("P", list(P), "a sweep needs at least two")
    if members < 2:
        raise InputError("members", members, "a sweep needs at least two chains each way")
    ways = []
    for direction in DIRECTIONS:
        along = ascending if direction == "up" else ascending[::-1]
        samples: Samples | None = None
        visited = []
        for value in along:
            samples = sample(
                model.at(P=float(value)),
                method,
                draws=draws,
                thin=thin,
                warmup=warmup,
                data_seeds=data_seeds,
                starts=(_ENDS[direction],),
                members=members,
                initial=samples,
                seed=seed,  # the start's name is part of a chain's key: no chain repeats the noise of another way
                dtype=dtype,
                device=device,
            )
            visited.append(samples.posterior.drop_vars(["start", "P"]))
        ways.append(xr.concat(visited, xr.Variable("P", np.array(along))).sortby("P"))
    return Loop(model.at(P=None), xr.concat(ways, xr.Variable("direction", np.array(DIRECTIONS))))


def _joined(model: Model, data: xr.Dataset) -> Samples:
    """Return chains on all ways as one set of samples, their starts called "up" and "down"."""
    stacked = data.stack(both=("direction", "chain")).transpose("both", "draw", "dataset")
    posterior = xr.Dataset(
        {str(name): (("chain", "draw", "dataset"), values.to_numpy()) for name, values in stacked.data_vars.items()},
        {
            "start": ("chain", stacked.direction.to_numpy()),
            "P": ("dataset", np.full(data.sizes["dataset"], int(data.P))),
            "data_seed": ("dataset", data.data_seed.to_numpy()),
        },
    )
    return _samples(model, posterior)


def _samples(model: Model, posterior: xr.Dataset) -> Samples:
    """Return draws of a model with what :class:`Samples` knows to do with them."""
    about = xr.Dataset(attrs={"model": json.dumps(model.describe())})
    return Samples(xr.DataTree.from_dict({"/": about, "posterior": posterior}))


def _parted(diagnosis: Diagnosis) -> float:
    """Return the share of data sets whose two wells hold the chains of one way each."""

    def by_way(dataset: int) -> bool:
        wells = diagnosis.wells[dataset]
        return diagnosis.verdict(dataset) == COEXISTENCE and all(len(set(well.starts)) == 1 for well in wells)

    return float(np.mean([by_way(d) for d in range(len(diagnosis.wells))]))


def _integral(values: xr.DataArray, x: np.ndarray[Any, Any]) -> xr.DataArray:
    area: xr.DataArray = xr.apply_ufunc(np.trapezoid, values, input_core_dims=[["P"]], kwargs={"x": x})
    return area
