"""Theory of scores of one's own: a clip, which has a kink, and functions that only SciPy knows."""

import numpy as np
import pytest
import sympy
import torch

from phasekit import Model, find_minima, find_transitions
from phasekit.scores.elementwise import ElementwiseSoftmax


class Clipped(ElementwiseSoftmax):
    """Softmax of logits that are cut off."""

    name: str = "clipped"
    limit: float = 6.0

    def transform(self, z, **values):
        return z.clamp(-self.limit, self.limit)

    def symbolic_transform(self, x, **values):
        return sympy.Piecewise((-self.limit, x < -self.limit), (self.limit, x > self.limit), (x, True))


class Raised(ElementwiseSoftmax):
    """Softmax of x + erf x."""

    name: str = "raised"

    def transform(self, z, **values):
        return z + torch.erf(z)

    def symbolic_transform(self, x, **values):
        return x + sympy.erf(x)


def test_a_clip_beyond_the_jump_changes_nothing():
    clipped, plain = (find_transitions(Model(V=8, L=64, score=score)) for score in (Clipped(), "softmax"))
    assert clipped.order == "first"
    assert clipped.threshold("P_star") == pytest.approx(plain.threshold("P_star"), rel=1e-9)


def test_what_is_not_found_is_never_none():
    """Cut off below the copying minimum: the curve of stationary points ends in a kink that isn't known."""
    with pytest.raises(ArithmeticError, match="search failed"):
        find_transitions(Model(V=8, L=64, score=Clipped(limit=1.0)))


def test_functions_of_scipy():
    model = Model(V=8, L=64, score=Raised())
    found = find_transitions(model)
    assert found.order == "first"
    (passage,) = found.passages
    aG = find_minima(model.grid(P=[passage.P * (1 - 1e-6), passage.P * (1 + 1e-6)])).order_parameters["aG"][:, 0]
    np.testing.assert_allclose(aG, passage.jump["aG"], rtol=1e-4)
