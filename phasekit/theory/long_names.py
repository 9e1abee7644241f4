"""What the variables of computed datasets are, in words: the ``long_name`` that xarray, netCDF and pictures know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


_NAMES = {
    "P": "number of training sequences",
    "V": "vocabulary size",
    "L": "context length",
    "sigma_w": "prior standard deviation of W",
    "sigma_g": "prior standard deviation of G",
    "kappa": "temperature of the squared error",
    "action": "effective action",
    "loss": "training loss per sequence and position",
    "c1": "order parameter of pooling",
    "cG": "order parameter of copying",
    "a1": "order parameter of pooling",
    "aG": "order parameter of copying",
    "copying_share": "copying share g^2/q of the attention pattern",
    "phase": "phase of the global minimum",
    "converged": "whether the minimum converged",
    "failed": "whether the search failed",
    "lines_failed": "whether the search for the lines failed",
    "minima": "number of local minima",
    "lead": "action of the second minimum minus that of the first",
    "spinodals": "P at which the first and the second minimum end",
    "barrier": "action of the saddle point minus that of the minima",
    "softest": "lowest Hessian eigenvalue along the curve of stationary points, whitened",
    "gradient": "norm of the gradient, whitened",
    "tilt": "change of the lowest eigenvalue per unit of ln g",
    "count": "number of local minima",
    "coverage": "share of the attention matrix that pooling and copying explain",
    "gradient_norm": "norm of the gradient, whitened",
    "curvatures": "Hessian eigenvalues, whitened, ascending",
    "start": "where the search for the minimum began",
    "s": "mean row sum",
    "s2": "mean squared row sum",
    "g": "copy overlap",
    "q": "squared norm of the attention matrix / L",
    "local_exponent": "d ln P/d ln of the axis",
}


def with_long_names(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset with a ``long_name`` for every variable and axis, and ``units`` for numbers."""
    from phasekit.theory.transitions.course import THRESHOLDS

    for name in map(str, dataset.variables):
        bare = name.removeprefix("line_").removeprefix("closed_")
        threshold = THRESHOLDS.get(bare)
        words = threshold.meaning if threshold is not None else _NAMES.get(bare, bare.replace("_", " "))
        dataset[name].attrs["long_name"] = f"{words}, closed form" if name.startswith("closed_") else words
        if dataset[name].dtype.kind in "fiu":
            dataset[name].attrs["units"] = "1"  # all quantities are dimensionless
    return dataset
