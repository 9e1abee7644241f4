"""The loops and umbrella windows of the sweep ``evidence``, which all figures of the evidence share.

One sweep up and down in P for each attention: its means show hysteresis, its draws the peaks, its fluctuations the
susceptibility and what early warning would have said.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from figures._sweeps import results
from phasekit.drawing.presets import Preset
from phasekit.evidence import Loop
from phasekit.model import Model
from phasekit.runs.procedures.hysteresis import Hysteresis
from phasekit.runs.procedures.umbrella import Umbrella


def loops(preset: Preset) -> Iterator[tuple[Model, Loop]]:
    """Yield the model, without P, and both ways of each sweep: of linear, then of softmax attention."""
    for task, found in results(preset, "evidence"):
        if isinstance(task.procedure, Hysteresis):
            yield task.head.at(P=None), task.procedure.loop({(task.head, task.data_seed): found})


def umbrella_windows(preset: Preset) -> tuple[Model, xr.Dataset]:
    """Return the model, with its P, and the draws of its windows over aG."""
    for task, found in results(preset, "evidence"):
        if isinstance(task.procedure, Umbrella):
            return task.head, task.procedure.sampled((task.head, task.data_seed), found)
    raise LookupError("no umbrella windows in sims/evidence.toml")


def over_chains(values: xr.DataArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean over chains and draws of one data set, and its standard error over independent chains."""
    means = values.isel(dataset=0).mean("draw")
    n = means.sizes["chain"]
    return means.mean("chain").to_numpy(), (means.std("chain", ddof=1) / np.sqrt(n)).to_numpy()
