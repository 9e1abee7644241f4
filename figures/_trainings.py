"""Trained networks that several scripts share: every training is done once and kept in ``build/runs``.

A training is described by plain numbers; the hash of their JSON names its file. A file is used only if it says about
itself what was asked for, and if its energies are those of its networks on the data as they are drawn today: so neither
a changed energy nor a changed data stream goes unnoticed. Else the training is done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr

from figures._cache import file_of, kept
from phasekit import __version__
from phasekit.heads import Adam, Ensemble, Selection, build_energy, select_lowest, train
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

ALL_STARTS = ("uniform", "copy", "random")
#: Below this q = ‖A‖²/L an attention matrix counts as zero: it has no pattern, and its coverage is 0/0.
NO_PATTERN = 1e-8


@dataclass(frozen=True)
class Training:
    """Networks trained on ``draws`` data sets for each P, from ``members`` starts of each kind.

    With normalised scores and with few data both ends of the first-order window must be tried ("uniform", "copy");
    "random" shows what training from the prior finds.
    """

    model: Model
    P: tuple[int, ...]
    draws: int
    starts: tuple[str, ...] = ALL_STARTS
    members: int = 1
    steps: int = 1000

    def describe(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        return {
            "phasekit": __version__,
            "model": self.model.at(P=None).describe(),
            "P": sorted(self.P),
            "data_seeds": list(range(self.draws)),
            "starts": sorted(self.starts),
            "numbers": list(range(self.members)),
            "seed": 0,
            "settings": Adam(steps=self.steps).describe(),
            "dtype": "float32",
        }

    @property
    def file(self) -> Path:
        """Where the trained networks are kept."""
        return file_of(self.describe())

    def networks(self) -> Ensemble:
        """Return the trained networks, from their file or by training them."""
        return kept(
            self.file,
            load=Ensemble.load,
            holds=lambda found: _described(found) == self.describe() and energies_hold(found),
            compute=self._train,
            save=Ensemble.save,
        )

    def _train(self) -> Ensemble:
        request = self.describe()
        return train(
            [self.model.at(P=float(P)) for P in request["P"]],
            data_seeds=request["data_seeds"],
            starts=request["starts"],
            members=request["numbers"],
            seed=request["seed"],
            settings=Adam(**request["settings"]),
            dtype=request["dtype"],
        )


def _described(networks: Ensemble) -> dict[str, Any]:
    """Return what an ensemble says about its own training, in the form of :meth:`Training.describe`."""
    data = networks.data
    return {
        "phasekit": data.attrs["phasekit"],
        "model": networks.model.describe(),
        "P": np.unique(data.P).tolist(),
        "data_seeds": np.unique(data.data_seed).tolist(),
        "starts": sorted(set(data.start.values.tolist())),
        "numbers": np.unique(data.number).tolist(),
        "seed": int(data.attrs["seed"]),
        "settings": networks.settings.describe(),
        "dtype": data.attrs["dtype"],
    }


def energies_hold(networks: Ensemble) -> bool:
    """Whether the first network of every data set has the recorded energy, on data drawn anew."""
    data, model = networks.data, networks.model
    labels = zip(data.P.values.tolist(), data.data_seed.values.tolist(), strict=True)
    energy = build_energy([draw_dataset(model.at(P=float(P)), seed) for P, seed in labels], dtype="float64")
    W, G = (torch.from_numpy(data[name].values[:, :1].copy()).to(energy.device) for name in ("W", "G"))
    U, _, _ = energy.energy_and_gradient(W, G)
    return bool(np.allclose(U[:, 0].cpu().numpy(), data.U.values[:, 0], rtol=1e-9, atol=0.0, equal_nan=True))


def trained(*trainings: Training) -> Selection:
    """Return the networks of trainings that differ in P and draws only, sorted into lowest minimum and others."""
    if len({(t.model, t.starts, t.members, t.steps) for t in trainings}) != 1:
        raise ValueError("trainings shown together may differ in P and draws only")
    parts = [training.networks().data for training in trainings]
    return select_lowest(Ensemble.of(xr.concat(parts, "dataset", combine_attrs="override")))


def network_rows(selection: Selection) -> pd.DataFrame:
    """Return one row per network: its labels, its fate and its numbers (coverage NaN where there is no pattern)."""
    rows = pd.DataFrame(selection.rows()).sort_values(["P", "data_seed", "start", "number"], ignore_index=True)
    rows["coverage"] = rows["coverage"].where(rows["q"] > NO_PATTERN)
    return rows


def draw_rows(networks: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set: the mean over the networks kept there, which all sit in one minimum."""
    kept = networks[networks["fate"] == "kept"]
    return kept.groupby(["P", "data_seed"], as_index=False).mean(numeric_only=True)
