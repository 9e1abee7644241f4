"""An archived result beside the same task computed again: what agrees, how far, and what can't be compared.

Trained networks are deterministic but for last digits, which differ between processors. A network that converged, to
the same energy (:data:`phasekit.fates.SAME_ENERGY`), must have the same order parameters to a relative 1e-3. Near a
fold a last digit may decide which minimum a network ends in; networks with another energy are counted as "elsewhere".
Chains diverge from such a digit on, so that their means agree only within their Monte Carlo errors: averages over the
chains of a task must agree within five standard errors of the difference. Where chains aren't mixed, their errors say
nothing, and they are counted as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasekit.fates import SAME_ENERGY
from phasekit.runs.procedures.draws import Kept

#: Tolerances: relative, of deterministic numbers; in standard errors, of averages over chains.
RELATIVE, ABSOLUTE, SIGMAS = 1e-3, 1e-6, 5.0

Values = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Comparison:
    """One task, archived and computed again.

    Attributes
    ----------
    members : of the task: networks, chains, quantities
    identical : whether every number is the same to the last bit
    elsewhere : members that ended in another minimum, or nowhere
    unmixed : members of chains that aren't mixed
    relative : largest relative deviation of deterministic numbers; NaN if there are none
    sigmas : largest deviation of averages over chains, in standard errors; NaN if there are none
    wrong : what disagrees, in words; empty if nothing does
    """

    members: int
    identical: bool
    elsewhere: int = 0
    unmixed: int = 0
    relative: float = np.nan
    sigmas: float = np.nan
    wrong: list[str] = field(default_factory=list)


def compare(archived: Kept, again: Kept, residues: tuple[str, ...] = ()) -> Comparison:
    """Compare an archived result with the same task computed again; ``residues`` aren't compared."""
    old, new = archived.values, again.values
    members = len(next(iter(old.values())))
    if {name: x.shape for name, x in old.items()} != {name: x.shape for name, x in new.items()}:
        return Comparison(members, False, wrong=["other columns, or members"])
    identical = all(np.array_equal(old[name], new[name], equal_nan=old[name].dtype.kind == "f") for name in old)
    if errors := errors_of(again):
        return _chains(old, new, errors, members, identical)
    return _networks(old, new, residues, members, identical)


def errors_of(kept: Kept) -> dict[str, NDArray[np.float64]]:
    """Return the Monte Carlo standard error of every member's mean, by column; nothing for what isn't sampled.

    They are the columns ``NAME_mcse``, or come from the draws that were kept as ``draws_NAME``.
    """
    from arviz_stats import sampling_diagnostics

    values = kept.values
    errors = {name: values[f"{name}_mcse"] for name in values if f"{name}_mcse" in values}
    if {"mean", "mcse"} <= values.keys():
        errors["mean"] = values["mcse"]
    mcse: Any = sampling_diagnostics.mcse
    for name, draws in kept.arrays.items():
        column = name.removeprefix("draws_")
        if name.startswith("draws_") and column in values and column not in errors and draws.shape[1] > 3:
            errors[column] = np.array([float(mcse(chain[None].astype(float), method="mean")) for chain in draws])
    return errors


def _networks(old: Values, new: Values, residues: tuple[str, ...], members: int, identical: bool) -> Comparison:
    """Compare networks, or anything else without randomness of its own, one by one."""
    same, there = np.ones(members, dtype=bool), np.ones(members, dtype=bool)
    if {"U", "converged"} <= old.keys():
        there = (abs(new["U"] - old["U"]) <= SAME_ENERGY * abs(old["U"])) | (np.isnan(new["U"]) & np.isnan(old["U"]))
        same = there & old["converged"].astype(bool) & new["converged"].astype(bool)
    largest, wrong = np.nan, []
    for name, x in old.items():
        if x.dtype.kind != "f" or name in residues or not same.any():
            continue
        a, b = x[same], new[name][same]
        scale = np.fmax(abs(a), ABSOLUTE / RELATIVE)
        away = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, abs(a - b) / scale)
        worst = float(np.where(np.isnan(away), np.inf, away).max())
        largest = np.fmax(largest, worst)
        if worst > RELATIVE:
            wrong.append(f"{name} by {worst:.1g} of itself")
    return Comparison(members, identical, elsewhere=int((~there).sum()), relative=float(largest), wrong=wrong)


def _chains(
    old: Values, new: Values, errors: Mapping[str, NDArray[np.float64]], members: int, identical: bool
) -> Comparison:
    """Compare averages over chains that differ in nothing but their random numbers."""
    mixed = np.ones(members, dtype=bool)
    if "verdict" in old:
        mixed = (old["verdict"] == "mixed") & (new["verdict"] == "mixed")
    labels = [name for name, x in old.items() if x.dtype.kind in "Ui" and name not in ("number", "start", "well")]
    keys = np.array([" ".join(f"{old[name][k]}" for name in labels) for k in range(members)])
    largest, wrong = np.nan, []
    for key in np.unique(keys[mixed]):
        rows = mixed & (keys == key)
        for name, error in errors.items():
            spread = np.sqrt(2 * np.sum(error[rows] ** 2)) / rows.sum()
            distance = float(abs(old[name][rows].mean() - new[name][rows].mean()))
            if not (np.isfinite(spread) and spread > 0):
                continue
            sigmas = distance / spread
            largest = np.fmax(largest, sigmas)
            if sigmas > SIGMAS:
                wrong.append(f"{name} by {sigmas:.1f} standard errors")
    return Comparison(members, identical, unmixed=int((~mixed).sum()), sigmas=float(largest), wrong=wrong)
