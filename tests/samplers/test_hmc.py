"""HMC: reversible, volume preserving, second order, and exact whatever the step."""

import inspect
import re

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.samplers import hmc
from phasekit.samplers.noise import NormalStreams
from phasekit.samplers.target import Evaluator, flat
from tests.samplers import checks, targets

CHAINS = 200


def trajectory(target, theta, p, step, leaps, hmc=hmc):
    """Return θ and p after leapfrog steps, and the energies U + p²/2 before and after."""
    kernel = hmc.build(target, checks.keys(target.chains, 0), step=step, leaps=leaps)
    state = kernel.init({"x": theta})
    evaluate = Evaluator(target)
    evaluate(state)
    momenta, before = [p.clone()], evaluate.energy() + hmc.kinetic([p])
    size = torch.full((target.chains,), step, dtype=torch.float64)
    hmc.leapfrog(target, evaluate, state, momenta, size, leaps)
    return state.position["x"], momenta[0], before, evaluate.energy() + hmc.kinetic(momenta)


def phase_points(chains, seed=0):
    return torch.randn(2, chains, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_docstring_states_what_the_code_does():
    kick, move, again = re.findall(r"^ {4}((?:p|theta) [-+] .*)$", inspect.getdoc(hmc.build), re.MULTILINE)
    target = targets.double_well(chains=4)
    target.scales = {"x": 1.7}
    theta, p = phase_points(4)
    names = {"theta": theta, "p": p, "step": 0.1, "scale": 1.7}
    for _ in range(3):
        for symbol, formula in (("p", kick), ("theta", move), ("p", again)):
            names["gradient"] = target.slope(names["theta"])
            names[symbol] = eval(formula, dict(names))
    found = trajectory(target, theta, p, step=0.1, leaps=3)
    torch.testing.assert_close(found[0], names["theta"], rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(found[1], names["p"], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_trajectories_are_reversible(make):
    target = make(50)
    theta, p = phase_points(50)
    there, momentum, *_ = trajectory(target, theta, p, step=0.15, leaps=20)
    back, reverse, *_ = trajectory(target, there, -momentum, step=0.15, leaps=20)
    assert (there - theta).abs().min() > 1e-4
    torch.testing.assert_close(back, theta, rtol=0, atol=1e-11)
    torch.testing.assert_close(-reverse, p, rtol=0, atol=1e-11)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_trajectories_preserve_volume(make):
    target, h = make(30), 1e-5
    theta, p = phase_points(30)
    columns = []
    for shift_theta, shift_p in ((h, 0), (0, h)):
        ends = [trajectory(target, theta + s * shift_theta, p + s * shift_p, 0.2, 7)[:2] for s in (1, -1)]
        columns.append([(a - b) / (2 * h) for a, b in zip(*ends, strict=True)])
    (a, c), (b, d) = columns
    torch.testing.assert_close(a * d - b * c, torch.ones_like(a), rtol=0, atol=1e-6)


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
def test_energy_error_is_of_second_order(make):
    assert np.abs(orders_of_energy_error(hmc, make) - 2).max() < 0.1


def orders_of_energy_error(module, make):
    theta, p = phase_points(400)
    errors = []
    for leaps in (40, 80, 160):
        _, _, before, after = trajectory(make(400), theta, p, step=2.0 / leaps, leaps=leaps, hmc=module)
        errors.append(float((after - before).abs().mean()))
    return np.log2([errors[0] / errors[1], errors[1] / errors[2]])


@pytest.mark.parametrize("make", [targets.skewed, targets.double_well])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_moments_at_a_long_step(make, temperature, seed):
    """Steps so long that a fifth to a third of the trajectories is rejected: only the Metropolis test mends them."""
    checks_hmc_on(hmc, make, temperature, seed)


STEPS = {targets.skewed: 1.0, targets.double_well: 0.42}


def checks_hmc_on(module, make, temperature, seed, updates=200):
    target = make(CHAINS)
    kernel = module.build(target, checks.keys(CHAINS, seed), step=STEPS[make], leaps=3, temperature=temperature)
    state = kernel.init({"x": torch.zeros(CHAINS, 1)})
    for _ in range(40):
        state = kernel.update(state, inplace=True)
    draws, errors = [], []
    for _ in range(updates):
        state = kernel.update(state, inplace=True)
        draws.append(state.position["x"][:, 0].clone())
        errors.append(state.error / temperature)
    draws = torch.stack(draws).numpy()
    checks.means(draws, checks.MOMENTS, targets.quadrature(target, checks.MOMENTS, temperature), largest_error=0.04)
    # In equilibrium a trajectory and its reverse are equally likely: downhill is as frequent as uphill, once accepted
    change = torch.stack(errors)
    balance = (change.sign() * change.neg().exp().clamp(max=1)).nan_to_num(nan=0.0).numpy()
    checks.means(balance, (lambda x: x,), (0.0,), largest_error=0.05)
    assert 0.5 < (state.accepted / state.tried).mean() < 0.9


@pytest.mark.parametrize("wanted", [0.6, 0.9])
def test_steps_are_tuned_to_the_wanted_acceptance_and_then_frozen(wanted, seed):
    """From a step several times too long. Dual averaging remembers its early, short steps: over 24 seeds the acceptance
    came out 0.072 above 0.6 after 200 updates, 0.045 after 400, and 0.035 (standard deviation 0.010) after 800.
    """
    target, adapt = targets.gaussian([1.0, 2.0, 5.0, 9.0] * 5, 30), 800
    kernel = hmc.build(target, checks.keys(30, seed), step=5.0, leaps=5, adapt=adapt, acceptance=wanted)
    state = kernel.init({"x": torch.zeros(30, 20)})
    for _ in range(adapt):
        state = kernel.update(state, inplace=True)
    frozen = state.log_step.clone()
    assert int(state.tried.sum()) == 0
    for _ in range(120):
        state = kernel.update(state, inplace=True)
    assert torch.equal(frozen, state.log_step)
    assert int(state.tried.min()) == 120
    assert abs((state.accepted / state.tried).mean() - wanted) < 0.035 + checks.Z * 0.010


def test_a_chain_tunes_its_step_by_itself():
    target, alone = targets.gaussian([1.0, 4.0], 5), targets.gaussian([1.0, 4.0], 1)
    start = torch.ones(5, 2)
    together = hmc.build(target, checks.keys(5, 0), step=1.0, leaps=3, adapt=20)
    single = hmc.build(alone, checks.keys(5, 0)[3:4], step=1.0, leaps=3, adapt=20)
    a, b = together.init({"x": start}), single.init({"x": start[:1]})
    for _ in range(40):
        a, b = together.update(a), single.update(b)
    torch.testing.assert_close(a.position["x"][3:4], b.position["x"], rtol=1e-10, atol=0)
    torch.testing.assert_close(a.log_step[3:4], b.log_step, rtol=1e-10, atol=0)


def test_overflowing_trajectories_are_rejected():
    target = targets.skewed(6)
    kernel = hmc.build(target, checks.keys(6, 0), step=1e4, leaps=4)
    state = kernel.init({"x": torch.zeros(6, 1)})
    after = kernel.update(state)
    assert not torch.isfinite(after.error).all()
    for name in ("position", "gradient"):
        assert torch.equal(flat(getattr(after, name)["x"], 6), flat(getattr(state, name)["x"], 6))
    assert torch.equal(after.energy, state.energy)
    assert after.accepted.sum() == 0


def test_state_holds_energy_and_gradient_of_its_position():
    target = targets.double_well(20)
    kernel = hmc.build(target, checks.keys(20, 0), step=0.4, leaps=4)
    state = kernel.init({"x": torch.linspace(-1.5, 1.5, 20)[:, None]})
    for _ in range(10):
        state = kernel.update(state)
        torch.testing.assert_close(state.gradient["x"], target.slope(state.position["x"]), rtol=1e-14, atol=0)
        torch.testing.assert_close(state.energy, target.u(state.position["x"])[:, 0], rtol=1e-14, atol=0)
    assert 0 < state.accepted.sum() < 200


def test_momenta_come_from_the_chains_streams():
    target = targets.gaussian([0.0], 8)  # flat: θ moves by p times the step
    kernel = hmc.build(target, checks.keys(8, 5), step=0.1, leaps=1, jitter=0.0, temperature=0.25)
    state = kernel.update(kernel.update(kernel.init({"x": torch.zeros(8, 1)})))
    noise = NormalStreams("hmc", checks.keys(8, 5), 1, torch.float64, "cpu")
    expected = 0.1 * 0.5 * (noise.at(0) + noise.at(1))
    torch.testing.assert_close(state.position["x"], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", 0), ("leaps", 0), ("leaps", 1.5), ("adapt", -1), ("acceptance", 1), ("jitter", 1), ("temperature", 0)],
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        hmc.build(targets.skewed(2), checks.keys(2, 0), **{"step": 0.1, "leaps": 2, field: value})


def test_gradients_from_minibatches_are_refused():
    target = targets.skewed(2)
    target.exact = False
    with pytest.raises(InputError, match="exact"):
        hmc.build(target, checks.keys(2, 0), step=0.1, leaps=2)
