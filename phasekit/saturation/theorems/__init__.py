"""The saturation theorems of softmax and SSA, in the order of docs/saturation.md."""

from phasekit.errors import InputError
from phasekit.saturation.theorem import Theorem
from phasekit.saturation.theorems import crossover, exponential, floor, imbalance, magnification, tail

THEOREMS: tuple[Theorem, ...] = (
    *magnification.THEOREMS,
    *floor.THEOREMS,
    *imbalance.THEOREMS,
    *tail.THEOREMS,
    *crossover.THEOREMS,
    *exponential.THEOREMS,
)


def get_theorem(name: str) -> Theorem:
    """Return a theorem by its name.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    for theorem in THEOREMS:
        if theorem.name == name:
            return theorem
    raise InputError("theorem", name, f"must be one of {', '.join(theorem.name for theorem in THEOREMS)}")
