"""SGLD: its formula, its exact law, its bias."""

import inspect
import re

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.samplers import Decay, langevin, sgld
from phasekit.samplers.noise import NormalStreams
from tests.samplers import checks, targets

CHAINS, SIZE = 16, 96


def test_docstring_states_what_the_code_does():
    formula = re.search(r"^ {4}(theta - .*)$", inspect.getdoc(sgld.build), re.MULTILINE)[1]
    target = targets.gaussian([0.7, 2.0, 5.0], chains=4, scales=(0.5, 3.0))
    random = [torch.Generator().manual_seed(k) for k in (0, 1)]
    position = {name: torch.randn(4, 3, dtype=torch.float64, generator=g) for name, g in zip("xy", random, strict=True)}
    kernel = sgld.build(target, checks.keys(4, 0), step=0.13, temperature=0.6)
    state = kernel.update(kernel.update(kernel.init(position)))
    before = kernel.update(kernel.init(position))
    noise = NormalStreams("sgld", checks.keys(4, 0), 6, torch.float64, "cpu").at(1).split(3, dim=1)
    for xi, (name, scale) in zip(noise, target.scales.items(), strict=True):
        names = {"theta": before.position[name], "gradient": target.slope(before.position[name]), "scale": scale}
        expected = eval(formula, {**names, "xi": xi, "step": 0.13, "temperature": 0.6, "sqrt": np.sqrt})
        torch.testing.assert_close(state.position[name], expected, rtol=1e-14, atol=1e-14)


def test_without_noise_it_is_gradient_descent_bitwise():
    target = targets.double_well(chains=5)
    theta = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    kernel = sgld.build(target, checks.keys(5, 0), step=0.01, temperature=0.0)
    state = kernel.init({"x": theta})
    descent = torch.optim.SGD([theta], lr=0.01)
    for _ in range(50):
        state = kernel.update(state)
        theta.grad = target.slope(theta)
        descent.step()
        assert torch.equal(state.position["x"], theta)
    assert not torch.equal(theta, kernel.init({"x": torch.linspace(-2, 2, 5)[:, None]}).position["x"])


def test_updates_in_place_and_not_are_the_same_bitwise():
    target = targets.skewed(chains=3)
    for module, options in ((sgld, {}), (langevin, {"friction": 0.5})):
        kernel = module.build(target, checks.keys(3, 1), step=0.1, **options)
        kept = kernel.init({"x": torch.zeros(3, 1)})
        begun = kept.copy()
        pure, inplace = kept, kept.copy()
        for _ in range(20):
            pure, inplace = kernel.update(pure), kernel.update(inplace, inplace=True)
        assert pure.step == inplace.step == 20
        for name, tensor in pure.tensors().items():
            assert torch.equal(tensor, inplace.tensors()[name])
        for name, tensor in kept.tensors().items():
            assert torch.equal(tensor, begun.tensors()[name])


@pytest.mark.parametrize(("step", "temperature"), [(0.1, 1.0), (0.9, 0.5)])
def test_law_of_the_discretised_chain(step, temperature, seed):
    checks_sgld_on_gaussian(sgld, step, temperature, seed)


