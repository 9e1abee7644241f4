"""Tasks that take a known time: what the runner costs is all that they show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phasekit.model import Model
from phasekit.runs.procedures import Case, Outcome, Procedure, Workplace


class Busy(Procedure):
    """Keep a core busy for ``seconds`` of its own time a task."""

    name: ClassVar[str] = "benchmarks._busy:Busy"

    seconds: float = 0.001

    def operations(self, model: Model) -> float:
        return self.seconds

    def run(self, cases: Sequence[Case], place: Workplace) -> list[Outcome]:
        outcomes = []
        for model, seed in cases:
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                pass
            outcomes.append(Outcome({"number": np.arange(2), "U": np.array([float(seed), model.V])}))
        return outcomes
