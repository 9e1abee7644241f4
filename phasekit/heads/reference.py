"""Networks' numbers for a list of models, averaged over data: the column to print beside theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasekit.errors import InputError
from phasekit.heads.adam import Adam
from phasekit.heads.order_parameters import order_parameter_names
from phasekit.heads.selection import FATES, select_lowest
from phasekit.heads.starts import STARTS
from phasekit.heads.train import train
from phasekit.model import Model


@dataclass(frozen=True)
class Preset:
    """How much work to spend on a table.

    Parameters
    ----------
    draws : int
        Data sets for each model.
    starts : tuple of str
        Kinds of start. Random ones need more steps than ordered ones.
    members : int
        Members for each kind of start, on each data set.
    settings : Adam
    """

    draws: int
    starts: tuple[str, ...]
    members: int
    settings: Adam


PRESETS = {
    "quick": Preset(draws=12, starts=("uniform", "copy"), members=1, settings=Adam(steps=500)),
    "full": Preset(draws=24, starts=tuple(STARTS), members=2, settings=Adam(steps=1000)),
}

#: Quantities of a row; the order parameters come on top.
QUANTITIES = ("U", "loss", "coverage")


@dataclass(frozen=True)
class Row:
    """What networks give for one model.

    Attributes
    ----------
    model : Model
    values : dict
        U, loss, coverage and the order parameters (a1, aG or c1, cG): the median over data sets of the mean over the
        members at the lowest minimum. The median, because close to a first-order transition a single data set may
        prefer the other branch.
    errors : dict
        Standard error of each median over data sets, √(π/2)·(standard deviation)/√draws.
    draws : int
        Data sets with at least one kept member.
    counts : dict
        How many members met each fate (see :class:`phasekit.heads.Selection`).
    dtype, device : str
    """

    model: Model
    values: dict[str, float]
    errors: dict[str, float]
    draws: int
    counts: dict[str, int]
    dtype: str
    device: str
    per_draw: dict[str, list[float]] = field(repr=False)

    def flat(self) -> dict[str, Any]:
        """Return one plain dictionary, for CSV: the model, value and error of each quantity, counts, dtype, device."""
        errors = {f"{name}_error": error for name, error in self.errors.items()}
        model = {**self.model.describe(), "score": self.model.score.name}
        return {**model, **self.values, **errors, "draws": self.draws, **self.counts, "dtype": self.dtype,
                "device": self.device}  # fmt: skip


def checked_models() -> list[Model]:
    """Return the models of the map tables in docs/theory.md, section 9."""
    table = [
        ("linear", "positional", 16, (128, 256, 512)),
        ("softmax", "positional", 16, (64, 128, 256, 512)),
        ("linear", "token+position", 24, (96, 192, 384, 768)),
        ("softmax", "token+position", 24, (96, 192)),
    ]
    return [Model(V=8, L=L, P=P, score=score, inputs=inputs) for score, inputs, L, Ps in table for P in Ps]


def table(
    models: Sequence[Model],
    preset: str = "quick",
    *,
    first_draw: int = 0,
    seed: int = 0,
    dtype: str = "float32",
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Train networks for each model on several data sets and return one row a model, in the same order.

    Models that differ in P only are trained at once.

    Parameters
    ----------
    models : sequence of Model, with P
    preset : "quick" or "full"
    first_draw : int
        Seed of the first data set; the others follow.
    seed : int
        Seed of the members' starts.
    dtype, device
        As in :func:`phasekit.heads.train`.
    progress : callable, optional
        Called with (trained models, all models).

    Raises
    ------
    InputError
        For an unknown preset, or anything that :func:`phasekit.heads.train` refuses.
    """
    if preset not in PRESETS:
        raise InputError("preset", preset, f"must be one of {', '.join(PRESETS)}")
    groups: dict[Model, list[int]] = {}
    for index, model in enumerate(models):
        groups.setdefault(model.at(P=None), []).append(index)
    rows: dict[int, Row] = {}
    for indices in groups.values():
        together = [models[i] for i in indices]
        rows.update(zip(indices, _rows(together, PRESETS[preset], first_draw, seed, dtype, device), strict=True))
        if progress is not None:
            progress(len(rows), len(models))
    return [rows[i] for i in range(len(models))]


def _rows(models: list[Model], preset: Preset, first_draw: int, seed: int, dtype: str, device: str) -> list[Row]:
    selection = select_lowest(
        train(
            models,
            data_seeds=range(first_draw, first_draw + preset.draws),
            starts=preset.starts,
            members=preset.members,
            seed=seed,
            settings=preset.settings,
            dtype=dtype,
            device=device,
        )
    )
    names = (*QUANTITIES, *order_parameter_names(models[0].score))
    shape = (len(models), preset.draws)
    values = {name: selection.mean(name).values.reshape(shape) for name in names}
    counts = {fate: selection.counts(fate).reshape(shape).sum(1) for fate in FATES}
    rows = []
    for k, model in enumerate(models):
        kept = np.isfinite(values["U"][k])
        per_draw = {name: values[name][k][kept] for name in names}
        draws = int(kept.sum())
        rows.append(
            Row(
                model=model,
                values={name: float(np.median(x)) if draws else np.nan for name, x in per_draw.items()},
                errors={name: _error_of_median(x) for name, x in per_draw.items()},
                draws=draws,
                counts={fate: int(count[k]) for fate, count in counts.items()},
                dtype=dtype,
                device=str(selection.data.attrs["device"]),
                per_draw={name: x.tolist() for name, x in per_draw.items()},
            )
        )
    return rows


def _error_of_median(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    if values.size < 2:
        return float("nan")
    return float(np.sqrt(np.pi / 2) * values.std(ddof=1) / np.sqrt(values.size))
