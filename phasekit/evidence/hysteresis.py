"""Take chains around a loop in P, up and down: at a first-order transition the two ways differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from phasekit.checkpoint import Pause
from phasekit.checks import distinct, whole_number
from phasekit.errors import InputError
from phasekit.evidence.visited import Visited
from phasekit.model import Model
from phasekit.progress import Report
from phasekit.samplers import Diagnosis, Method, Samples, diagnose, sample
from phasekit.samplers.chains import check_draws
from phasekit.samplers.diagnostics import COEXISTENCE
from phasekit.tasks.copy import check_room

DIRECTIONS = ("up", "down")
#: Where a way begins: at few data on the uniform branch, at many on the copy branch.
_ENDS = {"up": "uniform", "down": "copy"}
#: Chains stay at each P for a short time: looser bounds than those of :func:`phasekit.samplers.diagnose`.
RHAT_MAX, ESS_MIN = 1.2, 20.0
#: R̂ of copying at the ends of a closed loop. Two ways that lie two standard deviations apart give 1.4, chains that
#: stand still infinity; a few dozen slow draws of one distribution give up to 1.3.
_END_RHAT = 1.4


@dataclass(frozen=True, eq=False)
class Loop:
    """Chains that were taken up and down in P.

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

    @cached_property
    def diagnoses(self) -> list[Diagnosis]:
        """At every P, whether chains on their way up and down sample the same distribution.

        "coexistence" inside a hysteresis loop is its sign: chains settled in two wells by the way they came.
        """
        sizes = self.data.P.to_numpy()
        return [diagnose(self.samples(P), rhat_max=RHAT_MAX, ess_min=ESS_MIN) for P in sizes]

    def verdicts(self) -> xr.DataArray:
        """Return the verdict at each P on each data set: "mixed", "coexistence" or "not mixed"."""
        found = [each.table.verdict.to_numpy() for each in self.diagnoses]
        return xr.DataArray(found, {"P": self.data.P}, ("P", "dataset"), "verdict")

    def problem(self) -> str | None:
        """Return why this is no closed loop, in words; None if it is one.

        A loop is closed if both ways sample the same copying at its first and last P, on every data set. What chains
        that never moved, or that are still on their way, enclose is no property of the transition.
        """
        sizes, ends = self.data.P.to_numpy(), (self.diagnoses[0], self.diagnoses[-1])
        rhats = [each.table.rhat.sel(quantity=self.order).to_numpy() for each in ends]
        apart = [f"{P:g}" for P, rhat in zip(sizes[[0, -1]], rhats, strict=True) if not (rhat <= _END_RHAT).all()]
        if not apart:
            return None
        return (
            f"the two ways disagree at the loop's end, P = {' and '.join(apart)}: take longer chains, or P further out"
        )

    def split(self) -> xr.DataArray:
        """Return the share of data sets at each P on which the way up and the way down settled in different wells."""
        found = [_parted(diagnosis) for diagnosis in self.diagnoses]
        return xr.DataArray(found, {"P": self.data.P}, ("P",), "split")

    def area(self, quantity: str | None = None) -> tuple[float, float]:
        """Return the area ∫ (down - up) d ln P of a quantity (``order``), and its standard error.

        It is in units of that quantity: to compare heads whose order parameters differ, take :meth:`work`. It means
        something for a closed loop only: see :meth:`problem`.
        """
        return self._enclosed(_samples(self.model, self.data).invariants()[quantity or self.order])

    def work(self) -> tuple[float, float]:
        """Return the work that is lost on the loop in units of the temperature, and its standard error.

        ∮ ⟨∂U/∂P⟩ dP = ∫ (up - down) P loss/(2κ) d ln P: 0 if the two ways agree. It compares any two heads.
        """
        P = self.data.P
        return self._enclosed(-P * self.data.loss / (2 * self.model.kappa))

    def _enclosed(self, values: xr.DataArray) -> tuple[float, float]:
        """Return ∫ (down - up) d ln P and its standard error.

        Every chain's way is one integral over its means; ways of different chains are independent, so that their
        scatter gives the error whatever the autocorrelation.
        """
        means = values.mean("draw")
        ways = _integral(means, np.log(means.P.values)).stack(way=("dataset", "chain"))
        n = ways.sizes["way"]
        mean, error = ways.mean("way"), ways.std("way", ddof=1) / np.sqrt(n)
        difference = float(mean.sel(direction="down") - mean.sel(direction="up"))
        return difference, float(np.sqrt((error**2).sum()))


