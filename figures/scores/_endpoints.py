"""Endpoints under the posterior: a minute or more each, so they are computed once and kept in ``build/runs``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from figures._cache import file_of, kept
from phasekit import __version__
from phasekit.files import atomic
from phasekit.model import Model
from phasekit.scores import SSA
from phasekit.theory.transitions import Family, critical_endpoint

POSTERIOR = "$V$ = 8, $b$ = 1, posterior"
#: Contexts.
CONTEXTS = {"quick": (16,), "full": (16, 32, 64)}
BETWEEN = (1.2, 6.0)
_COLUMNS = ["L", "n", "P"]


def posterior_endpoints(preset: str) -> pd.DataFrame:
    """Return n_c and P_c of SSA (V = 8, b = 1) under the posterior."""
    return pd.concat([_endpoint(L) for L in CONTEXTS[preset]], ignore_index=True)


def _endpoint(L: int) -> pd.DataFrame:
    model = Model(V=8, L=L, score=SSA(n=2, b=1))

    def compute() -> pd.DataFrame:
        found = critical_endpoint(model, Family("n", BETWEEN), "posterior")
        return pd.DataFrame([{"L": L, "n": float(found["n"]), "P": float(found["P"])}])

    def save(table: pd.DataFrame, path: Path) -> None:
        with atomic(path) as temporary:
            table.to_csv(temporary, index=False)

    description = {"phasekit": __version__, "endpoint": model.describe(), "between": BETWEEN, "estimator": "posterior"}
    file = file_of(description).with_suffix(".csv")
    return kept(file, load=pd.read_csv, holds=lambda table: list(table) == _COLUMNS, compute=compute, save=save)
