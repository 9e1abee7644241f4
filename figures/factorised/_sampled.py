"""A procedure of the sweep ``factorised_heads``: the posterior, with what the law of a finite key dimension changes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from phasekit.checkpoint import Tensors
from phasekit.heads import build_energy, draw_starts
from phasekit.heads.factorised import law_correction
from phasekit.model import Estimator, Model
from phasekit.runs.procedures import Case, Outcome, Workplace
from phasekit.runs.procedures.heads import HeadsProcedure
from phasekit.samplers import Chains, HeadsTarget, hmc
from phasekit.samplers.noise import key_of
from phasekit.samplers.observables import observable_names, observe
from phasekit.tasks.copy import draw_dataset


class SampledWithCorrection(HeadsProcedure):
    """Sample by HMC from both ends; a member is a chain, and its draws are kept as ``draws_NAME``.

    Beside the observables there is "H" (:func:`phasekit.heads.factorised.law_correction`), whose covariance with an
    observable, over 4, is the first order of its change with 1/d.
    """

    theory: ClassVar[Estimator] = "posterior"

    members: int = Field(8, ge=1)
    draws: int = Field(100, ge=2)
    thin: int = Field(2, ge=1)
    warmup: int = Field(150, ge=0)
    leaps: int = Field(8, ge=1)

    def together(self, model: Model) -> Hashable:
        return model

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        return [self._sampled(*case) for case in cases]

    def _sampled(self, model: Model, data_seed: int) -> Outcome:
        energy = build_energy([draw_dataset(model, data_seed)], dtype="float64")
        starts = [(start, number) for start in ("uniform", "copy") for number in range(self.members)]
        keys = [key_of(self.seed, start, number, model.key_dim or 0) for start, number in starts]
        target = HeadsTarget(energy, len(starts))
        kernel = hmc.build(target, keys, step=0.1, leaps=self.leaps, adapt=self.warmup)

        def observed(position: Tensors) -> Tensor:
            H = law_correction(energy.logit_matrix(position["G"]), model.sigma_g)
            return torch.cat([observe(energy, position)[:, 0], H])

        begin = draw_starts([model], starts, self.seed, energy.dtype, energy.device)
        run = Chains(target, kernel, begin, observed, thin=self.thin, warmup=self.warmup)
        run.run(self.draws)
        values = run.draws()
        draws = {name: values[:, k].T for k, name in enumerate((*observable_names(model.score), "H"))}
        if "cG" in draws:  # the sign of (c1, cG) is a symmetry
            draws["cG^2"] = draws["cG"] ** 2
        labels = {"start": np.array([start for start, _ in starts]), "number": np.array([n for _, n in starts])}
        assert isinstance(run.state, hmc.HMCState)
        accepted = np.full(len(starts), float((run.state.accepted / run.state.tried).mean()))
        means = {name: x.mean(1) for name, x in draws.items()}
        return Outcome({**labels, **means, "acceptance": accepted}, {f"draws_{name}": x for name, x in draws.items()})
