"""BAOAB: its maps, its exact law, its bias."""

import inspect
import re

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.samplers import langevin
from phasekit.samplers.noise import NormalStreams
from tests.samplers import checks, targets

CHAINS, SIZE = 16, 96


def test_docstring_states_what_the_code_does():
    maps = re.findall(r"^ {4}([BAO])  (.*)$", inspect.getdoc(langevin.build), re.MULTILINE)
    assert "".join(name for name, _ in maps) == "BAOAB"
    target = targets.double_well(chains=4)
    target.scales = {"x": 1.7}
    settings = {"step": 0.13, "friction": 0.8, "temperature": 0.6}
    kernel = langevin.build(target, checks.keys(4, 0), **settings)
    before = kernel.init({"x": torch.linspace(-1, 2, 4)[:, None]})
    names = {"theta": before.position["x"], "p": before.momentum["x"], "scale": 1.7, "sqrt": np.sqrt, "exp": np.exp}
    names["xi"] = NormalStreams("langevin", checks.keys(4, 0), 1, torch.float64, "cpu").at(0)
    for name, formula in maps:
        names["gradient"] = target.slope(names["theta"])
        names["theta" if name == "A" else "p"] = eval(formula, {**names, **settings})
    after = kernel.update(before)
    torch.testing.assert_close(after.position["x"], names["theta"], rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(after.momentum["x"], names["p"], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("step", "friction", "temperature"), [(0.3, 1.0, 1.0), (1.4, 0.7, 0.5)])
def test_law_of_the_discretised_chain(step, friction, temperature, seed):
    checks_baoab_on_gaussian(langevin, step, friction, temperature, seed)


def checks_baoab_on_gaussian(module, step, friction, temperature, seed, updates=150):
    curvatures = (1.0, 0.3, 1.5)
    target = targets.gaussian(curvatures * (SIZE // 3), CHAINS)
    kernel = module.build(target, checks.keys(CHAINS, seed), step=step, friction=friction, temperature=temperature)
    laws = [targets.autocovariance_of_baoab(c, step, friction, temperature, lags=250) for c in curvatures]
    random = np.random.default_rng(seed)
    pairs = [random.multivariate_normal([0, 0], laws[k % 3][1], size=CHAINS) for k in range(SIZE)]
    theta, p = torch.from_numpy(np.stack(pairs, -1)).unbind(1)
    state = kernel.init({"x": theta})
    state.momentum["x"].copy_(p)
    draws = checks.trace(kernel, state, updates)
    for k, (gamma, _) in enumerate(laws):
        assert gamma[0] == pytest.approx(temperature / curvatures[k], rel=1e-10)  # BAOAB's θ has no bias here
        checks.law_of_gaussian_chain(draws[:, k::3], gamma)
        by_chain = draws[:, k::3].reshape(updates, CHAINS, -1)
        checks.independence(by_chain[:, 1:], by_chain[:, :-1], gamma)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_moments_of_targets_that_are_not_gaussian(make, seed):
    """At a step whose bias (second order, below) is far under the standard error."""
    checks_baoab_on(langevin, make, seed)


def checks_baoab_on(module, make, seed, updates=600):
    target = make(CHAINS, SIZE)
    kernel = module.build(target, checks.keys(CHAINS, seed), step=0.08, friction=1.0)
    state = kernel.init({"x": torch.zeros(CHAINS, SIZE)})
    for _ in range(200):
        state = kernel.update(state, inplace=True)
    draws = checks.trace(kernel, state, updates, every=5)
    checks.means(draws, checks.MOMENTS, targets.quadrature(target, checks.MOMENTS), largest_error=0.03)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_bias_is_of_second_order_in_the_step(make, monkeypatch):
    order = checks.order_of_invariance(langevin, make, {"friction": 0.8}, (0.0125, 0.025), monkeypatch)
    assert abs(order.min() - 2) < 0.25
    assert np.abs(order[:3] - 3).max() < 0.1  # moments of θ alone do better: what BAOAB is known for


def test_momenta_start_in_equilibrium(seed):
    chains = 4000
    kernel = langevin.build(targets.skewed(chains), checks.keys(chains, seed), step=0.1, friction=1.0, temperature=0.3)
    p = kernel.init({"x": torch.zeros(chains, 1)}).momentum["x"]
    assert abs(p.mean()) < checks.Z * np.sqrt(0.3 / chains)
    assert abs(p.square().mean() / 0.3 - 1) < checks.Z * np.sqrt(2 / chains)


@pytest.mark.parametrize("field", ["step", "friction", "temperature"])
def test_settings_out_of_range_are_refused(field):
    with pytest.raises(InputError, match=field):
        langevin.build(targets.skewed(2), checks.keys(2, 0), **{"step": 0.1, "friction": 1.0, field: -1.0})
