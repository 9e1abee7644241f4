"""A made-up thing that is no head, with a procedure of its own: the runner, the store and the collector take it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from phasekit.describe import Description
from phasekit.errors import InputError
from phasekit.runs.procedures import Outcome, Procedure


class Coin(Description):
    """A coin that is thrown."""

    throws: int = Field(ge=1)
    bias: float = Field(0.5, ge=0, le=1)
    metal: str = "silver"


class Throw(Procedure):
    """Throw a coin; a member is a person who throws it."""

    takes: ClassVar[type[Description]] = Coin
    people: int = 2

    def check(self, model: Coin) -> None:
        if model.metal == "cheese":
            raise InputError("metal", model.metal, "coins aren't made of it")

    def run(self, cases: Any, place: Any) -> list[Outcome]:
        return [self.throw(coin, seed) for coin, seed in cases]

    def throw(self, coin: Coin, seed: int) -> Outcome:
        heads = np.random.default_rng([seed, coin.throws]).binomial(coin.throws, coin.bias, self.people)
        return Outcome({"number": np.arange(self.people), "heads": heads})

    @classmethod
    def predict(cls, models: Any) -> list[dict[str, Any]]:
        return [{"theory_heads": coin.throws * coin.bias} for coin in models]
