"""Draws of an ensemble as inference data: an xarray tree in ArviZ's layout, saved as netCDF."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from phasekit.errors import InputError
from phasekit.files import write_netcdf
from phasekit.model import Model
from phasekit.samplers.methods import Method, get_method
from phasekit.samplers.observables import ODD

_FORMAT = "phasekit samples 1"


@dataclass(frozen=True, eq=False)
class Samples:
    """Draws of heads: chains times draws times data sets.

    Attributes
    ----------
    tree : xarray.DataTree
        ArviZ's layout: every function of ArviZ takes it, or the file made of it. Groups:

        * ``posterior``: dimensions chain, draw, dataset; coordinates ``start``, ``number`` of a chain, ``P`` and
          ``data_seed`` of a data set; variables ``a1, aG`` (``c1, cG`` for linear attention), ``coverage``, ``s``,
          ``s2``, ``g``, ``q``, ``loss``, ``U``: see docs/theory.md, sections 1-3
        * ``sample_stats``: for HMC ``step_size`` and ``acceptance``, dimensions chain and dataset
        * ``final``: where the chains ended, ``W`` (chain, dataset, in, out) and ``G`` (chain, dataset, query, key);
          of factorised heads W_Q and W_K, ``G`` (chain, dataset, factor, dimension, input)
        * ``attention``, if it was asked for: ``A`` (chain, dataset, query, key), averaged over the draws (and over
          the data with token+position inputs). For linear attention each draw's sign is chosen so that c₁ + c_G ≥ 0

        Attributes of the root: ``model`` (JSON, without P), ``method`` (JSON), ``seed``, ``warmup``, ``thin``,
        ``dtype``, ``device``, ``path`` and the version.
    """

    tree: xr.DataTree

    @property
    def posterior(self) -> xr.Dataset:
        """The draws."""
        return self.tree["posterior"].to_dataset()

    @property
    def model(self) -> Model:
        """The model, without P."""
        return Model(**json.loads(self.tree.attrs["model"]))

    @property
    def method(self) -> Method:
        """The sampler and its settings."""
        return get_method(json.loads(self.tree.attrs["method"]))

    def final(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where the chains ended: W and G, shapes (datasets, chains, ...).

        Raises
        ------
        InputError
            If these samples don't say.
        """
        if "final" not in self.tree.children:
            raise InputError("samples", "without a group 'final'", "don't say where their chains ended")
        group = self.tree["final"]
        W, G = (group[name].transpose("dataset", "chain", ...).to_numpy() for name in ("W", "G"))
        return np.ascontiguousarray(W), np.ascontiguousarray(G)

    def invariants(self) -> xr.Dataset:
        """Return the draws of what no symmetry of the model changes.

        Linear attention is symmetric under (W, G) → (-W, -G), so that c1, cG, s and g average to 0 over the posterior,
        and chains that differ in sign only have not failed to mix. Their places are taken by the second moments
        ``c1_c1``, ``c1_cG``, ``cG_cG``, unbiased whatever the phase (folding draws to c1 + cG ≥ 0 would shift c1 by
        √(2/π)/L where it is 0; docs/theory.md, section 3).
        """
        data = self.posterior
        if "c1" not in data:
            return data
        squares = {f"{a}_{b}": data[a] * data[b] for a, b in (("c1", "c1"), ("c1", "cG"), ("cG", "cG"))}
        return data.drop_vars(ODD).assign(squares)

    def folded(self) -> xr.Dataset:
        """Return the draws, those of linear attention with the sign that makes c1 + cG ≥ 0.

        To look at in the ordered phase. Near and below its onset this biases c1 and cG: see :meth:`invariants`.
        """
        data = self.posterior
        if "c1" not in data:
            return data
        sign = 1.0 - 2.0 * (data.c1 + data.cG < 0)
        return data.assign({name: sign * data[name] for name in ODD})

    def save(self, path: str | Path) -> None:
        """Write netCDF, whole or not at all; ``xarray.open_datatree`` and ``arviz.from_netcdf`` read it too.

        Numbers carry a checksum (HDF5's Fletcher-32), which reading them verifies.

        Raises
        ------
        InputError
            If the path can't be written to.
        """
        write_netcdf(self.tree, path, encoding=_checksums(self.tree))

    @classmethod
    def load(cls, path: str | Path) -> Samples:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing or is something else.
        """
        try:
            tree = xr.load_datatree(path, engine="h5netcdf")
        except (OSError, ValueError) as error:
            raise InputError("samples file", str(path), f"can't be read ({error})") from None
        if tree.attrs.get("format") != _FORMAT:
            raise InputError("samples file", str(path), f"must be a {_FORMAT!r} file")
        return cls(tree)

    @classmethod
    def from_draws(
        cls,
        names: tuple[str, ...],
        draws: np.ndarray,
        chain: dict[str, np.ndarray],
        dataset: dict[str, np.ndarray],
        statistics: dict[str, np.ndarray],
        attributes: dict[str, str | int | float],
        final: tuple[np.ndarray, ...] | None = None,
        attention: np.ndarray | None = None,
    ) -> Samples:
        """Label draws of shape (draws, observables, D, M); everything else per chain has shape (D, M, ...)."""
        coordinates = {
            "chain": np.arange(draws.shape[3]),
            **{name: ("chain", values) for name, values in chain.items()},
            **{name: ("dataset", values) for name, values in dataset.items()},
        }
        posterior = xr.Dataset(
            {name: (("chain", "draw", "dataset"), draws[:, k].transpose(2, 0, 1)) for k, name in enumerate(names)},
            {**coordinates, "draw": np.arange(draws.shape[0])},
        )
        groups = {"/": xr.Dataset(attrs={"format": _FORMAT, **attributes}), "posterior": posterior}
        if statistics:
            stats = {name: (("chain", "dataset"), values.T) for name, values in statistics.items()}
            groups["sample_stats"] = xr.Dataset(stats, coordinates)
        if final is not None:
            W, G = (part.swapaxes(0, 1) for part in final)
            of_G = ("query", "key") if G.ndim == 4 else ("factor", "dimension", "input")
            parts = {"W": (("chain", "dataset", "in", "out"), W), "G": (("chain", "dataset", *of_G), G)}
            groups["final"] = xr.Dataset(parts, coordinates)
        if attention is not None:
            A = (("chain", "dataset", "query", "key"), attention.swapaxes(0, 1))
            groups["attention"] = xr.Dataset({"A": A}, coordinates)
        return cls(xr.DataTree.from_dict(groups))


def _checksums(tree: xr.DataTree) -> dict[str, dict[str, dict[str, bool]]]:
    """Return the encoding that gives every array of numbers a checksum."""

    def checked(group: xr.DataTree) -> dict[str, dict[str, bool]]:
        arrays = {str(name): x for name, x in group.data_vars.items() if x.ndim and x.size and x.dtype.kind in "fiub"}
        return {name: {"fletcher32": True} for name in arrays}

    return {group.path: checked(group) for group in tree.subtree}
