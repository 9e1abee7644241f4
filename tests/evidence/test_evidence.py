"""The springs' gradient, free energies with a known answer, peaks, and extrapolation to zero step."""

import numpy as np
import pytest
import torch
import xarray as xr

from phasekit.evidence import barrier, density, early_warning, free_energy, to_zero_step
from phasekit.evidence.umbrella import SpringTarget
from phasekit.model import Model
from phasekit.networks import build_energy, draw_dataset
from phasekit.networks.starts import draw_starts


@pytest.mark.parametrize("score", ["softmax", "linear"])
def test_springs_pull_by_the_gradient_of_their_energy(score):
    model = Model(V=3, L=4, P=20, score=score)
    target = SpringTarget(build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu"), [0.3, -0.1], 500.0)
    W, G = draw_starts([model], [("random", 0), ("random", 1)], 0, torch.float64, torch.device("cpu"))
    dW, dG = torch.zeros_like(W), torch.zeros_like(G)
    gradient = target.bind((W, G), (dW, dG))
    gradient(0)
    wanted = dG[0, :, 2, 1].clone()
    energies = []
    for shift in (1e-5, -2e-5):
        G[:, :, 2, 1] += shift
        gradient(0)
        energies.append(gradient.energy().clone())
    np.testing.assert_allclose((energies[0] - energies[1]) / 2e-5, wanted, rtol=1e-6)


def double_well(a):
    """F = 4 [(2a)² − 1]² + a, wells near ±1/2."""
    return 4 * ((2 * a) ** 2 - 1) ** 2 + a


def test_barrier_of_a_double_well():
    """Windows drawn exactly, by inversion on a grid, from exp(−F − spring)."""
    random, stiffness = np.random.default_rng(1), 60.0
    centres, x = np.linspace(-0.8, 0.8, 13), np.linspace(-1.2, 1.2, 4001)
    draws = []
    for centre in centres:
        weight = np.exp(-double_well(x) - stiffness / 2 * (x - centre) ** 2)
        draws.append(np.interp(random.random((2, 400)), np.cumsum(weight) / weight.sum(), x))
    windows = xr.Dataset(
        {"aG": (("window", "chain", "draw"), np.array(draws))},
        {"centre": ("window", centres)},
        {"order": "aG", "stiffness": stiffness},
    )
    found = free_energy(windows, bins=48, bootstrap=40)
    wells = barrier(found)
    for (height, error), bottom in ((wells.from_low, -0.5), (wells.from_high, 0.5)):
        known = double_well(np.linspace(-0.1, 0.1, 99)).max() - double_well(bottom + np.linspace(-0.1, 0.1, 99)).min()
        assert abs(height - known) < 4 * error + 0.1
    p = np.exp(-double_well(x))
    exact = np.log(p[x < 0.0].sum() / p[x > 0.0].sum())
    assert abs(wells.difference[0] - exact) < 4 * wells.difference[1] + 0.02


def test_peaks_are_counted():
    random = np.random.default_rng(0)
    one, other = random.normal(0.0, 1.0, 2000), random.normal(8.0, 1.0, 500)
    assert len(density(one).peaks) == 1
    np.testing.assert_allclose(
        density(np.concatenate([one, other])).peaks, [0.0, 8.0], atol=0.8
    )  # a mode of few hundred draws is this noisy


def test_lines_are_extrapolated_exactly():
    found = to_zero_step([0.1, 0.2, 0.4], [1.3, 1.6, 2.2], [0.1, 0.2, 0.1])
    assert (found.value, found.slope) == pytest.approx((1.0, 3.0))
    assert found.chi2 == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("slowing", [True, False])
def test_critical_slowing_down_warns(slowing):
    random, P = np.random.default_rng(2), np.arange(10, 20)
    chains = []
    for k in range(len(P)):
        phi = 0.09 * k if slowing else 0.3
        x = np.zeros((8, 400))
        for n in range(1, 400):
            x[:, n] = phi * x[:, n - 1] + random.standard_normal(8)
        chains.append(x)
    series = xr.DataArray(np.array(chains), {"P": P}, ("P", "chain", "draw"))
    assert early_warning(series, 20.5).warned is slowing
