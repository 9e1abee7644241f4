"""A procedure of the sweep ``agreement``: posterior averages by SGLD, extrapolated to zero step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field

from phasekit.evidence import to_zero_step
from phasekit.heads import build_energy
from phasekit.heads.build import choose_path
from phasekit.model import Estimator, Model
from phasekit.runs.procedures import Case, Outcome, Workplace
from phasekit.runs.procedures.heads import HeadsProcedure
from phasekit.samplers import HMC, SGLD, Diagnosis, HeadsTarget, Samples, diagnose, sample
from phasekit.samplers.curvature import stiffest_curvature
from phasekit.samplers.diagnostics import MIXED
from phasekit.tasks.copy import draw_dataset

#: The longest step: prior modes have curvature 1.
LONGEST = 0.1
#: Time (updates × step) between two draws, and warm-up as a share of a run.
SPACING, WARMUP = 0.25, 0.15
#: HMC takes the chains from both ends to where SGLD begins, with steps that no curvature there limits.
BEGIN, BEGIN_WARMUP = HMC(leaps=8), 150


class ZeroStepSGLD(HeadsProcedure):
    """Sample by SGLD at several steps and extrapolate the averages to zero step; a member is a quantity.

    SGLD has a bias of first order in its step: where a mode has curvature λ it samples 1/(1 − λ step/2) times the
    variance. So steps are shares of 1/λ for the stiffest λ of heads that HMC drew on these data. From steps 0.4/λ and
    0.2/λ the extrapolation leaves the stiffest mode 3 % too little variance, a mode that is half as stiff 0.6 %.

    Parameters
    ----------
    shares : list of numbers
        Steps times the stiffest curvature, longest first.
    time : float
        How long chains run, in units of updates × step: longer where heads relax slowly.
    members : int
        Chains from each end.
    """

    theory: ClassVar[Estimator] = "posterior"

    shares: tuple[float, ...] = (0.4, 0.2)
    time: float = Field(100.0, gt=0)
    members: int = Field(3, ge=1)
    dtype: Literal["float32", "float64"] = "float32"

    def together(self, model: Model) -> Hashable:
        return model

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        data = [draw_dataset(model, seed) for model, seed in cases]
        shared: dict[str, Any] = {"members": self.members, "seed": self.seed, "dtype": self.dtype}
        shared |= {"device": place.device, "path": choose_path(cases[0][0])}
        begin = sample(data, BEGIN, draws=10, warmup=BEGIN_WARMUP, **shared)
        energy = build_energy(data, dtype="float64", path=choose_path(cases[0][0]))
        heads = {name: torch.from_numpy(part) for name, part in begin.final().items()}
        stiffest = stiffest_curvature(HeadsTarget(energy, 2 * self.members), heads)
        steps, runs = self.steps(stiffest), []
        for step in steps:
            thin = max(1, round(SPACING / step))
            draws, warmup = round(self.time / (thin * step)), round(WARMUP * self.time / step)
            runs.append(sample(data, SGLD(step=step), draws=draws, thin=thin, warmup=warmup, initial=begin, **shared))
        about = {"longest_step": steps[0], "stiffest": stiffest}
        found = [diagnose(run) for run in runs]
        return [at_zero_step(steps, found, names_of(runs[0]), d, about) for d in range(len(cases))]

    def steps(self, stiffest: float) -> tuple[float, ...]:
        """Return the steps, longest first, to two digits."""
        first = min(LONGEST, self.shares[0] / stiffest)
        return tuple(float(f"{first * share / self.shares[0]:.2g}") for share in self.shares)


def names_of(samples: Samples) -> list[str]:
    """Return the quantities that no symmetry changes."""
    return [str(name) for name in samples.invariants().data_vars]


def at_zero_step(
    steps: tuple[float, ...], runs: Sequence[Diagnosis], names: Sequence[str], d: int, about: dict[str, float]
) -> Outcome:
    """Extrapolate the averages on one data set to zero step; NaN unless its chains agree at every step."""
    verdicts = sorted({run.verdict(d) for run in runs})
    known = [name for name in names if name in runs[0].table.quantity]
    values = np.full((2, len(known)), np.nan)
    if verdicts == [MIXED]:
        for k, name in enumerate(known):
            wells = [run.wells[d][0] for run in runs]
            limit = to_zero_step(steps, [well.mean[name] for well in wells], [well.mcse[name] for well in wells])
            values[:, k] = limit.value, limit.error
    every: dict[str, Any] = {"verdict": "; ".join(verdicts), "start": "copy+uniform", **about}
    columns = {name: np.full(len(known), value) for name, value in every.items()}
    named = {"quantity": np.array(known), "number": np.arange(len(known)), "mean": values[0], "mcse": values[1]}
    return Outcome({**named, **columns})
