"""Posterior of linear attention against the unreduced action, minimised by brute force, and known limits."""

import mpmath
import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit import InputError, Model, find_minima, find_transitions
from phasekit.heads import build_energy
from phasekit.heads.energy import Averages
from phasekit.heads.order_parameters import order_parameters
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.action import LinearPosterior
from phasekit.theory.action.noise import relax


def unreduced(x, P, V, L, sigma_w, sigma_g, kappa):
    """Return S(c1, cG, ρ, ρ_s), written down from docs/theory.md; x in units that are all of order one."""
    c1, cG, rho, rho_s = x[0] / L, x[1] / L**1.5, sigma_g**2 * np.exp(x[2]), sigma_g**2 * np.exp(x[3])
    t = P * sigma_w**2 / (kappa * V)
    s, g = c1 + cG, cG + c1 / L
    q = cG**2 + 2 * c1 * cG / L + c1**2 / L + ((L - 1) * rho + rho_s) / L**2
    s2 = s**2 + rho_s / L
    data = P / (2 * kappa * V) * ((1 - t * s**2 / (1 + t * s2)) + (V - 1) * (1 - t * g**2 / (1 + t * q)))
    readout = V / 2 * np.log(1 + t * s2) + V * (V - 1) / 2 * np.log(1 + t * q)
    prior = (L**2 * s**2 + L**2 * (L - 1) * cG**2) / (2 * sigma_g**2)

    def cost(r):
        return r - 1 - np.log(r)

    noise = L * (L - 1) / 2 * cost(rho / sigma_g**2) + L / 2 * cost(rho_s / sigma_g**2)
    return data + readout + prior + noise


