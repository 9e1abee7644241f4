"""The checks must reject samplers with one deliberate mistake. A check that accepts one of these is worth nothing."""

import inspect
import types

import numpy as np
import pytest

from phasekit.samplers import hmc, langevin, sgld
from tests.samplers import checks, targets
from tests.samplers.test_hmc import checks_hmc_on, orders_of_energy_error
from tests.samplers.test_langevin import checks_baoab_on, checks_baoab_on_gaussian
from tests.samplers.test_sgld import checks_sgld_on, checks_sgld_on_gaussian


def broken(module, right, wrong):
    """Return a copy of a sampler's module with one piece of its text exchanged."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, (right, source.count(right))
    copy = types.ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), "broken", "exec"), vars(copy))
    return copy


def sgld_gaussian(module, seed):
    checks_sgld_on_gaussian(module, 0.9, 0.5, seed)


def sgld_skewed(module, seed):
    checks_sgld_on(module, targets.skewed, 0.15, seed, updates=200)


def baoab_gaussian(module, seed):
    checks_baoab_on_gaussian(module, 1.4, 0.7, 0.5, seed)


def baoab_skewed(module, seed):
    checks_baoab_on(module, targets.skewed, seed, updates=400)


def hmc_skewed(module, seed):
    checks_hmc_on(module, targets.skewed, 0.6, seed, updates=120)


@pytest.mark.parametrize(
    ("module", "right", "wrong", "check"),
    [
        (sgld, "math.sqrt(2 * now * heat)", "math.sqrt(now * heat)", sgld_gaussian),
        (sgld, "math.sqrt(2 * now * heat)", "math.sqrt(2 * now) * heat", sgld_gaussian),
        (sgld, "alpha=-now * scale**2", "alpha=-now / 2 * scale**2", sgld_gaussian),
        (sgld, "alpha=-now * scale**2", "alpha=now * scale**2", sgld_skewed),
        (sgld, "noise.at(state.step)", "noise.at(0)", sgld_gaussian),
        (sgld, "noise.at(state.step)", "noise.at(state.step // 2)", sgld_gaussian),
        (sgld, "noise.at(state.step)", "noise.at(state.step).abs()", sgld_skewed),
        (sgld, "noise.at(state.step)", "noise.at(state.step)[:1].expand(target.chains, -1)", sgld_gaussian),
        (sgld, "        state.step += 1\n        evaluate(state)", "        state.step += 1", sgld_skewed),
        (langevin, "math.expm1(-2 * friction * now)", "math.expm1(-friction * now)", baoab_gaussian),
        (langevin, "math.exp(-friction * now)", "math.exp(-2 * friction * now)", baoab_gaussian),
        (langevin, "        evaluate(state)\n        kick(state, now / 2)", "        evaluate(state)", baoab_gaussian),
        (langevin, "        evaluate(state)\n        kick", "        kick", baoab_skewed),
        (langevin, "p.add_(gradient, alpha=-half * scale)", "p.add_(gradient, alpha=half * scale)", baoab_skewed),
        (langevin, "noise.at(state.step)", "noise.at(0)", baoab_gaussian),
        (hmc, "draws[:, 1] < probability", "draws[:, 1] < 2", hmc_skewed),
        (hmc, "-state.error / temperature", "state.error / temperature", hmc_skewed),
        (hmc, "+ (kinetic(p) - start_kinetic)", "", hmc_skewed),
        (hmc, "[math.sqrt(temperature) * xi", "[temperature * xi", hmc_skewed),
        (hmc, "whole = 0 < leap < leaps", "whole = 0 < leap", hmc_skewed),
        (hmc, "state.energy = torch.where(accepted, state.energy, start_energy)", "", hmc_skewed),
        (hmc, "noise.at(state.step)", "noise.at(0)", hmc_skewed),
    ],
)
def test_wrong_samplers_are_rejected(module, right, wrong, check):
    with pytest.raises((AssertionError, RuntimeError)):
        check(broken(module, right, wrong), seed=0)


@pytest.mark.parametrize(
    ("module", "check"), [(sgld, sgld_skewed), (langevin, baoab_skewed), (hmc, hmc_skewed), (sgld, sgld_gaussian)]
)
def test_the_same_checks_accept_a_copy_without_mistake(module, check):
    check(broken(module, "def build(", "def build("), seed=0)


def test_hmc_with_whole_kicks_at_the_ends_loses_its_order():
    """It is still exact, because it is still reversible; only the energy error tells."""
    wrong = broken(hmc, "value=-1.0 if whole else -0.5", "value=-1.0")
    assert np.abs(orders_of_energy_error(hmc, targets.skewed) - 2).max() < 0.1
    assert np.abs(orders_of_energy_error(wrong, targets.skewed) - 2).max() > 0.5


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("        drift(state, now / 2)\n        width", "        drift(state, now)\n        width"),
        ("        kick(state, now / 2)\n        drift", "        drift"),
        ("math.expm1(-2 * friction * now)", "math.expm1(-friction * now)"),
    ],
)
def test_a_splitting_that_is_not_symmetric_loses_its_order(right, wrong, monkeypatch):
    order = checks.order_of_invariance(
        broken(langevin, right, wrong), targets.skewed, {"friction": 0.8}, (0.0125, 0.025), monkeypatch
    )
    assert not (abs(order.min() - 2) < 0.25 and np.abs(order[:3] - 3).max() < 0.1)
