"""What a theorem is: a quantity, bounds on it, and the hypotheses under which they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasekit.errors import InputError
from phasekit.saturation.arithmetic.balls import Ball, Balls
from phasekit.saturation.arithmetic.base import Arithmetic, Number
from phasekit.saturation.arithmetic.intervals import Intervals, digits, ends
from phasekit.saturation.domain import Domain, Inputs, count, select
from phasekit.show import Shown, Table

if TYPE_CHECKING:
    from phasekit.derivations.steps import Derivation

Side = Literal["lower", "upper", "identity"]

#: Digits of the intervals that decide what float64 can't.
DIGITS = 80
#: Largest rounding error of a quantity (a logarithm, mostly) with which float64 is believed, relative to 1 + its size.
TRUSTED = 1e-10


class Point:
    """The inputs of a theorem, as numbers of one arithmetic (``x["lam"]``) and as the floats that they are exactly.

    Formulas branch on ``exact`` only. Logits are sorted in descending order, so that the winner is column 0.
    """

    def __init__(self, numbers: Mapping[str, Number], exact: Inputs) -> None:
        self._numbers, self.exact = numbers, exact

    @classmethod
    def lifted(cls, xp: Arithmetic, exact: Inputs) -> Point:
        """Return the point whose numbers are exactly these floats."""
        return cls({name: xp.lift(values) for name, values in exact.items()}, exact)

    def __getitem__(self, name: str) -> Number:
        return self._numbers[name]


#: A quantity as a function of the inputs: shape (rows, 1), or (rows, keys) if it belongs to single keys.
Formula = Callable[[Arithmetic, Point], Number]


@dataclass(frozen=True)
class Hypothesis:
    """A condition of a theorem.

    Attributes
    ----------
    field : str
        The input it speaks about.
    allowed : str
        The condition in words, as an error message ends: "must be above 0".
    holds : callable
        From inputs to a boolean array that broadcasts to (rows, 1) or (rows, keys).
    """

    field: str
    allowed: str
    holds: Callable[[Inputs], NDArray[np.bool_]]


@dataclass(frozen=True, repr=False)
class Theorem(Shown):
    """Bounds on a quantity, as functions of inputs that satisfy hypotheses.

    Attributes
    ----------
    name, title : str
    section : str
        The section of docs/saturation.md.
    statement : str
        The claim, in the field's notation.
    quantity : str
        What ``value`` computes and the bounds bound.
    hypotheses : tuple of Hypothesis
    value : Formula
        The quantity by its definition.
    lower, upper : Formula, optional
        The bounds. Equal bounds state an identity.
    domain : Domain
        Where the theorem is verified.
    """

    name: str
    title: str
    section: str
    statement: str
    quantity: str
    hypotheses: tuple[Hypothesis, ...]
    value: Formula
    lower: Formula | None
    upper: Formula | None
    domain: Domain

    def table(self) -> Table:
        """Return the claim, its hypotheses, and where it is verified."""
        rows = [("quantity", self.quantity), ("claim", self.statement), ("sides", self.sides)]
        rows += [("hypothesis", f"{one.field} {one.allowed}") for one in self.hypotheses]
        return Table(f"{self.title} ({self.name})", ["", ""], [*rows, ("verified over", str(self.domain))])

    @property
    def sides(self) -> tuple[Side, ...]:
        """What is claimed: a lower bound, an upper bound, or that both are the quantity itself."""
        if self.lower is not None and self.lower is self.upper:
            return ("identity",)
        found: tuple[Side, ...] = ("lower",) if self.lower is not None else ()
        return (*found, "upper") if self.upper is not None else found

    def bound(self, side: Side) -> Formula | None:
        """Return the formula of a bound."""
        return self.upper if side == "upper" else self.lower

    @property
    def proof(self) -> Derivation:
        """The proof: what ``phasekit derive NAME`` prints. SymPy carries it out when its steps are asked for.

        Raises
        ------
        InputError
            If there is no proof under the theorem's name.
        """
        from phasekit.derivations.saturation.proofs import PROOFS

        if self.name not in PROOFS:
            raise InputError("theorem", self.name, f"has no proof; proven are {', '.join(PROOFS)}")
        return PROOFS[self.name]

    def inputs(self, **given: ArrayLike) -> Inputs:
        """Bring inputs into the form that formulas take, and check the hypotheses.

        Parameters
        ----------
        **given : arrays
            Rows of logits have shape (keys,) or (rows, keys), all else is a number or has shape (rows,).

        Returns
        -------
        dict of str to array
            Logits of shape (rows, keys) in descending order; all else of shape (rows, 1).

        Raises
        ------
        InputError
            If an input is missing or unknown, isn't finite, or violates a hypothesis.
        """
        inputs = self.domain.shape(given)
        for hypothesis in self.hypotheses:
            with np.errstate(over="ignore", invalid="ignore"):
                broken = ~np.asarray(hypothesis.holds(inputs))
            if broken.any():
                raise InputError(hypothesis.field, _first(inputs[hypothesis.field], broken), hypothesis.allowed)
        return inputs

    def satisfied(self, inputs: Inputs) -> NDArray[np.bool_]:
        """Return for every row whether all hypotheses hold; inputs as :meth:`inputs` returns them."""
        rows = len(next(iter(inputs.values())))
        held = np.ones(rows, dtype=bool)
        for hypothesis in self.hypotheses:
            held &= np.broadcast_to(np.asarray(hypothesis.holds(inputs)).all(axis=-1), rows)
        return held

    def evaluate(self, **given: ArrayLike) -> NDArray[np.float64]:
        """Return the quantity, after checking the hypotheses. Inputs as for :meth:`inputs`.

        Raises
        ------
        InputError
            As :meth:`inputs`, and for inputs at which the quantity is beyond float64.
        """
        return _floats(self.value, self.inputs(**given))

    def bounds(self, **given: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bound, after checking the hypotheses; −inf and inf where there is none.

        Inputs and errors as for :meth:`evaluate`.
        """
        inputs = self.inputs(**given)
        lower = _floats(self.lower, inputs) if self.lower else np.array([[-np.inf]])
        upper = _floats(self.upper, inputs) if self.upper else np.array([[np.inf]])
        lower, upper = np.broadcast_arrays(lower, upper)
        return lower, upper