def hysteresis_loop(
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
    checkpoint: str | Path | None = None,
    pause: Pause | None = None,
    progress: Report | None = None,
) -> Loop:
    """Sample at one P after another, upwards and downwards, each chain beginning where it ended at the last P.

    Parameters
    ----------
    model : Model
        Its P is ignored.
    P : sequence of int
        At least two different sizes of the data set; sorted here.
    method : Method
        Its dynamics decides how fast barriers are crossed: HMC's draws are far apart, SGLD's are training with noise.
    draws, thin, warmup : int
        At each P, as in :func:`phasekit.samplers.sample`. The fewer, the faster the loop is gone around.
    data_seeds, members, seed, dtype, device
        As in :func:`phasekit.samplers.sample`; ``members`` chains on each data set and way.
    checkpoint : path, optional
        A file (.npz) to resume from if it exists, to the last bit, and to save the visited sizes to.
    pause : callable, optional
        Called now and then with a function that saves the checkpoint; it may stop by raising.
    progress : callable, optional
        Called after each P with (sizes done, sizes in all), both ways counted.

    Raises
    ------
    InputError
        For fewer than two P or chains, and whatever :func:`phasekit.samplers.sample` refuses, before any work.
    ChainDiverged
    """
    ascending = sorted({whole_number("P", value, 1) for value in P})
    if len(ascending) < 2:
        raise InputError("P", list(P), "a loop needs at least two sizes")
    members = whole_number("members", members, 2)
    for value in ascending:
        check_room(model.at(P=value))
    check_draws(whole_number("draws", draws, 1), 2 * len(ascending) * members * len(distinct("data_seeds", data_seeds)))
    run = {"model": model.at(P=None).describe(), "P": ascending, "method": method.describe(), "draws": draws,
           "thin": thin, "warmup": warmup, "data_seeds": list(data_seeds), "members": members, "seed": seed,
           "dtype": dtype}  # fmt: skip
    visited, ways, done = Visited(checkpoint, run), [], 0
    for direction in DIRECTIONS:
        along = ascending if direction == "up" else ascending[::-1]
        samples: Samples | None = None
        draws_along = []
        for value in along:
            samples = visited.get(f"{direction} {value}") or sample(
                model.at(P=value),
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
                pause=None if pause is None else (lambda _: pause(visited.save)),
            )
            visited.add(f"{direction} {value}", samples)
            draws_along.append(_labelled(samples.posterior, draws, data_seeds))
            done += 1
            if progress is not None:
                progress(done, 2 * len(ascending))
        ways.append(xr.concat(draws_along, xr.Variable("P", np.array(along))).sortby("P"))
    return Loop(model.at(P=None), xr.concat(ways, xr.Variable("direction", np.array(DIRECTIONS))))


def _labelled(posterior: xr.Dataset, draws: int, data_seeds: Sequence[int]) -> xr.Dataset:
    """Return draws with the labels that are the same all along a way."""
    chains = np.arange(posterior.sizes["chain"])
    labels: dict[str, Any] = {"draw": np.arange(draws), "number": ("chain", chains)}
    labels["data_seed"] = ("dataset", np.array(data_seeds))
    return posterior.reset_coords(drop=True).assign_coords(chain=chains, **labels)


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
