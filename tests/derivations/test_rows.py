"""From score objects to two-level rows."""

from collections.abc import Sequence

import pytest
import sympy as sp
import torch

from phasekit.derivations.rows import UnknownRowLaw, two_level_row
from phasekit.derivations.symbols import L
from phasekit.scores import Linear, Score, Softmax


@pytest.mark.parametrize("score", [Linear(), Softmax()])
def test_weights_are_those_of_the_torch_row_map(score: Score) -> None:
    length, high, low = 11, 1.3, -0.4
    weights = score.rows(torch.tensor([[high] + [low] * (length - 1)], dtype=torch.float64))[0]
    copy, other = (float(w.subs(L, length)) for w in two_level_row(score, sp.Float(high), sp.Float(low)))
    assert copy == pytest.approx(float(weights[0]), rel=1e-14)
    assert other == pytest.approx(float(weights[-1]), rel=1e-14)


def test_a_score_with_another_law_is_refused() -> None:
    class Sharpened(Softmax):
        """Softmax with a temperature that depends on the length."""

        def symbolic_rows(self, logits: Sequence[sp.Expr]) -> list[sp.Expr]:
            return super().symbolic_rows([h * len(logits) for h in logits])

    with pytest.raises(UnknownRowLaw, match="another law"):
        two_level_row(Sharpened(), sp.Symbol("u"), sp.Symbol("v"))
