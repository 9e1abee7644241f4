"""Do a score's numbers and its formulas say the same? For scores of one's own, before a theory answers for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from phasekit.errors import InputError
from phasekit.scores.base import Score
from phasekit.scores.composite import Composite

if TYPE_CHECKING:
    import sympy

#: Rows of one raised logit: that logit and the others in tenths, and how many there are. Small and large logits of
#: either sign, so that a clip or a piece that only one side knows shows.
_ROWS = ((14, -2, 4), (1, 0, 5), (-3, 2, 3), (45, -5, 7), (-60, 10, 4), (150, -10, 12))
_RELATIVE, _ABSOLUTE = 1e-9, 1e-14


def promise(kept: bool, score: Score, what: str) -> None:
    """Raise InputError unless a promise of the contract is kept."""
    if not kept:
        raise InputError("score", type(score).__name__, f"breaks the contract: {what}")


def check_own(score: Score) -> None:
    """Check the consistency of a score that isn't this package's, once for each description.

    Raises
    ------
    InputError
        As :func:`check_consistency`, also for a component of a mixture.
    """
    if isinstance(score, Composite):
        for component in score.scores:
            check_own(component)
    elif not type(score).__module__.startswith("phasekit."):
        _check_once(score)


def check_consistency(score: Score) -> None:
    """Hold ``rows`` against ``symbolic_two_level`` at a few rows, and see that larger logits don't weigh less.

    A score without ``rows``, or without a closed form, says nothing that could disagree.

    Raises
    ------
    InputError
        One line that says which promise is broken.
    """
    for tenths, others, count in _ROWS:
        rows, expected = _numeric(score, tenths / 10, others / 10, count), _symbolic(score, tenths, others, count)
        if rows is None or expected is None:
            continue
        agree = all(abs(a - b) <= _RELATIVE * abs(b) + _ABSOLUTE for a, b in zip(rows, expected, strict=True))
        row = f"one logit {tenths / 10:g} and {count - 1} of {others / 10:g}"
        numbers, formula = (f"{a:.6g} and {b:.6g}" for a, b in (rows, expected))
        words = f"symbolic_two_level is the row of one raised logit: for {row} rows gives {numbers}, SymPy {formula}"
        promise(agree, score, words)
    if score.normalised:
        _rises(score)


_check_once: Callable[[Score], None] = cache(check_consistency)


def _rises(score: Score) -> None:
    """Raise InputError if a logit that is a little above equal others has less weight than they."""
    for tenths, sign in ((1, 1), (-1, -1)):
        weights = _numeric(score, tenths / 10, 0.0, 5) or _symbolic(score, tenths, 0, 5)
        if weights is not None:
            words = "of nearly equal logits a larger one doesn't weigh less (theory looks for copying at larger ones)"
            promise(sign * (weights[0] - weights[1]) >= -_ABSOLUTE, score, words)


def _numeric(score: Score, raised: float, others: float, count: int) -> tuple[float, float] | None:
    """Return the weights of the raised logit and of another one; None if it gives none."""
    import torch

    try:
        row = score.rows(torch.tensor([[raised] + [others] * (count - 1)], dtype=torch.float64))[0]
        return float(row[0]), float(row[1])
    except (InputError, NotImplementedError):  # it may want an axis of heads
        return None
    except Exception as error:  # whatever the user's code raises
        raise _broken(score, "rows", error) from None


def _symbolic(score: Score, raised: int, others: int, count: int) -> tuple[float, float] | None:
    """Return the same from the formula, logits in tenths; None where there is no closed form."""
    import sympy

    u, v = sympy.Rational(raised, 10), sympy.Rational(others, 10)
    formula: Callable[..., tuple[sympy.Expr, sympy.Expr]] = score.symbolic_two_level
    try:
        first, second = formula(u, v, sympy.Integer(count))
        return float(first), float(second)
    except (InputError, NotImplementedError):
        return None
    except Exception as error:
        raise _broken(score, "symbolic_two_level", error) from None


def _broken(score: Score, method: str, error: Any) -> InputError:
    return InputError("score", type(score).__name__, f"its {method} fails: {type(error).__name__}: {error}")
