"""Agreement with an independent implementation: SGLD of the package ``posteriors``."""

import warnings

import numpy as np
import pytest
import torch

from phasekit.samplers import sgld
from tests.samplers import checks, targets

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies, about their own future
    import posteriors


def their_sgld(target, step, temperature, per):
    """That package recommends log_posterior = -U/N at temperature 1/N; its lr is then N times phasekit's step."""

    def log_posterior(theta, batch):
        return -target.u(theta).sum() / per, torch.tensor([])

    return posteriors.sgmcmc.sgld.build(log_posterior, lr=step * per, temperature=temperature / per)


@pytest.mark.parametrize("per", [1.0, 50.0])
def test_the_same_chain_without_noise(per):
    target = targets.skewed(4)
    theta = torch.linspace(-1, 1, 4, dtype=torch.float64)[:, None]
    kernel, theirs = sgld.build(target, checks.keys(4, 0), step=0.1, temperature=0.0), their_sgld(target, 0.1, 0.0, per)
    a, b = kernel.init({"x": theta}), theirs.init(theta)
    for _ in range(20):
        a, (b, _) = kernel.update(a), theirs.update(b, None)
        torch.testing.assert_close(a.position["x"], b.params, rtol=1e-13, atol=1e-14)


def test_the_same_law(seed):
    """Both against the stationary law of the discretised chain, and so against each other."""
    chains, size, step, temperature, per = 16, 96, 0.15, 0.8, 50.0
    target = targets.skewed(chains, size)
    expected = targets.stationary_law_of_sgld(target, step, checks.MOMENTS, temperature)
    theirs = their_sgld(target, step, temperature, per)
    torch.manual_seed(seed)
    state = theirs.init(torch.zeros(chains, size, dtype=torch.float64))
    draws = []
    for n in range(250):
        state, _ = theirs.update(state, None)
        if n >= 100:
            draws.append(state.params.flatten())
    checks.means(torch.stack(draws).numpy(), checks.MOMENTS, expected, largest_error=0.03)

    kernel = sgld.build(target, checks.keys(chains, seed), step=step, temperature=temperature)
    ours = kernel.init({"x": torch.zeros(chains, size)})
    for _ in range(100):
        ours = kernel.update(ours, inplace=True)
    checks.means(checks.trace(kernel, ours, 150), checks.MOMENTS, expected, largest_error=0.03)
    assert np.isfinite(expected).all()
