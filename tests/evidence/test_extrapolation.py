"""Extrapolation to zero step: exact lines, errors of the right size, and a sampled head against quadrature."""

import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.evidence import to_zero_step
from phasekit.model import Model
from phasekit.samplers import SGLD, diagnose, sample
from tests.evidence.exact import softmax_head

STEPS = np.array([0.1, 0.2, 0.4])


@pytest.mark.parametrize("order", [1, 2])
def test_polynomials_are_extrapolated_exactly(order):
    found = to_zero_step(STEPS, 1 + 3 * STEPS**order, [0.1, 0.2, 0.1], order=order)
    assert (found.value, found.slope) == pytest.approx((1.0, 3.0))
    assert found.chi2 == pytest.approx(0.0, abs=1e-20)
    assert found.freedom == 1


def test_errors_are_those_of_repeated_measurements():
    """Over 4000 repetitions: the value's pull is standard normal, χ² has its degrees of freedom as its mean."""
    random, errors = np.random.default_rng(0), np.array([0.1, 0.03, 0.2])
    runs = [to_zero_step(STEPS, 2 - STEPS + errors * random.standard_normal(3), errors) for _ in range(4000)]
    pulls = np.array([(run.value - 2) / run.error for run in runs])
    assert abs(pulls.mean()) < 4 / np.sqrt(4000)
    assert pulls.std() == pytest.approx(1, abs=4 / np.sqrt(8000))
    assert np.mean([run.chi2 for run in runs]) == pytest.approx(1, abs=4 * np.sqrt(2 / 4000))


def test_a_precise_mean_counts_more_than_a_vague_one():
    found = to_zero_step([0.1, 0.1, 0.2], [1.0, 5.0, 2.0], [1e-3, 10.0, 1e-3])
    assert found.value == pytest.approx(0.0, abs=0.01)


def test_a_wrong_order_shows_in_chi2():
    assert to_zero_step(STEPS, STEPS**2, [1e-3] * 3, order=1).chi2 > 100


@pytest.mark.parametrize(
    ("steps", "errors"), [([0.1], [1.0]), ([0.1, 0.1], [1.0, 1.0]), ([0.1, 0.2], [0.0, 1.0]), ([0.1, 0.2], [np.nan, 1])]
)
def test_what_has_no_line_is_refused(steps, errors):
    with pytest.raises(InputError):
        to_zero_step(steps, np.ones(len(steps)), errors)


HEAD = Model(V=2, L=2, P=8, score="softmax")


@pytest.mark.slow
def test_sgld_at_zero_step_is_the_posterior():
    """Loss and aG of a small head; at the longest step SGLD itself is many standard errors off."""
    weight, copying, _, loss = softmax_head(8)
    exact = {"aG": (weight * copying).sum() / weight.sum(), "loss": (weight * loss).sum() / weight.sum()}
    steps = (0.015, 0.03, 0.06)
    runs = [
        sample([HEAD], SGLD(step=s), draws=100, thin=round(0.6 / s), warmup=round(4 / s), members=50, device="cpu")
        for s in steps
    ]
    off = float(runs[-1].posterior.loss.mean() - exact["loss"])
    diagnoses = [diagnose(run) for run in runs]
    assert all(diagnosis.verdict() == "mixed" for diagnosis in diagnoses)
    for name, value in exact.items():
        rows = [diagnosis.table.sel(quantity=name).isel(dataset=0) for diagnosis in diagnoses]
        found = to_zero_step(steps, [float(row["mean"]) for row in rows], [float(row.mcse) for row in rows])
        assert abs(found.value - value) < 4 * found.error
        assert found.error < 0.012
        if name == "loss":
            assert abs(off) > 8 * found.error
            assert abs(found.value - value) < abs(off) / 2
