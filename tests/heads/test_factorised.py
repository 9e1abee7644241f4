"""Factorised heads: energy by plain loops, gradient by autograd, starts, training, and the law of their logits."""

import itertools

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, build_energy, draw_start, train
from phasekit.heads.energy_moments import MomentEnergy
from phasekit.heads.factorised import FactorisedEnergy, factor_scale, law_correction
from phasekit.heads.train import evaluate
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

from . import brute_force

V, L, D = 3, 5, 2
VARIANTS = list(itertools.product(("linear", "softmax"), ("positional", "token+position"), ("auto", "sequences")))


def setting(score, inputs, path, dtype="float64"):
    models = [
        Model(V=V, L=L, P=P, score=score, inputs=inputs, sigma_w=0.7, sigma_g=1.3, kappa=0.4, key_dim=D)
        for P in (4, 40)
    ]
    energy = build_energy([draw_dataset(m, 1) for m in models], dtype=dtype, device="cpu", path=path)
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(2, 3, V, V, generator=generator, dtype=torch.float64)
    factors = torch.randn(2, 3, 2, D, energy.logit_size, generator=generator, dtype=torch.float64)
    return energy, W.to(energy.dtype), factors.to(energy.dtype)


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_energy_is_the_definition(score, inputs, path):
    energy, W, factors = setting(score, inputs, path)
    U = energy.energy_and_gradient(W, factors)[0]
    for d, m in itertools.product(range(2), range(3)):
        queries, keys = factors[d, m].numpy()
        data = energy.datasets[d]
        plain = data.model.at(key_dim=None)
        logits = np.array([[queries[:, a] @ keys[:, b] for b in range(keys.shape[1])] for a in range(keys.shape[1])])
        likelihood_and_w = brute_force.energy(plain, data.tokens, W[d, m].numpy(), logits) - (logits**2).sum() / (
            2 * 1.3**2
        )
        variance = 1.3 / np.sqrt(D)
        expected = likelihood_and_w + ((queries**2).sum() + (keys**2).sum()) / (2 * variance)
        assert float(U[d, m]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("score", "inputs", "path"), VARIANTS)
def test_gradient_against_finite_differences(score, inputs, path):
    energy, W, factors = setting(score, inputs, path)
    _, dW, dF = energy.energy_and_gradient(W, factors)
    generator = torch.Generator().manual_seed(1)
    along_W, along_F = (torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in (W, factors))
    h = 1e-6
    up, down = (energy.energy_and_gradient(W + e * along_W, factors + e * along_F)[0] for e in (h, -h))
    found = (dW * along_W).sum((2, 3)) + (dF * along_F).sum((2, 3, 4))
    torch.testing.assert_close(found, (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def test_averages_are_those_of_the_product():
    energy, W, factors = setting("softmax", "positional", "auto")
    plain = MomentEnergy([draw_dataset(d.model.at(key_dim=None), 1) for d in energy.datasets], energy.device, W.dtype)
    G = factors[:, :, 0].mT @ factors[:, :, 1]
    for name in ("loss", "s", "g", "q"):
        torch.testing.assert_close(getattr(energy.averages(W, factors), name), getattr(plain.averages(W, G), name))
    torch.testing.assert_close(energy.mean_attention(factors), plain.mean_attention(G))


def test_float32_becomes_double():
    energy, W, factors = setting("linear", "positional", "auto", "float32")
    double = energy.in_double()
    assert isinstance(double, FactorisedEnergy)
    assert double.dtype == torch.float64
    found = double.energy_and_gradient(W.double(), factors.double())[0]
    torch.testing.assert_close(energy.energy_and_gradient(W, factors)[0].double(), found, rtol=1e-5, atol=0)


def test_mirrored_head_is_the_same_head():
    energy, W, factors = setting("linear", "positional", "auto")
    sign = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]], dtype=torch.float64)
    mirrored = energy.mirrored(W, factors, sign)
    torch.testing.assert_close(energy.energy_and_gradient(*mirrored)[0], energy.energy_and_gradient(W, factors)[0])
    found = evaluate(energy, W, factors, 1e-7)
    assert (found["s"] >= 0).all()
    torch.testing.assert_close(found["U"], energy.energy_and_gradient(W, factors)[0])
    assert found["G"].shape == (2, 3, L, L)


@pytest.mark.parametrize("start", ["uniform", "copy"])
def test_ordered_starts_are_balanced_factors_of_their_pattern(start):
    model = Model(V=4, L=6, P=200, score="linear", key_dim=6)
    _, factors = draw_start(model, start, 0, 0)
    _, G = draw_start(model.at(key_dim=None), start, 0, 0)
    np.testing.assert_allclose(factors[0].T @ factors[1], G, atol=1e-12)
    # no factorisation of G is cheaper than twice its nuclear norm
    assert (factors**2).sum() == pytest.approx(2 * np.linalg.norm(G, "nuc"), rel=1e-12)
    assert (factors[0] ** 2).sum() == pytest.approx((factors[1] ** 2).sum())


def test_fewer_dimensions_keep_the_nuclear_norm():
    model = Model(V=4, L=6, P=200, key_dim=2)
    _, factors = draw_start(model, "copy", 0, 0)
    _, G = draw_start(model.at(key_dim=None), "copy", 0, 0)
    product = factors[0].T @ factors[1]
    assert np.linalg.matrix_rank(product) == 2
    assert np.linalg.norm(product, "nuc") == pytest.approx(np.linalg.norm(G, "nuc"))


