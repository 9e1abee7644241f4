"""Free minimisation over all of (G₁, G₂), W at its best, on every sequence and query there is.

The theory looks at two parameters only. Here nothing is assumed about the weights, and no data are drawn.
"""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit.model import Model
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


class EveryQuestion:
    def __init__(self, model):
        self.model, V = model, model.V
        self.x = torch.eye(V, dtype=torch.float64)[torch.tensor(list(permutations(range(V), model.L)))]

    def action(self, flat):
        model, x = self.model, self.x
        L, V = model.L, model.V
        first, second = flat[: L * L].view(L, L), flat[L * L :].view(V, V)
        keys = first.softmax(-1) @ x
        collected = ((x @ second @ keys.mT).softmax(-1) @ x).reshape(-1, V)
        targets = x.roll(-1, 1).reshape(-1, V)
        M, N = (collected.T @ other / len(collected) for other in (collected, targets))
        ridge = torch.eye(V, dtype=torch.float64) * (model.kappa / (model.P * model.sigma_w**2))
        gain = (N * torch.linalg.solve(M + ridge, N)).sum()
        return model.P / (2 * model.kappa) * (1 - gain) + flat.square().sum() / (2 * model.sigma_g**2)

    def descend(self, start):
        def value(flat):
            at = torch.tensor(flat, requires_grad=True)
            S = self.action(at)
            S.backward()
            return S.item(), at.grad.numpy()

        return minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 1e-15}).fun

    def patterns(self, found):
        """Return the weights of the theory's minima."""
        V, L = self.model.V, self.model.L
        shift = np.roll(np.eye(L), -1, axis=1) - 1 / L
        pairs = zip(*(found.coordinates[name][: int(found.count)] for name in ("gap", "match")), strict=True)
        return [np.concatenate([(a * shift).ravel(), (b * (np.eye(V) - 1 / V)).ravel()]) for a, b in pairs]


def check(V, L, times, starts, seed):
    threshold = find_transitions(Model(V=V, L=L, task="induction")).threshold("P_star")
    model = Model(V=V, L=L, P=times * threshold, task="induction")
    found, exact, rng = find_minima(model), EveryQuestion(model), np.random.default_rng(seed)
    patterns = exact.patterns(found)
    size = patterns[0].size
    for pattern, action in zip(patterns, found.action, strict=False):  # each is a minimum among all weights
        assert exact.descend(pattern + 0.05 * rng.standard_normal(size)) == pytest.approx(action, rel=1e-6)
    ends = [exact.descend((0.3, 1, 2, 4)[k % 4] * rng.standard_normal(size)) for k in range(starts)]
    assert min(ends) > found.action[0] * (1 - 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("times", [0.8, 1.1, 3.0])
def test_nothing_is_lower_than_the_theory(times):
    check(4, 4, times, 12, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("sizes", [(4, 4), (5, 5), (6, 4)])
@pytest.mark.parametrize("times", [0.8, 1.1, 3.0, 20.0])
def test_nothing_is_lower_than_the_theory_from_many_starts(sizes, times):
    check(*sizes, times, 60, 2)


def test_layer_1_may_see_distances():
    """With relative positions G₁ is one row for all, and its pattern costs an L-th: all weights again."""
    plain, relative = (Model(V=5, L=4, P=40.0, task="induction", encoding=e) for e in (None, "relative"))
    exact, found = EveryQuestion(plain), find_minima(relative)
    assert find_minima(plain).count == 1 < found.count
    for pattern, action in zip(exact.patterns(found), found.action, strict=False):
        spared = (1 - 1 / plain.L) * (pattern[: plain.L**2] ** 2).sum() / 2
        assert float(exact.action(torch.tensor(pattern))) - spared == pytest.approx(action, rel=1e-12)
