"""The theory itself, as a task: sweeps over models without any network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phasekit.model import Model
from phasekit.runs.procedures.base import Case, Outcome, Procedure, Workplace


class TheoryMinima(Procedure):
    """All minima of the effective action, lowest first; a member is a minimum. The data seed plays no role."""

    name: ClassVar[str] = "theory"

    def check(self, model: Model) -> None:
        from phasekit.theory.action import action_for

        action_for(model, self.theory)

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        return [self._minima(model) for model, _ in cases]

    def _minima(self, model: Model) -> Outcome:
        from phasekit.theory.minima import find_minima

        found = find_minima(model, self.theory)
        values = {
            "U": found.action,
            "loss": found.loss,
            "gradient_norm": found.gradient_norm,
            "converged": found.converged,
            **found.order_parameters,
            **found.averages,
        }
        rows = {name: np.broadcast_to(x, found.action.shape).copy() for name, x in values.items()}
        return Outcome({"number": np.arange(len(found.action)), **rows}, about={"dtype": "float64"})