def test_random_starts_give_logits_the_prior_variance():
    model = Model(V=2, L=200, P=1, sigma_g=0.6, key_dim=7)
    G = [factors[0].T @ factors[1] for factors in (draw_start(model, "random", 0, m)[1] for m in range(10))]
    # Var(G_ab²) = (2 + 6/d) σ⁴; entries that share a row or column correlate: 2d rows and columns a draw
    assert np.mean(np.square(G)) == pytest.approx(0.36, rel=5 * np.sqrt(2 / (10 * 7 * 200)))
    assert factor_scale(0.6, 7) ** 4 * 7 == pytest.approx(0.36)


def test_best_factors_pay_the_nuclear_norm():
    """Minimise the factors' norms at fixed product by brute force: G = Qᵀ K for any invertible Q."""
    random = np.random.default_rng(0)
    G = random.standard_normal((4, 4))
    Q = torch.tensor(random.standard_normal((4, 4)), requires_grad=True)
    target = torch.from_numpy(G)
    optimiser = torch.optim.LBFGS([Q], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-15,
                                  line_search_fn="strong_wolfe")  # fmt: skip

    def cost():
        optimiser.zero_grad()
        value = Q.square().sum() + torch.linalg.solve(Q.T, target).square().sum()
        value.backward()
        return value

    optimiser.step(cost)
    assert cost().item() == pytest.approx(2 * np.linalg.norm(G, "nuc"), rel=1e-8)


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_trained_heads_balance_their_factors_and_pay_the_nuclear_norm(inputs):
    model = Model(V=4, L=6, P=400, score="linear", inputs=inputs, key_dim=3, sigma_g=1.2)
    data = train(model, starts=("copy",), members=2, settings=Adam(steps=1500), dtype="float64").data
    assert data.converged.all()
    for m in range(2):
        G, W = data.G.values[0, m], data.W.values[0, m]
        plain = build_energy([draw_dataset(model.at(key_dim=None), 0)], dtype="float64", device="cpu")
        tensors = [torch.from_numpy(x)[None, None].contiguous() for x in (W, G)]
        likelihood = float(plain.energy_and_gradient(*tensors)[0]) - (G**2).sum() / (2 * 1.2**2)
        price = np.sqrt(3) * np.linalg.norm(G, "nuc") / 1.2
        assert float(data.U[0, m]) == pytest.approx(likelihood + price, rel=1e-6)
        assert np.linalg.matrix_rank(G, tol=1e-3) <= 3
        assert np.linalg.norm(G, "nuc") > 1


def test_law_correction_is_what_factors_add_to_gaussian_logits():
    """E f(WqᵀWk) = E f(G) + Cov(f, H)/(4d) + O(1/d²), for f = tr(GGᵀ)², whose exact moments are elementary."""
    random, n, d, sigma, N = np.random.default_rng(3), 3, 200, 1.4, 400_000
    G = sigma * random.standard_normal((N, n, n))
    H = law_correction(torch.from_numpy(G), sigma).numpy()
    assert abs(H.mean()) < 5 * H.std() / np.sqrt(N)
    f = ((G @ G.transpose(0, 2, 1)) ** 2).sum((1, 2))
    products = (f - f.mean()) * H / (4 * d)
    # E tr(GGᵀ)² of products: σ⁴ [2n³ + n² + (2n³ + ... )/d] by Wick's theorem over both factors
    exact = sigma**4 * factor_moment(n, d)
    assert products.mean() + sigma**4 * (2 * n**3 + n**2) == pytest.approx(
        exact, abs=5 * products.std() / np.sqrt(N) + sigma**4 * (n**4) * 4 / d**2
    )
    assert exact > sigma**4 * (2 * n**3 + n**2) * 1.005


def factor_moment(n, d):
    """E tr(GGᵀ)² for G = Qᵀ K/√d with standard normal d×n factors, by enumerating all pairings of both factors."""
    pairings = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    # G_ab G_cb G_cd G_ad = Σ_ijkl Q_ia K_ib Q_jc K_jb Q_kc K_kd Q_la K_ld
    rows, columns, hidden = "acca", "bbdd", "ijkl"
    total = 0
    for of_queries, of_keys in itertools.product(pairings, pairings):
        same = {name: {name} for name in "abcdijkl"}
        ties = [(hidden[x], hidden[y]) for x, y in (*of_queries, *of_keys)]
        ties += [(rows[x], rows[y]) for x, y in of_queries] + [(columns[x], columns[y]) for x, y in of_keys]
        for x, y in ties:
            merged = same[x] | same[y]
            for name in merged:
                same[name] = merged
        groups = {frozenset(group) for group in same.values()}
        total += np.prod([d if group <= set("ijkl") else n for group in groups])
    return total / d**2


def test_a_head_without_factors_is_refused():
    energy = build_energy([draw_dataset(Model(V=2, L=3, P=2), 0)], device="cpu")
    with pytest.raises(InputError, match="key_dim = None: a factorised head needs"):
        FactorisedEnergy(energy)


@pytest.mark.parametrize("key_dim", [0, -1, 2.5])
def test_wrong_key_dimensions_are_refused(key_dim):
    with pytest.raises(InputError, match=r"key_dim = .*must be None .* or a whole number of at least 1"):
        Model(V=2, L=3, key_dim=key_dim)


def test_models_without_factors_describe_themselves_as_before():
    assert "key_dim" not in Model(V=2, L=3).describe()
    factorised = Model(V=2, L=3, key_dim=4)
    assert Model(**factorised.describe()) == factorised
