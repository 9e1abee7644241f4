"""Made-up networks with a first-order transition at P* = 2 L^1.25: two branches within 5 % of it, one elsewhere."""

from typing import ClassVar

import numpy as np

from phasekit.runs.procedures import Outcome, Procedure

EXPONENT = 1.25


class MadeUp(Procedure):
    name: ClassVar[str] = "tests.measure.networks:MadeUp"

    def run(self, cases, place):
        return [self.networks(model, seed) for model, seed in cases]

    def networks(self, model, seed):
        distance = model.P / (2 * model.L**EXPONENT) - 1
        random = np.random.default_rng([seed, model.L, int(model.P)])
        both = abs(distance) < 0.05
        advantage = -model.L * (distance + 2 * distance**2 + 0.002 * random.standard_normal())
        high, low = np.array([0.2, 0.02]) + 0.002 * random.standard_normal(2)
        uniform, copy = (low, high) if both else (high, high) if distance > 0 else (low, low)
        return Outcome(
            {
                "start": np.array(["uniform", "copy", "random"]),
                "U": np.array([100.0, 100.0 + (advantage if both else 0.0), 99.0]),
                "aG": np.array([uniform, copy + 1e-4, 0.5]),  # never quite the same
                "converged": np.array([True, True, False]),
                "failed": np.zeros(3, dtype=bool),
            }
        )
