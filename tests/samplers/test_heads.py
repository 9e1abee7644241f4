"""Ensembles of heads as targets: exact moments by brute force, and members that don't depend on their company."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import build_energy, draw_starts
from phasekit.model import Model
from phasekit.samplers import HMC, SGLD, HeadsTarget, hmc, langevin, sample, sgld
from phasekit.tasks.copy import draw_dataset
from tests.samplers import checks

CPU = torch.device("cpu")


def heads(models, members, dtype="float64"):
    energy = build_energy([draw_dataset(model, 0) for model in models], dtype=dtype, device="cpu")
    return HeadsTarget(energy, members)


def importance_sampling(dataset, draws, seed):
    """Moments under exp(-U) from draws of the prior, weighted by the likelihood; a forward pass of its own.

    Returns
    -------
    mean and standard error of loss, q = ‖A‖²/L and ‖W‖²; and the weights' effective number
    """
    model, random = dataset.model, np.random.default_rng(seed)
    V, L, P = model.V, model.L, len(dataset.tokens)
    W = model.sigma_w * random.standard_normal((draws, V, V))
    G = model.sigma_g * random.standard_normal((draws, L, L))
    if model.key_dim is not None:
        factors = (model.sigma_g / model.key_dim**0.5) ** 0.5 * random.standard_normal((2, draws, L, model.key_dim))
        G = factors[0] @ factors[1].transpose(0, 2, 1)
    A = np.exp(G) / np.exp(G).sum(2, keepdims=True) if model.score.name == "softmax" else G / L
    loss = np.zeros(draws)
    for sequence in dataset.tokens:
        for i in range(L):
            output = np.einsum("nj,njb->nb", A[:, i], W[:, sequence])
            output[:, sequence[i - 1]] -= 1
            loss += (output**2).sum(1) / (P * L)
    weights = np.exp(-P * loss / (2 * model.kappa))
    weights /= weights.sum()
    values = np.stack([loss, (A**2).sum((1, 2)) / L, (W**2).sum((1, 2))])
    mean = values @ weights
    return mean, np.sqrt(((values - mean[:, None]) ** 2) @ weights**2), 1 / (weights**2).sum()


@pytest.mark.parametrize(("score", "key_dim"), [("softmax", None), ("linear", None), ("softmax", 1), ("linear", 2)])
def test_hmc_against_importance_sampling(score, key_dim, seed):
    model = Model(V=2, L=3, P=6, score=score, sigma_w=0.8, sigma_g=1.3, kappa=0.7, key_dim=key_dim)
    dataset = draw_dataset(model, 0)
    expected, error, effective = importance_sampling(dataset, 20_000, seed)
    assert effective > 1500
    chains = 200
    target = heads([model], chains)
    kernel = hmc.build(target, checks.keys(chains, seed), step=0.35, leaps=5)
    starts = [("random", number) for number in range(chains)]
    state = kernel.init(draw_starts([model], starts, 0, torch.float64, CPU))
    draws = []
    for n in range(120):
        state = kernel.update(state, inplace=True)
        if n >= 30:
            W, G = state.position["W"], state.position["G"]
            averages = target.energy.averages(W, G)
            draws.append(torch.stack([averages.loss[0], averages.q[0], W[0].square().sum((1, 2))]))
    of_chains = torch.stack(draws).mean(0).numpy()
    own = of_chains.std(1, ddof=1) / np.sqrt(chains)
    assert (own < 0.03 * expected).all()
    assert (np.abs(of_chains.mean(1) - expected) < checks.Z * np.hypot(own, error)).all()


def test_without_noise_heads_descend_bitwise():
    model = Model(V=4, L=5, P=50, sigma_w=0.5, sigma_g=2.0)
    target = heads([model], 3)
    begin = draw_starts([model], [("random", k) for k in range(3)], 0, torch.float64, CPU)
    kernel = sgld.build(target, checks.keys(3, 0), step=1e-3, temperature=0.0)
    state, W, G = kernel.init(begin), begin["W"], begin["G"]
    for _ in range(30):
        state = kernel.update(state)
        _, dW, dG = target.energy.energy_and_gradient(W, G)
        W, G = W.add(dW, alpha=-1e-3 * 0.25), G.add(dG, alpha=-1e-3 * 4.0)
        assert torch.equal(state.position["W"], W)
        assert torch.equal(state.position["G"], G)


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (sgld, {"step": 1e-3}),
        (langevin, {"step": 0.02, "friction": 1.0}),
        (hmc, {"step": 0.05, "leaps": 4, "adapt": 10}),
    ],
)
def test_splitting_an_ensemble_changes_no_member(module, settings):
    """The noise is the same bitwise (see test_noise.py); products of shared kernels may round differently."""
    models = [Model(V=4, L=6, P=P) for P in (30, 200)]
    starts = [("random", k) for k in range(5)]
    keys = [[(seed, P, k) for k in range(5)] for seed, P in ((0, 30), (0, 200))]
    everyone = draw_starts(models, starts, 0, torch.float64, CPU)

    def run(models, keys, position, members):
        kernel = module.build(heads(models, members), keys, **settings)
        state = kernel.init(position)
        for _ in range(25):
            state = kernel.update(state, inplace=True)
        return state.position

    together = run(models, keys[0] + keys[1], everyone, 5)
    for d, some in ((0, [3]), (1, [4, 0])):
        position = {name: part[d : d + 1, some] for name, part in everyone.items()}
        apart = run(models[d : d + 1], [keys[d][k] for k in some], position, len(some))
        for name, part in apart.items():
            torch.testing.assert_close(part[0], together[name][d, some], rtol=1e-9, atol=1e-10)


def test_float32_follows_float64():
    """Their noise differs; descent without noise doesn't."""
    model = Model(V=4, L=5, P=50)
    ends = []
    for dtype in ("float32", "float64"):
        kernel = sgld.build(heads([model], 2, dtype), checks.keys(2, 0), step=1e-3, temperature=0.0)
        state = kernel.init(draw_starts([model], [("copy", 0), ("random", 0)], 0, torch.float64, CPU))
        for _ in range(50):
            state = kernel.update(state)
        assert state.position["W"].dtype == getattr(torch, dtype)
        ends.append(state.position["G"].double())
    torch.testing.assert_close(*ends, rtol=1e-4, atol=1e-5)


def test_factorised_heads_are_sampled_and_refuse_minibatches():
    model = Model(V=3, L=4, P=20, key_dim=2)
    found = sample(model, HMC(step=0.2, leaps=3), draws=4, warmup=4, attention=True)
    assert found.model.key_dim == 2
    assert found.final()["G"].shape == (1, 4, 2, 2, 4)
    assert np.isfinite(found.posterior.aG).all()
    np.testing.assert_allclose(found.tree["attention"]["A"].sum("key"), 1)
    with pytest.raises(InputError, match="minibatches are for heads with key_dim None only"):
        sample(model, SGLD(step=1e-3, batch=4), draws=1)
