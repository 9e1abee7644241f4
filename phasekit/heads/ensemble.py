"""A trained ensemble: what every member ended up as, in one labelled data set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from phasekit.heads.adam import Adam
from phasekit.heads.members import Members
from phasekit.show import Table

#: What a table of heads shows of what was measured.
_SHOWN = ("U", "loss", "a1", "aG", "c1", "cG", "alpha1", "alpha2", "coverage")


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(Members):
    """Trained heads: data sets times members.

    Attributes
    ----------
    data : xarray.Dataset
        Dimensions ``dataset`` (coordinates ``P``, ``data_seed``) and ``member`` (coordinates ``start``, ``number``).
        For each member, evaluated in float64 at the end of training:

        * ``U``, ``loss``: energy; mean over positions and sequences of ‖y - f‖²
        * ``gradient_norm``, ``excess``: ‖∇U‖; and the estimate ½(σ_w²‖∂U/∂W‖² + σ_g²‖∂U/∂G‖²) of U's distance to its
          minimum, exact where the priors are the only curvature
        * ``converged``, ``failed``: excess within tolerance of U; not finite (then all else is NaN)
        * ``a1, aG`` (``c1, cG`` for linear attention), ``coverage``, ``s``, ``s2``, ``g``, ``q``
        * ``W``, ``G``, and ``A``: the attention matrix, averaged over the data with token+position inputs
        * for induction ``alpha1``, ``alpha2`` (weights of the previous token in layer 1, of the right key in layer 2)
          in place of the order parameters, ``W``, ``G1``, ``G2``, and ``A`` of layer 1
        * with a mask ``copy`` and ``position_loss``: the weight on the token to be copied and the loss of each
          position, 0 where it doesn't count

        Attributes: ``model`` (JSON, without P), ``settings`` (JSON), ``seed``, ``tolerance``, ``steps``, ``dtype``,
        ``device``, ``path`` (how the energy was computed) and the version.
    """

    FORMAT: ClassVar[str] = "phasekit trained ensemble 1"
    FILE: ClassVar[str] = "ensemble file"

    @classmethod
    def of(cls, data: xr.Dataset) -> Self:
        """Return the ensemble that a labelled data set describes."""
        return cls(xr.DataTree(data))

    @property
    def data(self) -> xr.Dataset:
        """The labelled data set."""
        return self.tree.to_dataset()

    def table(self) -> Table:
        """Return means over the members of each P and start, with how many converged and how many failed."""
        frame = pd.DataFrame(self.rows())
        names = [name for name in _SHOWN if name in frame]
        rows = [
            (P, start, len(part), int(part.converged.sum()), int(part.failed.sum()), *(part[x].mean() for x in names))
            for (P, start), part in frame.groupby(["P", "start"], sort=False)
        ]
        title = f"{len(frame)} trained heads of {self.model!r}"
        return Table(title, ["P", "start", "heads", "converged", "failed", *names], rows)

    @property
    def settings(self) -> Adam:
        """The optimiser's settings."""
        return Adam(**json.loads(self.data.attrs["settings"]))

    def rows(self) -> list[dict[str, Any]]:
        """Return one plain dictionary a member: its labels and numbers, and where and how it was computed."""
        data = self.data
        names = [name for name, variable in data.variables.items() if set(variable.dims) == {"dataset", "member"}]
        shared = {name: data.attrs[name] for name in ("seed", "steps", "dtype", "device", "path")}
        return [
            {
                "P": int(data.P[d]),
                "data_seed": int(data.data_seed[d]),
                "start": str(data.start.values[m]),
                "number": int(data.number[m]),
                **{str(name): data[name].values[d, m].item() for name in names},
                **shared,
            }
            for d in range(data.sizes["dataset"])
            for m in range(data.sizes["member"])
        ]

    @classmethod
    def from_arrays(
        cls,
        dataset: dict[str, Any],
        member: dict[str, Any],
        arrays: dict[str, np.ndarray[Any, Any]],
        attributes: dict[str, Any],
    ) -> Self:
        """Label arrays of shape (datasets, members, ...)."""
        trailing: dict[str, tuple[str, ...]] = {"W": ("token", "output"), "G": ("query_input", "key_input")}
        trailing |= {"A": ("query", "key"), "copy": ("query",), "position_loss": ("query",)}
        trailing |= {"G1": ("query", "key"), "G2": ("query_token", "key_token")}
        variables = {name: (("dataset", "member", *trailing.get(name, ())), values) for name, values in arrays.items()}
        coordinates = {
            **{name: ("dataset", values) for name, values in dataset.items()},
            **{name: ("member", values) for name, values in member.items()},
        }
        return cls.of(xr.Dataset(variables, coordinates, {"format": cls.FORMAT, **attributes}))