def random_models(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        V, L = int(rng.integers(2, 40)), int(rng.integers(3, 40))
        numbers = dict(zip(("sigma_w", "sigma_g", "kappa"), np.exp(rng.uniform(-0.7, 0.7, 3)), strict=True))
        scale = numbers["kappa"] * V * L / (numbers["sigma_w"] * numbers["sigma_g"])
        yield V, L, {**numbers, "P": float(scale * np.exp(rng.uniform(-1, 3)))}


@pytest.mark.slow
def test_lowest_minimum_is_that_of_the_unreduced_action():
    """40 random models, 8 starts each, in all four variables."""
    rng = np.random.default_rng(1)
    for V, L, numbers in random_models(40, 0):
        found = find_minima(Model(V=V, L=L, score="linear", **numbers), "posterior")
        assert found.converged[: int(found.count)].all()
        starts = [np.zeros(4), *(rng.normal(size=4) * [3, 6, 0.5, 0.5] for _ in range(7))]
        arguments = (numbers["P"], V, L, numbers["sigma_w"], numbers["sigma_g"], numbers["kappa"])
        lowest = min(minimize(unreduced, x, args=arguments, options={"gtol": 1e-7}).fun for x in starts)
        assert float(found.action[0]) == pytest.approx(lowest, rel=1e-9, abs=1e-6)


def test_derivatives_of_the_reduced_action():
    action, p = LinearPosterior(), Model(V=7, L=13, P=250.0, score="linear", sigma_g=0.8).parameters()
    z = tuple(np.random.default_rng(2).normal(size=(2, 30)) * 4)
    jet, h = action.jet(z, p), 1e-5
    for k in range(2):
        ends = [tuple(x + sign * h * (j == k) for j, x in enumerate(z)) for sign in (1, -1)]
        slope = (action.jet(ends[0], p).value - action.jet(ends[1], p).value) / (2 * h)
        np.testing.assert_allclose(jet.gradient[..., k], slope, atol=1e-7)
        for i in range(2):
            curvature = (action.jet(ends[0], p).gradient[..., i] - action.jet(ends[1], p).gradient[..., i]) / (2 * h)
            np.testing.assert_allclose(jet.hessian[..., k, i], curvature, atol=1e-8)


@pytest.mark.slow
def test_onset_is_the_golden_ratio_times_the_maps_at_large_L():
    model = Model(V=8, L=2**14, score="linear")
    ratio = find_transitions(model, "posterior").values["P1"] / find_transitions(model).values["P1"]
    assert ratio == pytest.approx((1 + np.sqrt(5)) / 2, rel=2e-4)


def test_onset_is_second_order_and_softens_the_pooling_mode():
    model = Model(V=8, L=16, score="linear")
    found = find_transitions(model, "posterior")
    assert found.order == "second"
    assert found.evidence["beta"] == pytest.approx(0.5, abs=0.01)
    P1 = found.values["P1"]
    spread = [float(find_minima(model.at(P=f * P1), "posterior").covariance.first[0]) for f in (0.9, 0.99, 0.999)]
    assert spread[1] / spread[0] > 5  # diverges as 1/(P1 − P)
    assert spread[2] / spread[1] == pytest.approx(10, rel=0.15)


def test_reference_values():
    """HMC of six chains gave q = .0576 and loss = 1.306 at P = 64; c1 = .106(2), cG = .129(1), q = .0573 at P = 512."""
    model = Model(V=8, L=16, score="linear")
    below, above = (find_minima(model.at(P=P), "posterior") for P in (64, 512))
    assert float(below.averages["q"][0]) == pytest.approx(0.0576, abs=1e-4)
    assert float(below.loss[0]) == pytest.approx(1.306, abs=0.01)
    assert float(above.order_parameters["c1"][0]) == pytest.approx(0.105, abs=5e-4)
    assert float(above.order_parameters["cG"][0]) == pytest.approx(0.130, abs=5e-4)


def ratio_of_means(ratio, weight):
    """Return ⟨ratio · weight⟩/⟨weight⟩ and its standard error."""
    mean = float((ratio * weight).mean() / weight.mean())
    return mean, float(((ratio - mean) * weight / weight.mean()).std()) / len(weight) ** 0.5


def test_coverage_is_that_of_heads_with_the_theorys_fluctuations():
    """Heads drawn as the theory says, a context so short that a mode counted twice (1/16 of the noise) would show."""
    V, L, heads = 4, 4, 100_000
    model = Model(V=V, L=L, P=60.0, score="linear")
    found, p = find_minima(model, "posterior"), model.parameters()
    c1, cG = (float(x[0]) for x in found.order_parameters.values())
    assert cG > 0.1
    s, q = c1 + cG, cG**2 + 2 * c1 * cG / L + c1**2 / L
    bulk, rows = relax(*(np.array(x) for x in (s, s**2, cG + c1 / L, q)), p).variances

    rng = np.random.default_rng(3)
    white = rng.normal(size=(heads, L, L))
    row_means = white.mean(-1, keepdims=True)
    noise = np.sqrt(bulk) * (white - row_means) + np.sqrt(rows) * row_means
    uniform, shift = np.full((L, L), 1 / L), np.roll(np.eye(L), 1, axis=0)
    for direction in (uniform, (shift - uniform) / np.sqrt(L - 1)):  # orthonormal: remove what is along the patterns
        noise -= (noise * direction).sum((1, 2), keepdims=True) * direction
    pooled, mixed, copied = (float(x[0]) for x in found.covariance)
    orders = rng.multivariate_normal([c1, cG], [[pooled, mixed], [mixed, copied]], heads)
    A = torch.from_numpy(noise / L + np.einsum("mk,kij->mij", orders, [uniform, shift]))

    sums = A.sum(-1)
    g = A.roll(-1, dims=-2).diagonal(dim1=1, dim2=2).mean(-1)
    averages = Averages(g, sums.mean(-1), sums.square().mean(-1), g, A.square().sum((1, 2)) / L)
    coverage = order_parameters(averages, L)[2]
    ratio, error = ratio_of_means(coverage, averages.q)
    assert found.coverage[0] == pytest.approx(ratio, abs=4 * error)
    assert error < 1e-3


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_coverage_without_data_is_that_of_prior_heads(inputs):
    model = Model(V=4, L=6, P=300, score="linear", inputs=inputs)
    heads, size = 4000, 6 if inputs == "positional" else 10
    G = torch.randn(1, heads, size, size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    energy = build_energy([draw_dataset(model, 0)], dtype="float64")
    averages = energy.averages(torch.zeros(1, heads, 4, 4, dtype=torch.float64), G)
    ratio, error = ratio_of_means(order_parameters(averages, 6)[2][0], averages.q[0])
    theory = find_minima(model.at(P=1e-9), "posterior").coverage[0]
    # Tokens: an entry (i, i) has the same token on both sides, which the theory leaves out (of relative order 1/L²).
    assert ratio == pytest.approx(theory, abs=4 * error, rel=0.0 if inputs == "positional" else 0.03)


@pytest.mark.parametrize(("P", "sigma_g"), [(1e-3, 0.1), (1e6, 100.0), (1e12, 1.0), (1e14, 100.0)])
def test_entropy_of_noise_that_data_leave_alone_or_squeeze_out(P, sigma_g):
    """ρ/σ_g² from 1 − 1e-6 to below 1e-16, where ρ/σ_g² − 1 is −1 in float64."""
    p = Model(V=2, L=2, P=P, score="linear", sigma_g=sigma_g).parameters()
    noise = relax(*(np.array(value) for value in (0.9, 0.9, 0.8, 0.7)), p)
    entropy = 0
    with mpmath.workdps(40):
        for number, rho in zip((2, 2), noise.variances, strict=True):
            ratio = mpmath.mpf(float(rho)) / mpmath.mpf(sigma_g) ** 2
            entropy += number * (ratio - 1 - mpmath.log(ratio)) / 2
    # Next to ρ = σ_g² the entropy is quadratic in what ρ, rounded to 1e-16 of itself, differs by.
    assert float(noise.entropy) == pytest.approx(float(entropy), rel=1e-12, abs=1e-20)


def test_the_metastable_minimum_with_negative_copying_is_found():
    """Between the directions that descents began from at first."""
    model = Model(V=7, L=8, P=415.2165410566543, score="linear", sigma_w=0.7266103971248982, sigma_g=1.2258459986012538)
    found = find_minima(model.at(kappa=0.5641789727674662), "posterior")
    assert found.action.tolist() == pytest.approx([197.3860001686936, 269.7637430633164], rel=1e-9)
    assert found.order_parameters["cG"][1] == pytest.approx(-0.46235, abs=1e-5)
    assert found.converged.all()


def test_the_minimum_with_negative_copying_is_found_beside_its_spinodal():
    """It exists from P = 5997 on; noises of rows and of entries differ by a factor of 17."""
    model = Model(V=8, L=2, P=6088.08, score="linear", sigma_w=0.460633, sigma_g=2.929015, kappa=3.592362)
    found = find_minima(model, "posterior")
    assert found.action[1] == pytest.approx(626.55486, rel=1e-6)
    assert found.order_parameters["cG"][1] == pytest.approx(-2.0809, abs=1e-4)
    assert found.converged.all()


@pytest.mark.parametrize(("V", "L", "P"), [(8, 8, 1e12), (8, 8, 3e11), (16, 4, 3e10)])
def test_one_minimum_is_listed_once_where_rounding_ends_descents_early(V, L, P):
    found = find_minima(Model(V=V, L=L, P=P, score="linear"), "posterior")
    assert found.count == 1
    assert found.converged[0]


@pytest.mark.parametrize(
    ("V", "L", "numbers", "spinodal", "start"),
    [
        (12, 20, (1.6367380439766352, 1.0248240073146997, 0.7098385055016556), 584.742, [3.71, -11.13, -0.7, -1.75]),
        (9, 13, (0.669192592877974, 1.8736750012439503, 2.053801813569961), 1321.58, [6.81, -18.54, -1.16, -2.32]),
    ],
)
@pytest.mark.parametrize("beyond", [1e-4, 1e-3, 1e-2])
def test_metastable_minima_within_a_per_cent_of_their_spinodal(V, L, numbers, spinodal, start, beyond):
    """Random models that lacked them, against the unreduced action; the spinodals are those of its minimiser."""
    P = spinodal * (1 + beyond)
    expected = minimize(unreduced, start, args=(P, V, L, *numbers), options={"gtol": 1e-8})
    names = ("sigma_w", "sigma_g", "kappa")
    found = find_minima(Model(V=V, L=L, P=P, score="linear", **dict(zip(names, numbers, strict=True))), "posterior")
    assert int(found.count) == 2
    assert float(found.action[1]) == pytest.approx(expected.fun, rel=1e-9)


def test_data_that_are_not_resolved_are_refused():
    with pytest.raises(InputError, match=r"P = .*resolved up to P/kappa"):
        find_minima(Model(V=8, L=16, P=1e10, kappa=1e-4, score="linear"), "posterior")
