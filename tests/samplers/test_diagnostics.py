"""Verdicts on chains whose behaviour is known."""

import json
import warnings

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.samplers import HMC, Samples, diagnose
from phasekit.samplers.observables import observable_names
from tests.samplers.checks import Z


def samples_of(copy, score="softmax", starts=None):
    """Samples whose copy order parameter is given, shape (chains, draws); everything else follows it."""
    chains = len(copy)
    model = Model(V=8, L=16, score=score)
    s = np.ones_like(copy) if score == "softmax" else 1.5 * copy
    even = copy**2
    values = {"a1": 1 - copy, "aG": copy, "c1": 0.5 * copy, "cG": copy, "s": s, "s2": s**2, "g": copy, "coverage": even}
    values |= {"q": 0.1 + even, "loss": 1 - even, "U": 50 - even}
    names = observable_names(model.score)
    array = np.stack([values[name] for name in names]).transpose(2, 0, 1)[:, :, None, :]
    starts = starts or ["uniform", "copy"] * (chains // 2)
    return Samples.from_draws(
        names,
        array,
        chain={"start": np.array(starts), "number": np.arange(chains)},
        dataset={"P": np.array([100]), "data_seed": np.array([0])},
        statistics={},
        attributes={"model": json.dumps(model.describe()), "method": json.dumps(HMC().describe()), "seed": 0},
    )


def autoregressive(chains, draws, correlation, seed, mean=0.0, width=1.0):
    random = np.random.default_rng(seed)
    x = np.empty((chains, draws))
    x[:, 0] = random.standard_normal(chains)
    for n in range(1, draws):
        x[:, n] = correlation * x[:, n - 1] + np.sqrt(1 - correlation**2) * random.standard_normal(chains)
    return mean + width * x


def test_independent_chains_are_mixed_and_averaged(seed):
    x = autoregressive(4, 1000, 0.0, seed, mean=0.3, width=0.02)
    diagnosis = diagnose(samples_of(x))
    assert diagnosis.verdict() == "mixed"
    row = diagnosis.table.sel(quantity="aG").isel(dataset=0)
    assert float(row["mean"]) == pytest.approx(x.mean())
    assert float(row.sd) == pytest.approx(x.std())
    assert float(row.mcse) == pytest.approx(0.02 / np.sqrt(4000), rel=0.25)
    assert float(row.rhat) < 1.01
    assert [len(wells) for wells in diagnosis.wells] == [1]
    assert diagnosis.wells[0][0].chains == (0, 1, 2, 3)
    assert set(diagnosis.table.quantity.values) == {"a1", "aG", "coverage", "g", "q", "loss", "U"}


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_autocorrelation_time_and_sample_size_of_a_known_chain(correlation, seed):
    x = autoregressive(4, 16_000, correlation, seed, mean=1.0, width=0.1)
    row = diagnose(samples_of(x)).table.sel(quantity="aG").isel(dataset=0)
    tau = (1 + correlation) / (1 - correlation)
    error = np.sqrt(4 * (5 * tau) / x.size)  # relative; of sums over lags up to five times tau (Sokal 1997)
    assert float(row.tau) == pytest.approx(tau, rel=Z * error)
    assert float(row.ess_bulk) == pytest.approx(x.size / tau, rel=Z * error)
    assert 0 < float(row.ess_tail) < x.size


def test_chains_in_two_wells_coexist_and_are_not_averaged_over():
    x = np.concatenate([autoregressive(3, 500, 0.3, 0, 0.02, 0.01), autoregressive(3, 500, 0.3, 1, 0.25, 0.02)])[
        [3, 0, 1, 4, 5, 2]
    ]
    diagnosis = diagnose(samples_of(x, starts=["copy", "uniform", "uniform", "copy", "copy", "uniform"]))
    assert diagnosis.verdict() == "coexistence"
    for name in ("mean", "mcse", "sd"):
        assert np.isnan(diagnosis.table[name]).all()
    assert float(diagnosis.table.rhat.max()) > 1.5
    low, high = diagnosis.wells[0]
    assert (low.chains, high.chains) == ((1, 2, 5), (0, 3, 4))
    assert set(low.starts) == {"uniform"}
    assert set(high.starts) == {"copy"}
    assert low.mixed
    assert high.mixed
    assert low.mean["aG"] == pytest.approx(x[[1, 2, 5]].mean())
    assert abs(high.mean["aG"] - 0.25) < 5 * high.mcse["aG"] < 0.02


def test_one_chain_in_the_other_well_is_enough():
    x = autoregressive(4, 1000, 0.1, 0, 0.02, 0.01)
    x[2] += 0.3
    diagnosis = diagnose(samples_of(x))
    assert diagnosis.verdict() == "coexistence"
    assert [well.chains for well in diagnosis.wells[0]] == [(0, 1, 3), (2,)]


def test_wells_too_slow_to_measure_coexist_all_the_same():
    """Chains of 60 autocorrelation times in all, each well in sight of its own chains only."""
    x = autoregressive(4, 150, 0.8, 0, 0.02, 0.01)
    x[2:] += 0.3
    diagnosis = diagnose(samples_of(x))
    assert diagnosis.verdict() == "coexistence"
    assert [well.mixed for well in diagnosis.wells[0]] == [False, False]
    assert np.isnan(diagnosis.table["mean"]).all()


def drifting(seed):
    return autoregressive(4, 500, 0.1, seed, 0.02, 0.01) + np.linspace(0, 0.3, 500)


def drifting_in_one_well(seed):
    x = autoregressive(4, 500, 0.1, seed, 0.02, 0.01)
    x[2:] += 0.3 + np.linspace(0, 0.1, 500)
    return x


def overlapping(seed):
    return autoregressive(4, 500, 0.1, seed, 0.1, 0.02) + np.array([[0.0], [0.0], [0.03], [0.03]])


def crossing_once(seed):
    x = autoregressive(4, 500, 0.1, seed, 0.02, 0.01)
    x[2:] += 0.3
    x[1, 300:] += 0.3
    return x


def slow(seed):
    return autoregressive(4, 300, 0.99, seed, 0.2, 0.05)


@pytest.mark.parametrize("make", [drifting, drifting_in_one_well, overlapping, crossing_once, slow])
def test_anything_else_is_not_mixed(make):
    diagnosis = diagnose(samples_of(make(seed=0)))
    assert diagnosis.verdict() == "not mixed"
    assert diagnosis.wells == ((),)
    assert np.isnan(diagnosis.table["mean"]).all()


def test_opposite_signs_of_a_linear_head_are_one_well():
    x = autoregressive(4, 1000, 0.0, 0, 0.13, 0.02)
    x[1:3] *= -1
    diagnosis = diagnose(samples_of(x, score="linear"))
    assert diagnosis.verdict() == "mixed"
    quantities = diagnosis.table.quantity.values.tolist()
    assert not {"c1", "cG", "s", "g"} & set(quantities)
    assert float(diagnosis.table["mean"].sel(quantity="cG_cG")[0]) == pytest.approx((x**2).mean())
    assert float(diagnosis.table["mean"].sel(quantity="c1_cG")[0]) == pytest.approx((0.5 * x**2).mean())


def test_bounds_are_the_callers():
    samples = samples_of(autoregressive(4, 1000, 0.0, 0, mean=0.3, width=0.02))
    assert diagnose(samples, ess_min=1e6).verdict() == "not mixed"
    assert diagnose(samples, rhat_max=0.9).verdict() == "not mixed"


@pytest.mark.parametrize(("shape", "field"), [((1, 50), "chains"), ((4, 7), "draws")])
def test_too_little_to_judge_is_refused(shape, field):
    starts = ["uniform"] * shape[0]
    with pytest.raises(InputError, match=field):
        diagnose(samples_of(np.random.default_rng(0).standard_normal(shape), starts=starts))


@pytest.mark.parametrize("at", [[0.1, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.01, 0.01, 0.3, 0.3]])
def test_chains_that_never_moved_are_not_mixed_and_settled_nowhere(at):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diagnosis = diagnose(samples_of(np.repeat(np.array(at)[:, None], 100, axis=1)))
    assert diagnosis.verdict() == "not mixed"
    assert diagnosis.wells == ((),)


@pytest.mark.parametrize("same", ["a1", "q", "U"])
def test_a_quantity_that_never_varies_takes_no_part(same):
    """Its R-hat is NaN, which no comparison notices or all do, by its place in the list."""
    for x, verdict in ((autoregressive(4, 500, 0.3, 0), "mixed"), (autoregressive(4, 500, 0.999, 1), "not mixed")):
        samples = samples_of(x)
        samples.posterior[same][:] = 0.5
        diagnosis = diagnose(samples)
        assert np.isnan(float(diagnosis.table.rhat.sel(quantity=same).isel(dataset=0)))
        assert diagnosis.verdict() == verdict
