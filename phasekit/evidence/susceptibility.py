"""Fluctuations of the order parameters over the posterior: do they grow before the transition?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from phasekit.samplers import Samples, diagnose


def susceptibility(samples: Samples, *, rhat_max: float = 1.05, ess_min: float = 100.0) -> xr.Dataset:
    """Return the variance of each order parameter on each data set, well by well.

    Fluctuations about a branch are what the theory's inverse Hessian gives. Two cases need care:

    * coexisting wells: the distance between them is no fluctuation, so that each well has a variance of its own, and
      chains that don't agree at all have none (NaN)
    * linear attention has the symmetry (W, G) → (−W, −G). Below the onset the branch is the origin, and the variance
      the second moment (``variance``). Above, it is the variance with the sign folded out (``folded``), which is
      biased near and below the onset (docs/theory.md, section 3). Both are given.

    Parameters
    ----------
    samples : Samples
    rhat_max, ess_min
        As in :func:`phasekit.samplers.diagnose`.

    Returns
    -------
    xarray.Dataset
        Dimensions ``dataset``, ``well`` (0: lower copy order parameter), ``quantity`` (the two order parameters):
        ``mean``, ``variance`` and ``error`` (its Monte Carlo standard error); with the sign symmetry ``mean`` is 0, and
        ``folded``, ``folded_error`` and ``folded_mean`` come on top. ``verdict`` (dataset).
    """
    diagnosis = diagnose(samples, rhat_max=rhat_max, ess_min=ess_min)
    symmetric = "c1" in samples.posterior
    names = ["c1", "cG"] if symmetric else ["a1", "aG"]
    plain, folded = samples.posterior, samples.folded()
    datasets = range(plain.sizes["dataset"])
    variables = ["mean", "variance", "error", *(["folded_mean", "folded", "folded_error"] if symmetric else [])]
    found = {name: np.full((len(datasets), 2, 2), np.nan) for name in variables}
    for d in datasets:
        for w, well in enumerate(diagnosis.wells[d]):  # none if the chains are not mixed
            for k, name in enumerate(names):
                x, y = (data[name].isel(dataset=d, chain=list(well.chains)) for data in (plain, folded))
                values = [*_spread(x.transpose("chain", "draw").to_numpy(), 0.0 if symmetric else None)]
                if symmetric:
                    values += _spread(y.transpose("chain", "draw").to_numpy(), None)
                for variable, value in zip(variables, values, strict=True):
                    found[variable][d, w, k] = value
    return xr.Dataset(
        {
            **{name: (("dataset", "well", "quantity"), values) for name, values in found.items()},
            "verdict": ("dataset", diagnosis.table.verdict.to_numpy()),
        },
        {"quantity": names, "P": plain.P, "data_seed": plain.data_seed},
    )


def _spread(x: NDArray[np.float64], about: float | None) -> tuple[float, float, float]:
    """Return mean, mean square deviation from it (or from ``about``), and that one's Monte Carlo error."""
    from arviz_stats import sampling_diagnostics  # here, because it takes a second

    statistics: Any = sampling_diagnostics
    mean = float(x.mean()) if about is None else about
    squares = (x - mean) ** 2
    return mean, float(squares.mean()), float(statistics.mcse(squares, method="mean"))
