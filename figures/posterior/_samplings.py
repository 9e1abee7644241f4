"""Sampled posteriors that several scripts share: every sampling is done once and kept in ``build/runs``.

As for trainings (:mod:`figures._trainings`): a file is used only if it says about itself what was asked for, and if the
energies it ends with are those of its final heads on the data as they are drawn today.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from figures._cache import file_of, kept
from phasekit import __version__
from phasekit.heads import build_energy
from phasekit.model import Estimator, Model
from phasekit.samplers import Method, Samples, diagnose, sample
from phasekit.samplers.diagnostics import COEXISTENCE, MIXED
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.minima import find_minima

BOTH_ENDS = ("uniform", "copy")
#: How well a recorded energy is that of its heads, relatively.
ROUNDING = {"float64": 1e-9, "float32": 1e-4}


@dataclass(frozen=True)
class Sampling:
    """Chains on ``data`` data sets for each P, ``members`` from each start.

    With ``begin`` each chain begins where the chain in the same place of that sampling ended.
    """

    model: Model
    P: tuple[int, ...]
    method: Method
    draws: int
    thin: int
    warmup: int
    data: int = 1
    members: int = 4
    starts: tuple[str, ...] = BOTH_ENDS
    dtype: str = "float64"
    begin: Sampling | None = None

    def describe(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        begin = {} if self.begin is None else {"begin": self.begin.describe()}
        return begin | {
            "phasekit": __version__,
            "model": self.model.at(P=None).describe(),
            "P": sorted(self.P),
            "data_seeds": list(range(self.data)),
            "starts": sorted(self.starts),
            "numbers": list(range(self.members)),
            "seed": 0,
            "method": self.method.describe(),
            "draws": self.draws,
            "thin": self.thin,
            "warmup": self.warmup,
            "dtype": self.dtype,
        }

    def samples(self) -> Samples:
        """Return the draws, from their file or by sampling."""
        return kept(
            file_of(self.describe()),
            load=Samples.load,
            holds=lambda found: _described(found) == self._recorded() and energies_hold(found),
            compute=self._sample,
            save=Samples.save,
        )

    def _recorded(self) -> dict[str, Any]:
        """Return what the samples say of :meth:`describe`: all but where they began, which is in the file's name."""
        return {name: value for name, value in self.describe().items() if name != "begin"}

    def _sample(self) -> Samples:
        return sample(
            [self.model.at(P=float(P)) for P in sorted(self.P)],
            self.method,
            draws=self.draws,
            thin=self.thin,
            warmup=self.warmup,
            data_seeds=range(self.data),
            starts=self.starts,
            members=self.members,
            dtype=self.dtype,
            device="cpu",
            initial=None if self.begin is None else self.begin.samples(),
        )


def _described(samples: Samples) -> dict[str, Any]:
    """Return what samples say about themselves, in the form of :meth:`Sampling.describe`."""
    data, about = samples.posterior, samples.tree.attrs
    return {
        "phasekit": about["phasekit"],
        "model": samples.model.describe(),
        "P": np.unique(data.P).tolist(),
        "data_seeds": np.unique(data.data_seed).tolist(),
        "starts": sorted(set(data.start.values.tolist())),
        "numbers": np.unique(data.number).tolist(),
        "seed": int(about["seed"]),
        "method": samples.method.describe(),
        "draws": data.sizes["draw"],
        "thin": int(about["thin"]),
        "warmup": int(about["warmup"]),
        "dtype": about["dtype"],
    }


def energies_hold(samples: Samples) -> bool:
    """Whether the last draw's energy is that of the final heads, on data drawn anew."""
    data, model = samples.posterior, samples.model
    labels = zip(data.P.values.tolist(), data.data_seed.values.tolist(), strict=True)
    energy = build_energy([draw_dataset(model.at(P=float(P)), seed) for P, seed in labels], dtype="float64")
    ends = samples.final()
    W, G = (torch.from_numpy(ends[name]).to(energy.device, energy.dtype) for name in ("W", "G"))
    U, _, _ = energy.energy_and_gradient(W, G)
    recorded = data.U.isel(draw=-1).transpose("dataset", "chain").values
    return bool(np.allclose(U.cpu().numpy(), recorded, rtol=ROUNDING[samples.tree.attrs["dtype"]]))


