"""Sweeps and umbrella windows that the figures of the evidence share: each is sampled once and kept in ``build/runs``.

One sweep up and down in P for each attention serves all of them: its means show hysteresis, its draws the peaks, its
fluctuations the susceptibility and what early warning would have said.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from figures._cache import file_of, kept
from figures.posterior.posterior_transitions import LINEAR, SOFTMAX
from phasekit import __version__
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop, hysteresis_loop, umbrella, windows
from phasekit.files import write_netcdf
from phasekit.model import Model
from phasekit.samplers import HMC, Langevin, Method
from phasekit.tasks.copy import draw_dataset

#: Around the onset, P1 = 230; below, between and above the spinodals, 1363 and 1778, with P* = 1437 between.
SWEEP_P = {
    LINEAR: (40, 70, 100, 130, 160, 180, 200, 220, 240, 270, 320, 400, 560),
    SOFTMAX: (400, 550, 700, 850, 1000, 1150, 1300, 1437, 1550, 1650, 1750, 1850, 2000, 2300, 2700),
}
#: Chains each way, and draws at each P.
SWEEP_EFFORT = {"quick": (12, 60), "full": (32, 200)}
#: Umbrella windows, chains from each end in each of them, and their draws.
UMBRELLA_EFFORT = {"quick": (20, 1, 200), "full": (32, 2, 600)}


@dataclass(frozen=True)
class Kept:
    """Something sampled from a model, described by plain numbers."""

    model: Model
    method: Method
    draws: int
    members: int
    warmup: int
    dtype: str

    def describe(self) -> dict[str, Any]:
        """Return everything that the result depends on; data by a checksum, so that other data are noticed."""
        settings = {name: value for name, value in vars(self).items() if name not in ("model", "method")}
        return {
            "kind": type(self).__name__,
            "phasekit": __version__,
            "model": self.model.describe(),
            "method": self.method.describe(),
            "data": [zlib.crc32(draw_dataset(self.model.at(P=float(P)), 0).tokens.tobytes()) for P in self.sizes()],
            **settings,
        }

    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the data sets."""
        raise NotImplementedError

    def sample(self) -> xr.Dataset:
        """Sample anew."""
        raise NotImplementedError

    def data(self) -> xr.Dataset:
        """Return the draws, from their file or by sampling."""
        about = json.dumps(self.describe(), sort_keys=True)
        return kept(
            file_of(self.describe()),
            load=_load,
            holds=lambda found: found.attrs["about"] == about,
            compute=lambda: self.sample().assign_attrs(about=about),
            save=_save,
        )


@dataclass(frozen=True)
class Sweeping(Kept):
    """A sweep up and down on one data set for each P."""

    P: tuple[int, ...]
    thin: int

    def sizes(self) -> tuple[int, ...]:
        return self.P

    def sample(self) -> xr.Dataset:
        settings = {name: getattr(self, name) for name in ("draws", "thin", "warmup", "members", "dtype")}
        return hysteresis_loop(self.model, self.P, self.method, device="cpu", **settings).data

    def loop(self) -> Loop:
        """Return both ways."""
        return Loop(self.model, self.data())


@dataclass(frozen=True)
class Windows(Kept):
    """Umbrella windows on one data set, over all wells of the theory."""

    count: int

    def sizes(self) -> tuple[int, ...]:
        return (round(self.model.P or 0),)

    def sample(self) -> xr.Dataset:
        if not isinstance(self.method, HMC):
            raise TypeError("umbrella windows are sampled by HMC")
        centres, stiffness = windows(self.model, self.count)
        settings = {name: getattr(self, name) for name in ("draws", "warmup", "members", "dtype")}
        return umbrella(self.model, centres, stiffness, self.method, device="cpu", **settings)


def sweeping(model: Model, preset: Preset) -> Sweeping:
    """Return the sweep of linear or softmax attention that all figures share.

    BAOAB at steps below its limit 2/√curvature, 0.13 for softmax; a draw every eight updates.
    """
    members, draws = SWEEP_EFFORT[preset.name]
    step, dtype = (0.1, "float64") if model == LINEAR else (0.08, "float32")
    return Sweeping(
        model, Langevin(step=step), draws=draws, members=members, warmup=120, dtype=dtype, P=SWEEP_P[model], thin=8
    )


def umbrella_windows(P: int, preset: Preset) -> Windows:
    """Return windows of softmax attention over aG."""
    count, members, draws = UMBRELLA_EFFORT[preset.name]
    method = HMC(step=0.05, leaps=16)
    return Windows(SOFTMAX.at(P=float(P)), method, draws, members, warmup=60, dtype="float32", count=count)


def over_chains(values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over chains and draws of one data set, and its standard error over independent chains."""
    means = values.isel(dataset=0).mean("draw")
    n = means.sizes["chain"]
    return means.mean("chain").to_numpy(), (means.std("chain", ddof=1) / np.sqrt(n)).to_numpy()


def _load(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="h5netcdf") as data:
        return data.load()


def _save(data: xr.Dataset, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_netcdf(data, path)
