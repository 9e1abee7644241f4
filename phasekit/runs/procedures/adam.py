"""Networks trained with Adam, from several starts, on one data set each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from phasekit.model import Copy, Induction, Task
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Workplace
from phasekit.runs.procedures.heads import StartedHeads


class AdamNetworks(StartedHeads):
    """Minimise U with Adam; a member is a network. See :func:`phasekit.heads.train` for the settings.

    Parameters
    ----------
    steps, rate, final_rate, decay
        Adam's schedule.
    starts, members, seed
        See :class:`phasekit.runs.procedures.heads.StartedHeads`.
    tolerance : float
        When a network counts as converged.
    dtype : "float32" or "float64"
    attention : bool
        Whether to keep the attention matrices (members·L² numbers for each task; for induction those of layer 1).
    """

    name: ClassVar[str] = "adam"
    tasks: ClassVar[tuple[type[Task], ...]] = (Copy, Induction)

    steps: int = Field(1000, ge=1)
    rate: float = Field(0.1, gt=0)
    final_rate: float = Field(1e-5, gt=0)
    decay: Literal["cosine", "exponential"] = "cosine"
    tolerance: float = Field(1e-7, gt=0)
    dtype: Literal["float32", "float64"] = "float32"
    attention: bool = False

    @property
    def length(self) -> int:
        return self.steps

    def shortened(self, length: int) -> Procedure:
        return self.model_copy(update={"steps": length})

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        from phasekit.heads import Adam, train
        from phasekit.heads.build import choose_path
        from phasekit.tasks import draw

        trained = place.resuming(
            lambda: train(
                [draw(model, seed) for model, seed in cases],
                starts=self.starts,
                members=self.members,
                seed=self.seed,
                settings=Adam(steps=self.steps, rate=self.rate, final_rate=self.final_rate, decay=self.decay),
                tolerance=self.tolerance,
                dtype=self.dtype,
                device=place.device,
                path=choose_path(cases[0][0]),
                checkpoint=place.checkpoint,
                pause=place.pause,
            )
        )
        data = trained.data
        names = [name for name, variable in data.data_vars.items() if variable.dims == ("dataset", "member")]
        labels = {"start": data.start.values.astype(str), "number": data.number.values}
        kept = [*(["A"] if self.attention else []), *(name for name in ("copy", "position_loss") if name in data)]
        about: dict[str, Any] = {name: data.attrs[name] for name in ("dtype", "device", "path")}
        return [
            Outcome(
                values={**labels, **{str(name): np.array(data[name].values[d]) for name in names}},
                arrays={name: np.array(data[name].values[d]) for name in kept},
                about=about,
            )
            for d in range(len(cases))
        ]
