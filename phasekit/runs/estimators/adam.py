"""Networks trained with Adam, from several starts, on one data set each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from phasekit.model import Model
from phasekit.runs.checkpoint import load_state, save_state
from phasekit.runs.estimators.base import Case, Estimator, Outcome, Place, Stopped


class AdamNetworks(Estimator):
    """Minimise U with Adam; a member is a network. See :func:`phasekit.networks.train` for the settings.

    Parameters
    ----------
    steps, rate, final_rate, decay
        Adam's schedule.
    starts : "uniform", "copy", "random"
        The ends of a first-order window that training begins at.
    members : int
        Networks from each start.
    seed : int
        Of the networks' starts.
    tolerance : float
        When a network counts as converged.
    dtype : "float32" or "float64"
    attention : bool
        Whether to keep the attention matrices (members·L² numbers for each task).
    """

    name: ClassVar[str] = "adam"

    steps: int = Field(1000, ge=1)
    rate: float = Field(0.1, gt=0)
    final_rate: float = Field(1e-5, gt=0)
    decay: Literal["cosine", "exponential"] = "cosine"
    starts: tuple[Literal["uniform", "copy", "random"], ...] = ("uniform", "copy")
    members: int = Field(1, ge=1)
    seed: int = Field(0, ge=0)
    tolerance: float = Field(1e-7, gt=0)
    dtype: Literal["float32", "float64"] = "float32"
    attention: bool = False

    @field_validator("starts")
    @classmethod
    def _some_starts(cls, starts: tuple[str, ...]) -> tuple[str, ...]:
        if not starts or len(set(starts)) != len(starts):
            raise ValueError("must be a list of different starts, with at least one")
        return starts

    def check(self, model: Model) -> None:
        from phasekit.networks.energy import common_model
        from phasekit.networks.task import number_of_sequences

        number_of_sequences(model)
        common_model([model])

    def together(self, model: Model) -> Hashable:
        # The way the energy is computed is chosen for each model by itself, whoever shares its ensemble.
        return model.at(P=None), self._path(model)

    def operations(self, model: Model) -> float:
        V, L, P = model.V, model.L, model.P or 1.0
        members = self.members * len(self.starts)
        if self._path(model) == "moments":
            return self.steps * members * (4.0 * V**2 * L**2 + 2.0 * L**3)
        return self.steps * members * P * (2.0 * L**2 * V + 3.0 * L * V**2)

    @property
    def length(self) -> int:
        return self.steps

    def shortened(self, length: int) -> Estimator:
        return self.model_copy(update={"steps": length})

    def run(self, cases: Sequence[Case], place: Place) -> list[Outcome]:
        from phasekit.networks import Adam, AdamEnsemble, draw_dataset, train_on

        settings = Adam(steps=self.steps, rate=self.rate, final_rate=self.final_rate, decay=self.decay)

        def pause(ensemble: AdamEnsemble) -> None:
            stop = place.must_stop()
            if place.checkpoint is not None and (stop or place.must_save()):
                save_state(place.checkpoint, ensemble.state())
            if stop:
                raise Stopped

        trained = train_on(
            [draw_dataset(model, seed) for model, seed in cases],
            starts=self.starts,
            members=self.members,
            seed=self.seed,
            settings=settings,
            tolerance=self.tolerance,
            dtype=self.dtype,
            device=place.device,
            path=self._path(cases[0][0]),
            state=load_state(place.checkpoint),
            pause=pause,
        )
        data = trained.data
        names = [name for name, variable in data.data_vars.items() if variable.dims == ("dataset", "member")]
        labels = {"start": data.start.values.astype(str), "number": data.number.values}
        about: dict[str, Any] = {name: data.attrs[name] for name in ("dtype", "device", "path")}
        return [
            Outcome(
                values={**labels, **{str(name): np.array(data[name].values[d]) for name in names}},
                arrays={"A": np.array(data.A.values[d])} if self.attention else {},
                about=about,
            )
            for d in range(len(cases))
        ]

    def _path(self, model: Model) -> Any:
        from phasekit.networks.build import moments_are_cheaper
        from phasekit.networks.task import number_of_sequences

        if model.inputs == "token+position":
            return "auto"
        return "moments" if moments_are_cheaper(model.V, model.L, number_of_sequences(model)) else "sequences"