def checks_sgld_on_gaussian(module, step, temperature, seed, updates=150):
    curvatures = (1.0, 0.4, 1.7)
    target = targets.gaussian(curvatures * (SIZE // 3), CHAINS)
    kernel = module.build(target, checks.keys(CHAINS, seed), step=step, temperature=temperature)
    gammas = [targets.autocovariance_of_sgld(c, step, temperature, lags=300) for c in curvatures]
    normal = torch.randn(CHAINS, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    start = normal * torch.tensor([gamma[0] for gamma in gammas] * (SIZE // 3)).sqrt()
    draws = checks.trace(kernel, kernel.init({"x": start}), updates)
    for k, gamma in enumerate(gammas):
        checks.law_of_gaussian_chain(draws[:, k::3], gamma)
        by_chain = draws[:, k::3].reshape(updates, CHAINS, -1)
        checks.independence(by_chain[:, 1:], by_chain[:, :-1], gamma)


def test_scale_is_the_unit_of_the_position(seed):
    """With scales (s, r) and curvature 1/s², 1/r², θ/scale is a standard chain."""
    scales = (0.1, 20.0)
    target = targets.gaussian([1.0] * SIZE, CHAINS, scales=scales)

    def bind(position, gradient):
        def evaluate(step):
            for name, scale in target.scales.items():
                gradient[name].copy_(position[name] / scale**2)

        return evaluate

    target.bind = bind
    kernel = sgld.build(target, checks.keys(CHAINS, seed), step=0.5)
    gamma = targets.autocovariance_of_sgld(1.0, 0.5, 1.0, lags=100)
    normal = torch.randn(2, CHAINS, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    state = kernel.init({name: scales[k] * np.sqrt(gamma[0]) * normal[k] for k, name in enumerate("xy")})
    draws = []
    for _ in range(200):
        state = kernel.update(state, inplace=True)
        draws.append([state.position[name].flatten() / scale for name, scale in target.scales.items()])
    for k in range(2):
        checks.law_of_gaussian_chain(torch.stack([d[k] for d in draws]).numpy(), gamma)


@pytest.mark.parametrize(
    ("make", "step"),
    [(targets.skewed, 0.05), (targets.skewed, 0.15), (targets.double_well, 0.02), (targets.double_well, 0.05)],
)
def test_law_on_targets_that_are_not_gaussian(make, step, seed):
    """Against the stationary law of the discretised chain itself: no slack for bias."""
    checks_sgld_on(sgld, make, step, seed)


def checks_sgld_on(module, make, step, seed, updates=400):
    target = make(CHAINS, SIZE)
    expected = targets.stationary_law_of_sgld(target, step, checks.MOMENTS)
    kernel = module.build(target, checks.keys(CHAINS, seed), step=step)
    state = kernel.init({"x": torch.zeros(CHAINS, SIZE)})
    for _ in range(int(15 / step)):
        state = kernel.update(state, inplace=True)
    draws = checks.trace(kernel, state, updates)
    checks.means(draws, checks.MOMENTS, expected, largest_error=0.03)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_bias_is_of_first_order_in_the_step(make, monkeypatch):
    order = checks.order_of_invariance(sgld, make, {}, (0.0025, 0.005), monkeypatch)
    assert np.abs(order - 1).max() < 0.05
    target = make(1)
    exact = targets.quadrature(target, checks.MOMENTS)
    bias = [np.subtract(targets.stationary_law_of_sgld(target, step, checks.MOMENTS), exact) for step in (0.01, 0.02)]
    assert np.abs(np.log2(bias[1] / bias[0]) - 1).max() < 0.15


def test_step_and_temperature_may_fall():
    target = targets.gaussian([1.0], chains=2)
    step, temperature = Decay(0.5, power=0.6, offset=3.0), Decay(2.0, power=1.0, offset=1.0)
    kernel = sgld.build(target, checks.keys(2, 0), step=step, temperature=temperature)
    state = kernel.init({"x": torch.ones(2, 1)})
    noise = NormalStreams("sgld", checks.keys(2, 0), 1, torch.float64, "cpu")
    theta = torch.ones(2, 1, dtype=torch.float64)
    for n in range(10):
        h, T = 0.5 * (1 + n / 3) ** -0.6, 2 / (1 + n)
        theta = theta - h * theta + np.sqrt(2 * h * T) * noise.at(n)
        state = kernel.update(state)
        torch.testing.assert_close(state.position["x"], theta, rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("field", "value"), [("step", 0.0), ("step", -1.0), ("step", np.nan), ("step", "0.1"), ("temperature", -0.1)]
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        sgld.build(targets.skewed(2), checks.keys(2, 0), **{"step": 0.1, field: value})


@pytest.mark.parametrize(
    "position", [{"x": torch.zeros(3, 1)}, {"x": torch.full((2, 1), np.nan)}, {"y": torch.zeros(2, 1)}, {}]
)
def test_starts_that_make_no_sense_are_refused(position):
    kernel = sgld.build(targets.skewed(2), checks.keys(2, 0), step=0.1)
    with pytest.raises(InputError, match="position"):
        kernel.init(position)


def test_number_of_keys_must_be_that_of_chains():
    with pytest.raises(InputError, match="keys"):
        sgld.build(targets.skewed(2), checks.keys(3, 0), step=0.1)