def _floats(formula: Formula, inputs: Inputs) -> NDArray[np.float64]:
    """Return a formula in float64; rows in which that overflows or cancels on the way are computed with more digits.

    Raises
    ------
    InputError
        Where the formula's number is beyond float64. (Bounds that are infinite by definition say so exactly.)
    """
    balls = Balls()
    with np.errstate(all="ignore"):  # branches that aren't taken may be undefined
        found = Ball.of(formula(balls, Point.lifted(balls, inputs)))
        mid = np.broadcast_to(found.mid, (count(inputs), found.mid.shape[-1])).copy()
        infinite = np.isinf(mid) & (found.rad == 0)
        known = (infinite | _is_known(mid, found.rad)).all(axis=-1)
        for precision in (DIGITS, 10 * DIGITS):
            rows = np.flatnonzero(~known)
            if len(rows):
                low, high = _ends(formula, select(inputs, rows), precision)
                mid[rows] = np.where(low == high, low, low / 2 + high / 2)
                known[rows] = (infinite[rows] | _is_known(mid[rows], high - low)).all(axis=-1)
                if (~infinite & np.isinf(mid)).any():  # more digits don't bring it back
                    break
    if not known.all():
        at = {name: values[~known][0].tolist() for name, values in inputs.items()}
        raise InputError("inputs", at, "lie beyond what float64 can hold")
    return mid


def _is_known(mid: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(mid) & (error <= TRUSTED * (1 + np.abs(mid)))


def _ends(formula: Formula, inputs: Inputs, precision: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both ends of the intervals that a formula gives with so many digits; NaN where it gives none."""
    with digits(precision):
        xp = Intervals()
        try:
            return ends(np.atleast_2d(formula(xp, Point.lifted(xp, inputs))))
        except ArithmeticError:
            return (np.full((count(inputs), 1), np.nan),) * 2


def _first(values: NDArray[np.float64], broken: NDArray[np.bool_]) -> Any:
    """Return the first row, or the first entry, that breaks a hypothesis."""
    row = int(np.argwhere(broken.reshape(len(broken), -1).any(axis=-1))[0, 0]) if len(broken) == len(values) else 0
    return values[row].tolist() if values.shape[-1] > 1 else float(values[row, 0])
