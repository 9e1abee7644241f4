"""Draws of an ensemble as inference data: an xarray tree in ArviZ's layout, saved as netCDF."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import xarray as xr

from phasekit.errors import InputError
from phasekit.heads.members import Members
from phasekit.samplers.methods import Method, get_method
from phasekit.samplers.observables import ODD
from phasekit.show import Table


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Members):
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

    FORMAT: ClassVar[str] = "phasekit samples 1"
    FILE: ClassVar[str] = "samples file"

    def table(self) -> Table:
        """Return mean and standard deviation of what no symmetry changes, over all draws of each data set."""
        data = self.invariants()
        names = [name for name in ("loss", "a1", "aG", "c1_c1", "cG_cG", "coverage") if name in data]
        rows = []
        for d in range(data.sizes["dataset"]):
            one = data.isel(dataset=d)
            spread = (f"{float(one[name].mean()):.4g} ± {float(one[name].std()):.2g}" for name in names)
            rows.append((int(one.P), int(one.data_seed), *spread))
        sizes = f"{data.sizes['chain']} chains × {data.sizes['draw']} draws"
        notes = ["± standard deviation over draws; phasekit.samplers.diagnose says whether the chains agree"]
        return Table(f"{sizes} of {self.model!r}", ["P", "data seed", *names], rows, notes)

    @property
    def posterior(self) -> xr.Dataset:
        """The draws."""
        return self.tree["posterior"].to_dataset()

    @cached_property
    def method(self) -> Method:
        """The sampler and its settings."""
        return get_method(json.loads(self.tree.attrs["method"]))

    def final(self) -> dict[str, np.ndarray]:
        """Return where the chains ended: for heads W and G, by name, shapes (datasets, chains, ...).

        Raises
        ------
        InputError
            If these samples don't say.
        """
        if "final" not in self.tree.children:
            raise InputError("samples", "without a group 'final'", "don't say where their chains ended")
        ends = self.tree["final"].data_vars
        arrays = {str(name): x.transpose("dataset", "chain", ...).to_numpy() for name, x in ends.items()}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

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

    @classmethod
    def from_draws(
        cls,
        names: tuple[str, ...],
        draws: np.ndarray,
        chain: dict[str, np.ndarray],
        dataset: dict[str, np.ndarray],
        statistics: dict[str, np.ndarray],
        attributes: dict[str, str | int | float],
        final: Mapping[str, np.ndarray] | None = None,
        attention: np.ndarray | None = None,
    ) -> Self:
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
        groups = {"/": xr.Dataset(attrs={"format": cls.FORMAT, **attributes}), "posterior": posterior}
        if statistics:
            stats = {name: (("chain", "dataset"), values.T) for name, values in statistics.items()}
            groups["sample_stats"] = xr.Dataset(stats, coordinates)
        if final is not None:
            named = {name: (("chain", "dataset", *_axes(name, x)), x.swapaxes(0, 1)) for name, x in final.items()}
            groups["final"] = xr.Dataset(named, coordinates)
        if attention is not None:
            A = (("chain", "dataset", "query", "key"), attention.swapaxes(0, 1))
            groups["attention"] = xr.Dataset({"A": A}, coordinates)
        return cls(xr.DataTree.from_dict(groups))


def _axes(name: str, array: np.ndarray) -> tuple[str, ...]:
    """Name what comes behind (dataset, member) in an array of parameters."""
    known = {("W", 4): ("in", "out"), ("G", 4): ("query", "key"), ("G", 5): ("factor", "dimension", "input")}
    return known.get((name, array.ndim)) or tuple(f"{name}_{k}" for k in range(array.ndim - 2))
