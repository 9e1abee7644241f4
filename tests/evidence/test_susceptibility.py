"""Fluctuations: of draws with a known variance, well by well and sign by sign, and of heads against quadrature."""

import json

import numpy as np
import pytest
import xarray as xr

from phasekit.evidence import density, susceptibility
from phasekit.model import Model
from phasekit.samplers import HMC, Samples, sample
from phasekit.theory.minima import find_minima
from tests.evidence.exact import linear_head, softmax_head


def made_of(score, first, second):
    """Return samples with given draws (chain, draw) of both order parameters and noise for everything else."""
    random = np.random.default_rng(9)
    names = ("c1", "cG") if score == "linear" else ("a1", "aG")
    dims = ("chain", "draw", "dataset")
    values = {name: (dims, np.asarray(x)[..., None]) for name, x in zip(names, (first, second), strict=True)}
    for name in ("s", "s2", "g", "q", "loss", "U", "coverage"):
        values[name] = (dims, random.standard_normal((*np.shape(first), 1)))
    labels = {"P": ("dataset", [10]), "data_seed": ("dataset", [0])}
    posterior = xr.Dataset(values, {**labels, "start": ("chain", ["uniform"] * len(first))})
    about = xr.Dataset(attrs={"model": json.dumps(Model(V=4, L=8, score=score).describe())})
    return Samples(xr.DataTree.from_dict({"/": about, "posterior": posterior}))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_variance_of_known_draws():
    found = susceptibility(made_of("softmax", 1 + 2 * normal(4, 500), 0.3 * normal(4, 500, seed=1)))
    well = found.isel(dataset=0, well=0)
    assert list(found.quantity.values) == ["a1", "aG"]
    for k, sigma in enumerate((2.0, 0.3)):
        exact_error = sigma**2 * np.sqrt(2 / 2000)
        assert float(well.variance[k]) == pytest.approx(sigma**2, abs=4.5 * exact_error)
        assert float(well.error[k]) == pytest.approx(exact_error, rel=0.3)
    assert float(well["mean"][0]) == pytest.approx(1, abs=0.2)
    assert np.isnan(found.variance.isel(well=1)).all()


def test_the_distance_of_two_wells_is_no_fluctuation():
    wells = np.array([0.0, 0.0, 5.0, 5.0])[:, None]
    x = wells + np.array([0.1, 0.1, 0.4, 0.4])[:, None] * normal(4, 500)
    found = susceptibility(made_of("softmax", 1 - x, x)).isel(dataset=0)
    assert str(found.verdict.values) == "coexistence"
    np.testing.assert_allclose(found.variance.sel(quantity="aG"), [0.01, 0.16], rtol=0.25)
    np.testing.assert_allclose(found["mean"].sel(quantity="aG"), [0, 5], atol=0.1)


def test_chains_that_disagree_have_no_variance():
    x = np.cumsum(normal(4, 200), axis=1)
    found = susceptibility(made_of("softmax", 1 - x, x))
    assert found.verdict.values[0] == "not mixed"
    assert np.isnan(found.variance).all()


def test_the_sign_of_linear_attention_is_a_symmetry():
    """Deep in the ordered phase: the plain second moment holds the distance of ±3, the folded variance doesn't."""
    sign = np.sign(normal(4, 500, seed=5))
    c1, cG = sign * (3 + 0.2 * normal(4, 500)), sign * (1 + 0.1 * normal(4, 500, seed=1))
    found = susceptibility(made_of("linear", c1, cG)).isel(dataset=0, well=0)
    np.testing.assert_allclose(found.variance, [9.04, 1.01], rtol=0.05)
    np.testing.assert_allclose(found["mean"], 0)
    np.testing.assert_allclose(found.folded, [0.04, 0.01], rtol=0.3)
    np.testing.assert_allclose(found.folded_mean, [3, 1], atol=0.05)


@pytest.mark.parametrize(("score", "exact"), [("linear", linear_head), ("softmax", softmax_head)])
def test_heads_against_quadrature(score, exact):
    model = Model(V=2, L=2, P=8, score=score)
    samples = sample([model], HMC(step=0.3, leaps=5), draws=150, warmup=50, members=40, device="cpu")
    found = susceptibility(samples).isel(dataset=0, well=0)
    weight, copying, pooling, _ = exact(8)
    for k, x in enumerate((pooling, copying)):
        mean, square = (float((weight * y).sum() / weight.sum()) for y in (x, x**2))
        variance = square - (0 if score == "linear" else mean**2)
        assert abs(float(found.variance[k]) - variance) < 4.5 * float(found.error[k])
        assert float(found.error[k]) < 0.05 * variance


@pytest.mark.slow
def test_a_head_below_its_onset_has_the_inverse_hessian_of_theory():
    """Many rows (L = 16) and half of P1: second moments within the few per cent of leading order."""
    model = Model(V=8, L=16, P=115, score="linear")
    settings = {"draws": 100, "thin": 2, "warmup": 60, "members": 12, "device": "cpu"}
    found = susceptibility(sample([model], HMC(step=0.2, leaps=6), data_seeds=(0, 1), **settings))
    theory = find_minima(model, "posterior")
    for name in ("c1", "cG"):
        row = found.sel(quantity=name).isel(well=0)
        error = np.hypot(float((row.error**2).mean() ** 0.5), float(row.variance.std()))
        assert float(row.variance.mean()) == pytest.approx(theory.variance(name)[0], abs=4 * error)
        assert error < 0.15 * theory.variance(name)[0]


def test_peaks_are_counted():
    one, other = normal(2000), 8 + normal(500, seed=3)
    assert len(density(one).peaks) == 1
    both = density(np.concatenate([one, other]))
    np.testing.assert_allclose(both.peaks, [0.0, 8.0], atol=0.8)  # a mode of few hundred draws is this noisy
    assert np.trapezoid(both.density, both.x) == pytest.approx(1, abs=1e-3)
    assert len(density(5 + one, symmetric=True).peaks) == 2
    assert len(density(one, symmetric=True).peaks) == 1
