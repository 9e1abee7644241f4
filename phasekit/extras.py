"""Packages that not everybody needs: which extra of phasekit brings each, and one line where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from phasekit.errors import InputError

#: Module to the extra that installs it: ``pip install 'phasekit[networks]'``.
EXTRA_OF = {
    "torch": "networks",
    "entmax": "networks",
    "transformers": "lm",
    "tokenizers": "lm",
    "datasets": "lm",
    "accelerate": "lm",
    "lm_eval": "lm",
    "pymbar": "evidence",
    "dask": "cluster",
    "distributed": "cluster",
    "dask_jobqueue": "cluster",
    "pyarrow": "parquet",
}


def require(*modules: str) -> None:
    """Check that packages are installed, before any work is done that needs them.

    Raises
    ------
    InputError
        One line that names the first package that is missing, and the extra that brings it.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(module)


def missing(module: str) -> InputError:
    """Return the error that says how to install a package."""
    return InputError("package", module, f"not installed; pip install 'phasekit[{EXTRA_OF[module]}]' brings it")
