"""Token+position inputs: how far the stated state lies above the minimum over all of G and W, by all V^L sequences."""

import itertools

import numpy as np
import pytest
import torch

from phasekit.model import Model
from phasekit.theory.minima import find_minima


def free_minimum(model, starts):
    """The lowest energy that L-BFGS finds from copying positions and noise; the readout is the best for each G."""
    V, L = model.V, model.L
    x = torch.eye(V, dtype=torch.float64)[torch.tensor(list(itertools.product(range(V), repeat=L)))]
    inputs = torch.cat([x, torch.eye(L, dtype=torch.float64).expand(len(x), L, L)], -1)
    y, ridge = x.roll(1, 1), model.kappa / (model.P * model.sigma_w**2)
    copy = torch.eye(L, dtype=torch.float64).roll(-1, 1)

    def energy(G):
        H = inputs @ G @ inputs.mT
        read = (H.softmax(-1) if model.score.name == "softmax" else H / L) @ x
        M = (read.mT @ read).sum(0) / (len(x) * L) + ridge * torch.eye(V)
        N = (y.mT @ read).sum(0) / (len(x) * L)
        gained = (torch.linalg.solve(M, N.T) * N.T).sum()
        return model.P / (2 * model.kappa) * (1 - gained) + (G**2).sum() / (2 * model.sigma_g**2)

    lowest = np.inf
    for seed in range(starts):
        G = 0.3 * torch.randn(V + L, V + L, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        G[V:, V:] += 2 * copy.T
        G.requires_grad_()
        search = torch.optim.LBFGS([G], max_iter=400, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

        def closure(G=G, search=search):
            search.zero_grad()
            value = energy(G)
            value.backward()
            return value

        search.step(closure)
        lowest = min(lowest, float(energy(G.detach())))
    return lowest


@pytest.mark.parametrize(("P", "stated", "exact"), [(20, 4.0687, 3.8490), (30, 5.0587, 4.6914), (40, 5.7518, 5.2889)])
def test_small_systems_gain_from_the_token_block(P, stated, exact):
    model = Model(V=2, L=4, P=P, inputs="token+position")
    found = find_minima(model)
    assert "token-token block" in found.caveat
    assert found.action[0] == pytest.approx(stated, abs=1e-3)
    assert free_minimum(model, 3) == pytest.approx(exact, abs=2e-3)


def test_no_caveat_without_token_block():
    assert find_minima(Model(V=2, L=4, P=20)).caveat is None
