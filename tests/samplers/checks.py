"""What samplers must fulfil. Each check raises AssertionError; the tests give right and deliberately wrong samplers.

Chains are independent and start from their stationary law where it is known. Bounds are numbers of standard errors: Z
for a single number.

Flake rate, measured with ``python -m tests.samplers.flake --first 100 --seeds 100``, torch 2.13.0 on a CPU: 0 failures
in 3500 runs (below 0.1 % a run, at 95 % confidence).
"""

import numpy as np
import torch

Z = 5.0


def keys(chains, seed):
    return [(seed, chain) for chain in range(chains)]


def trace(kernel, state, updates, every=1):
    """Run on; return draws of the first part, shape (draws, chains times size)."""
    draws = []
    for k in range(updates):
        state = kernel.update(state, inplace=True)
        if k % every == every - 1:
            draws.append(state.position["x"].flatten().clone())
    draws = torch.stack(draws)
    assert torch.isfinite(draws).all(), "not finite"
    return draws.numpy()


def law_of_gaussian_chain(draws, autocovariance):
    """Mean, variance and lag-1 covariance of a stationary Gaussian chain against its exact autocovariance γ_k.

    Standard errors follow from γ: Var[x̄] = Σ γ_k / N; Var[mean of x_t x_{t+l}] = Σ (γ_k² + γ_{k+l} γ_{k-l}) / N.

    Parameters
    ----------
    draws : array, shape (draws, independent coordinates)
    autocovariance : array, γ_0, γ_1, ... up to where it vanishes
    """
    total = draws.size
    gamma = np.concatenate([autocovariance[:0:-1], autocovariance])  # γ_{-n} ... γ_n
    assert abs(draws.mean()) < Z * np.sqrt(gamma.sum() / total)
    for lag in (0, 1):
        found = (draws[lag:] * draws[: len(draws) - lag]).mean()
        error = np.sqrt((gamma**2 + np.roll(gamma, lag) * np.roll(gamma, -lag)).sum() / total)
        assert abs(found - autocovariance[lag]) < Z * error, (lag, found, autocovariance[lag], error)


def independence(draws, others, autocovariance):
    """Two sets of chains with the same autocovariance don't know of each other, at the same time or a step apart."""
    gamma = np.concatenate([autocovariance[:0:-1], autocovariance])
    for lag in (0, 1):
        products = draws[lag:] * others[: len(others) - lag]
        assert abs(products.mean()) < Z * np.sqrt((gamma**2).sum() / products.size)


def means(draws, functions, expected, largest_error):
    """Means of functions over all draws against exact values.

    The standard error comes from the means of independent coordinates; it must itself be small, or a sampler that
    hardly moves would pass.

    Parameters
    ----------
    draws : array, shape (draws, independent coordinates)
    largest_error : float
        In standard deviations of the function.
    """
    for function, value in zip(functions, expected, strict=True):
        values = function(torch.from_numpy(draws)).numpy()
        of_chains = values.mean(0)
        error = of_chains.std(ddof=1) / np.sqrt(len(of_chains))
        assert error < largest_error * values.std(), (error, values.std())
        assert abs(of_chains.mean() - value) < Z * error, (of_chains.mean(), value, error)


MOMENTS = (lambda x: x, lambda x: x**2, lambda x: x**3)


def order_of_invariance(module, make, settings, steps, monkeypatch):
    """Order in the step by which one update changes means under exp(-u), by quadrature: no chance involved.

    If one update changes ⟨φ⟩ by O(step^(n+1)), the bias of the chain's law is O(step^n). Chains stand on a grid of θ
    times Gauss-Hermite nodes for the momentum (if there is one) and for the noise ξ.

    Returns
    -------
    array: n for θ², θ³, and θ⁴; and with a momentum for p² and θp²
    """
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(24)
    low, high = make(1).span
    momentum = "friction" in settings
    axes = [np.linspace(low, high, 301), *([nodes] if momentum else []), nodes]
    grid = np.meshgrid(*axes, indexing="ij")
    theta, xi = (torch.from_numpy(grid[k].reshape(-1, 1)) for k in (0, -1))
    target = make(len(theta))
    weight = torch.exp(-target.u(theta))
    for k in range(1, len(axes)):
        weight = weight * torch.from_numpy(node_weights[np.searchsorted(nodes, grid[k].reshape(-1, 1))])
    weight = weight / weight.sum()

    monkeypatch.setattr(module, "NormalStreams", lambda *_: Fixed(xi))
    changes = []
    for step in steps:
        kernel = module.build(target, [(k,) for k in range(len(theta))], step=step, **settings)
        state = kernel.init({"x": theta})
        if momentum:
            state.momentum["x"].copy_(torch.from_numpy(grid[1].reshape(-1, 1)))
        after = kernel.update(state)
        differences = [after.position["x"] ** k - theta**k for k in (2, 3, 4)]
        if momentum:
            p, q = state.momentum["x"], after.momentum["x"]
            differences += [q**2 - p**2, after.position["x"] * q**2 - theta * p**2]
        changes.append([float((weight * difference).sum()) for difference in differences])
    assert np.abs(changes).min() > 1e-10, "too close to rounding"
    return np.log(np.divide(changes[1], changes[0])) / np.log(steps[1] / steps[0]) - 1


class Fixed:
    """In place of random streams."""

    def __init__(self, numbers):
        self.numbers = numbers

    def at(self, step):
        return self.numbers
