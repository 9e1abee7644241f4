"""SampledHeads of exp(-U) by SGLD, Langevin dynamics or HMC, from several starts, on one data set each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures.base import Case, Outcome, Workplace
from phasekit.runs.procedures.draws import Kept, pack_draws, unpack_draws
from phasekit.runs.procedures.heads import SampledHeads, StartedHeads

if TYPE_CHECKING:
    from phasekit.samplers import Samples

#: Diagnostics need this many draws and chains; a measurement of speed makes do with less.
_LEAST_DRAWS, _LEAST_CHAINS = 8, 2


class SampledNetworks(StartedHeads, SampledHeads):
    """Sample exp(-U); a member is a chain. See :func:`phasekit.samplers.sample` for the settings.

    A row of the collected table is a chain. Each quantity that no symmetry changes (``aG`` …; for linear attention
    ``cG_cG``, the mean of c_G², …) gives four columns: its ``mean`` over the chain's draws under its own name,
    ``…_mcse``, the Monte Carlo standard error of that mean, and ``…_rhat`` and ``…_ess`` of all chains of the task
    together (the smaller of bulk and tail). ``verdict`` says whether these agree: "mixed", "coexistence" (the chains
    settled in two wells: ``well`` is 0 for the one of less copying, 1 for the other), or "not mixed". The theory's
    columns are those of the posterior, at temperature 1.

    Parameters
    ----------
    draws, thin, warmup : int
    starts, members, seed
        See :class:`phasekit.runs.procedures.heads.StartedHeads`.
    dtype : "float32" or "float64"
    keep_draws : bool
        Whether to keep the draws themselves (members·draws numbers for each quantity); :meth:`samples` returns them.
    """

    added = ("keep_draws",)

    draws: int = Field(500, ge=_LEAST_DRAWS)
    members: int = Field(2, ge=1)
    keep_draws: bool = False

    def method(self) -> Any:
        """Return the sampler."""
        from phasekit.samplers import get_method

        own = type(self).model_fields.keys() - SampledNetworks.model_fields.keys()
        return get_method({"name": self.name, **{field: getattr(self, field) for field in own}})

    def check(self, model: Model) -> None:
        super().check(model)
        if self.members * len(self.starts) < _LEAST_CHAINS:
            raise InputError("members", self.members, f"diagnostics need at least {_LEAST_CHAINS} chains")

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        samples = place.resuming(lambda: self._sample(cases, place))
        return self._outcomes(samples, len(cases))

    def _sample(self, cases: Sequence[Case], place: Workplace) -> Any:
        from phasekit.heads.build import choose_path
        from phasekit.samplers import sample
        from phasekit.tasks.copy import draw_dataset

        return sample(
            [draw_dataset(model, seed) for model, seed in cases],
            self.method(),
            draws=self.draws,
            thin=self.thin,
            warmup=self.warmup,
            starts=self.starts,
            members=self.members,
            seed=self.seed,
            dtype=self.dtype,
            device=place.device,
            path=choose_path(cases[0][0]),
            checkpoint=place.checkpoint,
            save_every=self.length,  # the clock decides, in pause
            pause=place.pause,
        )

    def _outcomes(self, samples: Any, cases: int) -> list[Outcome]:
        data = samples.invariants()
        labels = {"start": data.start.values.astype(str), "number": data.number.values}
        names = [str(name) for name in data.data_vars]
        draws = {name: data[name].transpose("dataset", "chain", "draw").values for name in names}
        about = {name: samples.tree.attrs[name] for name in ("dtype", "device", "path")}
        enough = self.draws >= _LEAST_DRAWS and len(labels["start"]) >= _LEAST_CHAINS
        judged = self._judged(samples) if enough else [{}] * cases
        statistics = samples.tree["sample_stats"].to_dataset() if "sample_stats" in samples.tree else {}
        return [
            Outcome(
                values={
                    **labels,
                    **{name: draws[name][d].mean(1) for name in names},
                    **{str(name): x.transpose("dataset", "chain").values[d] for name, x in statistics.items()},
                    **judged[d],
                },
                arrays=pack_draws(samples.posterior.isel(dataset=d), "chain") if self.keep_draws else {},
                about=about,
            )
            for d in range(cases)
        ]

    def samples(self, results: Mapping[Case, Kept]) -> Samples:
        """Return the draws that tasks kept, as :func:`phasekit.samplers.sample` returns them for models of several P.

        Raises
        ------
        InputError
            If the tasks didn't keep their draws.
        """
        import xarray as xr

        from phasekit.samplers import Samples

        if not self.keep_draws:
            raise InputError("keep_draws", False, "must be true for tasks to keep their draws")
        models = [model for model, _ in results]
        parts = []
        for kept in results.values():
            draws = unpack_draws(kept, chain=self.members * len(self.starts))
            labels = {name: ("chain", kept.values[name]) for name in ("start", "number")}
            counted = {"chain": np.arange(len(kept.values["number"])), "draw": np.arange(self.draws)}
            parts.append(xr.Dataset(draws, {**counted, **labels}))
        posterior = xr.concat(parts, "dataset").transpose("chain", "draw", "dataset")
        cases = {"P": [int(model.P or 0) for model in models], "data_seed": [seed for _, seed in results]}
        posterior = posterior.assign_coords({name: ("dataset", values) for name, values in cases.items()})
        about = {
            "model": json.dumps(models[0].at(P=None).describe()),
            "method": json.dumps(self.method().describe()),
            **{name: getattr(self, name) for name in ("seed", "warmup", "thin", "dtype")},
        }
        return Samples(xr.DataTree.from_dict({"/": xr.Dataset(attrs=about), "posterior": posterior}))

    def _judged(self, samples: Any) -> list[dict[str, NDArray[Any]]]:
        """Return, for each data set, errors and diagnostics: columns with a value for each chain."""
        from phasekit.samplers import diagnose

        diagnosis, errors = diagnose(samples), _errors_of_chains(samples)
        chains = samples.posterior.sizes["chain"]
        found = []
        for d in range(samples.posterior.sizes["dataset"]):
            columns: dict[str, NDArray[Any]] = {f"{name}_mcse": error[d] for name, error in errors.items()}
            for name in diagnosis.table.quantity.values.tolist():
                row = diagnosis.table.sel(quantity=name).isel(dataset=d)
                columns[f"{name}_rhat"] = np.full(chains, float(row.rhat))
                columns[f"{name}_ess"] = np.full(chains, min(float(row.ess_bulk), float(row.ess_tail)))
            well = np.zeros(chains, dtype=int) if diagnosis.wells[d] else np.full(chains, -1)
            for number, members in enumerate(diagnosis.wells[d]):
                well[list(members.chains)] = number
            columns["well"] = well
            columns["verdict"] = np.array([diagnosis.verdict(d)] * chains)
            found.append(columns)
        return found


def _errors_of_chains(samples: Any) -> dict[str, NDArray[np.float64]]:
    """Return the Monte Carlo standard error of each chain's mean, shape (data sets, chains), by quantity."""
    from arviz_stats import sampling_diagnostics

    mcse: Any = sampling_diagnostics.mcse
    errors = {}
    for name, data in samples.invariants().data_vars.items():
        draws = data.transpose("dataset", "chain", "draw").values
        errors[str(name)] = np.array([[float(mcse(chain[None], method="mean")) for chain in one] for one in draws])
    return errors


class SGLDNetworks(SampledNetworks):
    """Stochastic gradient Langevin dynamics; see :class:`phasekit.samplers.SGLD`."""

    name: ClassVar[str] = "sgld"

    step: float = Field(1e-3, gt=0)
    temperature: float = Field(1.0, gt=0)
    batch: int | None = Field(None, ge=1)


class LangevinNetworks(SampledNetworks):
    """Underdamped Langevin dynamics (BAOAB); see :class:`phasekit.samplers.Langevin`."""

    name: ClassVar[str] = "langevin"

    step: float = Field(0.05, gt=0)
    friction: float = Field(1.0, gt=0)
    temperature: float = Field(1.0, gt=0)
    batch: int | None = Field(None, ge=1)


class HMCNetworks(SampledNetworks):
    """Hamiltonian Monte Carlo; see :class:`phasekit.samplers.HMC`."""

    name: ClassVar[str] = "hmc"

    step: float = Field(0.1, gt=0)
    leaps: int = Field(16, ge=1)
    acceptance: float = Field(0.8, gt=0, lt=1)
    jitter: float = Field(0.2, ge=0, lt=1)
    temperature: float = Field(1.0, gt=0)