def well_rows(samples: Samples) -> pd.DataFrame:
    """Return one row per data set, well of chains and quantity: P, data_seed, well, starts, verdict, mean, mcse.

    Chains that agree are one well. Coexisting wells have a row each, and chains that disagree otherwise a row without a
    mean: nothing is averaged over chains that disagree.
    """
    diagnosis = diagnose(samples)
    data = samples.posterior
    rows = []
    for d, wells in enumerate(diagnosis.wells):
        labels = {
            "P": int(data.P.values[d]), "data_seed": int(data.data_seed.values[d]), "verdict": diagnosis.verdict(d)
        }  # fmt: skip
        if labels["verdict"] not in (MIXED, COEXISTENCE):
            rows += [
                {**labels, "well": 0, "starts": "", "quantity": name, "mean": np.nan, "mcse": np.nan}
                for name in diagnosis.table.quantity.values.tolist()
            ]
        for w, well in enumerate(wells):
            starts = "+".join(sorted(set(well.starts)))
            rows += [
                {**labels, "well": w, "starts": starts, "quantity": name, "mean": mean, "mcse": well.mcse[name]}
                for name, mean in well.mean.items()
            ]
    return pd.DataFrame(rows)


def theory_rows(model: Model, P: tuple[float, ...], estimator: Estimator = "posterior") -> pd.DataFrame:
    """Return the theory's branches, lowest action first: P, branch, quantity, theory.

    For the map estimator ``U`` is the action. For the posterior, order parameters of linear attention are also given as
    what sign-blind samples measure, their second moments ``c1_c1``, ``c1_cG``, ``cG_cG``: product of the means plus
    covariance.
    """
    rows = []
    for each in P:
        found = find_minima(model.at(P=float(each)), estimator)
        for branch in np.flatnonzero(found.converged):
            values = {name: float(v[branch]) for name, v in found.order_parameters.items()}
            values |= {name: float(found.averages[name][branch]) for name in ("s2", "q")}
            values |= {name: float(getattr(found, name)[branch]) for name in ("loss", "coverage")}
            if estimator == "map":
                values["U"] = float(found.action[branch])
            if not model.score.normalised and found.covariance is not None:
                c1, cG, spread = values["c1"], values["cG"], [float(part[branch]) for part in found.covariance]
                values |= {"c1_c1": c1**2 + spread[0], "c1_cG": c1 * cG + spread[1], "cG_cG": cG**2 + spread[2]}
            rows += [{"P": each, "branch": branch, "quantity": n, "theory": v} for n, v in values.items()]
    return pd.DataFrame(rows)


def over_data(rows: pd.DataFrame) -> pd.DataFrame:
    """Average :func:`well_rows` over data sets whose chains agree: mean, error, data, left_out.

    The error is the standard error over data sets (which holds the chains' own), or the chains' own for one data set.
    """
    found = []
    for (P, quantity), part in rows.groupby(["P", "quantity"], sort=False):
        mixed = part[part["verdict"] == MIXED]
        n = len(mixed)
        error = mixed["mean"].std(ddof=1) / np.sqrt(n) if n > 1 else mixed["mcse"].iloc[0] if n else np.nan
        left_out = part["data_seed"].nunique() - n
        mcse = np.sqrt((mixed["mcse"] ** 2).sum()) / n if n else np.nan
        found.append(
            {
                "P": P,
                "quantity": quantity,
                "mean": mixed["mean"].mean(),
                "mcse": mcse,
                "error": np.fmax(error, mcse),
                "data": n,
                "left_out": left_out,
            }
        )
    return pd.DataFrame(found)
