"""Sweeps of P up and down, with chains carried along from one data set to the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from phasekit.model import Model
from phasekit.runs.procedures.base import Case, Outcome, Workplace
from phasekit.runs.procedures.draws import Kept, means_of_draws, pack_draws, unpack_draws
from phasekit.runs.procedures.heads import SampledHeads

if TYPE_CHECKING:
    from phasekit.evidence import Loop
    from phasekit.samplers import Method

_WAYS = ("up", "down")
#: Verdicts need this many draws of each chain.
_LEAST_DRAWS = 8


class Hysteresis(SampledHeads):
    """Sweep P up and down; a member is a chain at one size on one way. See :func:`phasekit.evidence.hysteresis_loop`.

    The sizes of the data sets are multiples of the model's P, so that a sweep of models may go around each one's
    threshold. The columns are ``way`` ("up" or "down"), ``size`` (of the data set), ``number`` (of the chain), the
    mean of every quantity over the chain's draws at that size, and ``verdict``: whether the chains of both ways sample
    one law there. The draws themselves are kept; :meth:`loop` returns them.

    Parameters
    ----------
    sizes : list of numbers
        Multiples of P, at least two.
    sampler : "langevin" or "hmc"
        Decides how fast barriers are crossed: HMC's draws are far apart.
    step, friction, leaps
        Of the sampler: friction belongs to Langevin dynamics, leaps to HMC.
    draws, thin, warmup : int
        At each size. The fewer, the faster the sweep.
    members : int
        SampledHeads each way.
    seed : int
        Of the chains' starts and noise.
    dtype : "float32" or "float64"
    """

    name: ClassVar[str] = "hysteresis"

    sizes: tuple[float, ...] = (0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
    sampler: Literal["langevin", "hmc"] = "langevin"
    step: float = Field(0.05, gt=0)
    friction: float = Field(1.0, gt=0)
    leaps: int = Field(16, ge=1)
    draws: int = Field(40, ge=1)
    thin: int = Field(8, ge=1)
    warmup: int = Field(100, ge=0)
    members: int = Field(4, ge=2)

    @field_validator("sizes")
    @classmethod
    def _some_sizes(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(sizes)) < 2 or len(set(sizes)) < len(sizes) or min(sizes) <= 0:
            raise ValueError("must be at least two different numbers above 0")
        return sizes

    def sizes_of(self, model: Model) -> list[int]:
        """Return the sizes of the data sets for a model, ascending."""
        return sorted({max(1, round(size * (model.P or 0))) for size in self.sizes})

    def method(self) -> Method:
        """Return the sampler."""
        from phasekit.samplers import HMC, Langevin

        if self.sampler == "hmc":
            return HMC(step=self.step, leaps=self.leaps)
        return Langevin(step=self.step, friction=self.friction)

    def check(self, model: Model) -> None:
        super().check(model.at(P=float(self.sizes_of(model)[-1])))

    def together(self, model: Model) -> Hashable:
        return model

    @property
    def heads(self) -> int:
        return 2 * len(self.sizes) * self.members

    @property
    def gradients(self) -> int:
        return self.length * (self.leaps if self.sampler == "hmc" else 1)

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        from phasekit.evidence import hysteresis_loop

        model = cases[0][0]
        loop = place.resuming(
            lambda: hysteresis_loop(
                model,
                self.sizes_of(model),
                self.method(),
                draws=self.draws,
                thin=self.thin,
                warmup=self.warmup,
                data_seeds=[seed for _, seed in cases],
                members=self.members,
                seed=self.seed,
                dtype=self.dtype,
                device=place.device,
                checkpoint=place.checkpoint,
                pause=place.pause,
            )
        )
        return [self._outcome(loop, d) for d in range(len(cases))]

    def _outcome(self, loop: Loop, d: int) -> Outcome:
        data = loop.data.isel(dataset=d)
        order = ("direction", "P", "chain")
        arrays = pack_draws(data, *order)
        way, size, number = np.meshgrid(data.direction, data.P, data.number, indexing="ij")
        labels = {"way": way.astype(str).ravel(), "size": size.ravel(), "number": number.ravel()}
        verdicts = [found.verdict(d) for found in loop.diagnoses] if self.draws >= _LEAST_DRAWS else [""] * len(data.P)
        verdict = np.broadcast_to(np.array(verdicts)[None, :, None], way.shape).ravel()
        return Outcome({**labels, **means_of_draws(arrays), "verdict": verdict}, arrays, {"dtype": self.dtype})

    def loop(self, results: Mapping[Case, Kept]) -> Loop:
        """Return what tasks of one model, on one or more data sets, kept, as one loop."""
        import xarray as xr

        from phasekit.evidence import Loop

        (model,) = {model for model, _ in results}
        sizes = self.sizes_of(model)
        parts = []
        for kept in results.values():
            draws = unpack_draws(kept, direction=2, P=len(sizes), chain=self.members)
            coordinates = {
                "direction": list(_WAYS),
                "P": sizes,
                "chain": np.arange(self.members),
                "number": ("chain", np.arange(self.members)),
                "draw": np.arange(self.draws),
            }
            parts.append(xr.Dataset(draws, coordinates))
        joined = xr.concat(parts, "dataset").transpose("direction", "P", "chain", "draw", "dataset")
        joined = joined.assign_coords(data_seed=("dataset", [seed for _, seed in results]))
        return Loop(model.at(P=None), joined)
