"""Umbrella sampling: chains in windows of the copy order parameter, for the free energy along it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.runs.procedures.base import Case, Outcome, Workplace
from phasekit.runs.procedures.draws import Kept, means_of_draws, pack_draws, unpack_draws
from phasekit.runs.procedures.heads import SampledHeads

if TYPE_CHECKING:
    import xarray as xr


class Umbrella(SampledHeads):
    """Sample in windows over all wells of the theory; a member is a chain in a window.

    The columns are ``window``, ``centre`` and ``stiffness`` of its spring, ``start`` ("uniform" or "copy") and
    ``number`` of the chain, the mean of every quantity over its draws, and ``acceptance``. The draws themselves are
    kept; :meth:`sampled` returns them, and :func:`phasekit.evidence.free_energy` takes the springs out again.

    Parameters
    ----------
    windows : int
        Placed by the posterior's theory: see :func:`phasekit.evidence.windows`.
    step, leaps : float, int
        Of HMC.
    draws, thin, warmup : int
        In each window.
    members : int
        SampledHeads from each end ("uniform", "copy") in every window.
    seed : int
        Of the chains' starts and noise.
    dtype : "float32" or "float64"
    """

    name: ClassVar[str] = "umbrella"

    windows: int = Field(20, ge=2)
    step: float = Field(0.05, gt=0)
    leaps: int = Field(16, ge=1)
    draws: int = Field(200, ge=1)
    warmup: int = Field(60, ge=0)

    def check(self, model: Model) -> None:
        from phasekit.theory.action import action_for

        super().check(model)
        if model.inputs != "positional":
            raise InputError("inputs", model.inputs, "umbrella sampling is for positional inputs")
        action_for(model, "posterior")

    def together(self, model: Model) -> Hashable:
        return model

    @property
    def heads(self) -> int:
        return 2 * self.windows * self.members

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        # Data sets are sampled one after another: a checkpoint knows one of them.
        alone = place if len(cases) == 1 else replace(place, checkpoint=None)
        return [self._outcome(alone.resuming(partial(self._sample, *case, alone))) for case in cases]

    def _sample(self, model: Model, data_seed: int, place: Workplace) -> xr.Dataset:
        from phasekit.evidence import umbrella, windows
        from phasekit.samplers import HMC

        centres, stiffness = windows(model, self.windows)
        return umbrella(
            model,
            centres,
            stiffness,
            HMC(step=self.step, leaps=self.leaps),
            draws=self.draws,
            thin=self.thin,
            warmup=self.warmup,
            data_seed=data_seed,
            members=self.members,
            seed=self.seed,
            dtype=self.dtype,
            device=place.device,
            checkpoint=place.checkpoint,
            pause=place.pause,
        )

    def _outcome(self, data: xr.Dataset) -> Outcome:
        arrays = pack_draws(data.drop_vars("acceptance"), "window", "chain")
        windows, chains = data.sizes["window"], data.sizes["chain"]
        labels = {
            "window": np.repeat(np.arange(windows), chains),
            "centre": np.repeat(data.centre.to_numpy(), chains),
            "stiffness": np.full(windows * chains, float(data.attrs["stiffness"])),
            "start": np.tile(data.start.to_numpy().astype(str), windows),
            "number": np.tile(np.arange(chains) % self.members, windows),
            "acceptance": data.acceptance.to_numpy().ravel(),
        }
        return Outcome({**labels, **means_of_draws(arrays)}, arrays, {"dtype": self.dtype})

    def sampled(self, case: Case, kept: Kept) -> xr.Dataset:
        """Return what a task kept, as :func:`phasekit.evidence.umbrella` returns it."""
        import json

        import xarray as xr

        model, data_seed = case
        chains = 2 * self.members
        acceptance, centre, start = (
            kept.values[name].reshape(self.windows, chains) for name in ("acceptance", "centre", "start")
        )
        draws = unpack_draws(kept, window=self.windows, chain=chains)
        return xr.Dataset(
            {**draws, "acceptance": (("window", "chain"), acceptance)},
            {"centre": ("window", centre[:, 0]), "start": ("chain", start[0])},
            {
                "model": json.dumps(model.describe()),
                "stiffness": float(kept.values["stiffness"][0]),
                "order": "aG" if model.score.normalised else "cG",
                "data_seed": data_seed,
            },
        )
