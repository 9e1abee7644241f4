"""Networks under a mask: the energy by plain loops, its gradient, and the theory's front in trained heads."""

import numpy as np
import pytest
import torch

from phasekit.heads import Adam, build_energy, train
from phasekit.heads.starts import draw_start, pattern_of
from phasekit.masks import MASKS
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.minima import find_minima


def plain_energy(model, tokens, W, G):
    """U by loops over sequences and the positions that see their target."""
    places = [i for i in range(model.L) if model.mask.counted(model.L)[i]]
    error = 0.0
    for sequence in tokens:
        for i in places:
            seen = [j for j in range(model.L) if model.mask.visible(model.L)[i, j]]
            weights = np.exp(G[i, seen]) / np.exp(G[i, seen]).sum()
            output = sum(a * W[sequence[j]] for a, j in zip(weights, seen, strict=True))
            error += ((np.eye(model.V)[sequence[i - 1]] - output) ** 2).sum()
    prior = (W**2).sum() / (2 * model.sigma_w**2) + (G**2).sum() / (2 * model.sigma_g**2)
    return error / (2 * model.kappa * len(places)) + prior


@pytest.mark.parametrize("path", ["moments", "sequences"])
@pytest.mark.parametrize("mask", ["causal", "window:3"])
def test_the_energy_is_that_of_plain_loops(mask, path):
    model = Model(V=3, L=6, P=9, mask=mask, kappa=0.6, sigma_w=1.3, sigma_g=0.8)
    data = draw_dataset(model, 2)
    energy = build_energy([data], dtype="float64", device="cpu", path=path)
    random = torch.Generator().manual_seed(1)
    W, G = (torch.randn(1, 2, n, n, generator=random, dtype=torch.float64) for n in (3, 6))
    U, dW, dG = energy.energy_and_gradient(W, G)
    for member in range(2):
        wanted = plain_energy(model, data.tokens, W[0, member].numpy(), G[0, member].numpy())
        assert float(U[0, member]) == pytest.approx(wanted, rel=1e-12)
    step = 1e-6 * torch.randn(1, 2, 6, 6, generator=random, dtype=torch.float64)
    up, down = (energy.energy_and_gradient(W, G + sign * step)[0] for sign in (1, -1))
    assert torch.allclose((up - down) / 2, (dG * step).sum((2, 3)), rtol=1e-5, atol=1e-14)
    step = 1e-6 * torch.randn(1, 2, 3, 3, generator=random, dtype=torch.float64)
    up, down = (energy.energy_and_gradient(W + sign * step, G)[0] for sign in (1, -1))
    assert torch.allclose((up - down) / 2, (dW * step).sum((2, 3)), rtol=1e-5, atol=1e-14)
    by_position = energy.position_losses(W, G)
    assert torch.allclose(by_position.sum(-1) / 5, energy.averages(W, G).loss)
    assert (by_position[..., 0] == 0).all()


def test_a_start_copies_in_its_first_positions():
    model = Model(V=4, L=12, P=50, mask="causal")
    _, G = draw_start(model, "copy:5", 0, 0)
    raised = np.diagonal(G, -1) > 1
    assert raised.tolist() == [True] * 4 + [False] * 7
    for wrong in ("copy:", "copy:x", "uniform:3", "none"):
        with pytest.raises(ValueError, match="must be one of uniform, copy, random, copy:K"):
            pattern_of(wrong)


def test_sampled_masks_are_all_masks():
    assert set(MASKS.names()) == {"none", "causal", "window"}


@pytest.mark.slow
def test_trained_heads_have_the_theory_s_front():
    """V = 8, L = 32, two data sets, from both ends: U within 0.5 %, copy weights within 5 % of their largest."""
    models = [Model(V=8, L=32, P=P, mask="causal") for P in (250, 400)]
    settings = Adam(steps=1500, rate=0.05)
    found = train(
        models, data_seeds=(0, 1), starts=("uniform", "copy"), members=1, settings=settings, device="cpu"
    ).data
    theory = find_minima(Model(V=8, L=32, mask="causal").grid(P=[250, 400]))
    lowest = found.U.values.min(1).reshape(2, 2).mean(1)
    assert lowest == pytest.approx(theory.action[:, 0], rel=5e-3)
    for k in range(2):
        best = [found.A.values[d][found.U.values[d].argmin()] for d in (2 * k, 2 * k + 1)]
        copied = np.mean([np.diagonal(A, -1) for A in best], axis=0)
        assert np.abs(copied - theory.positions["copy"][k, 0]).max() < 0.05
        assert found.g.values[2 * k : 2 * k + 2].mean() == pytest.approx(theory.averages["g"][k, 0], rel=0.05)
