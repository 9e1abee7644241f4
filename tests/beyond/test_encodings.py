"""Encodings in the theory and in networks."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.heads import Adam, build_energy, train
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.action import action_for
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


@pytest.mark.parametrize("score", ["linear", "softmax", "ssa", "entmax", "sparsemax"])
def test_a_bias_for_each_distance_is_one_hot_positions_with_a_wider_prior(score):
    relative = Model(V=8, L=64, P=120, score=score, encoding="relative", sigma_g=0.7)
    wide = Model(V=8, L=64, P=120, score=score, sigma_g=0.7 * 8)
    one, other = find_minima(relative), find_minima(wide)
    assert one.action == pytest.approx(other.action, rel=1e-12)
    assert list(one.loss) == pytest.approx(list(other.loss), rel=1e-12)


def test_the_threshold_is_the_squared_logarithm_of_the_length():
    for L, ratio in (64, 1.85), (256, 1.57), (1024, 1.41):
        P = find_transitions(Model(V=8, L=L, encoding="relative")).threshold("P_star")
        assert P * 7 / 8 / np.log(L) ** 2 == pytest.approx(ratio, abs=0.006)
    assert find_transitions(Model(V=8, L=64, encoding="relative")).threshold("P_star") == pytest.approx(36.58, abs=6e-3)


@pytest.mark.parametrize("mask", ["none", "causal", "window:4"])
@pytest.mark.parametrize("path", ["moments", "sequences"])
def test_gradients_are_those_of_the_energy(mask, path):
    model = Model(V=3, L=6, P=20, encoding="relative", mask=mask)
    energy = build_energy([draw_dataset(model, 0)], dtype="float64", device="cpu", path=path)
    random = torch.Generator().manual_seed(0)
    W, G = (torch.randn(1, 2, *shape, generator=random, dtype=torch.float64) for shape in energy.shapes.values())
    _, dW, dG = energy.energy_and_gradient(W, G)
    for name, gradient in ("W", dW), ("G", dG):
        direction = torch.randn(gradient.shape, generator=random, dtype=torch.float64)
        h = 1e-6
        ends = [
            energy.energy_and_gradient(
                *(W + s * direction if name == "W" else W, G if name == "W" else G + s * direction)
            )[0]
            for s in (h, -h)
        ]
        assert torch.allclose((ends[0] - ends[1]) / (2 * h), (gradient * direction).sum((2, 3)), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_networks_at_both_ends_have_the_theory_s_energy():
    models = [Model(V=8, L=64, P=P, encoding="relative") for P in (36, 48, 72)]
    found = train(
        models, starts=("uniform", "copy"), members=1, settings=Adam(steps=800), device="cpu", dtype="float64"
    ).data
    for k, model in enumerate(models):
        theory = find_minima(model)
        ends = np.argsort(theory.averages["g"])
        assert found.converged[k].all()
        assert found.U.values[k] == pytest.approx(theory.action[ends], rel=5e-3)
        assert found.g.values[k] == pytest.approx(theory.averages["g"][ends], rel=5e-3, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_free_biases_find_nothing_lower(seed):
    """U on expected data as a function of all L biases; W is eliminated as a function of g and q."""
    random = np.random.default_rng(seed)
    V, L = int(random.integers(2, 30)), int(random.integers(6, 20))
    model = Model(V=V, L=L, P=float(random.uniform(5, 60)), encoding="relative")
    t = model.P / V

    def energy(b):
        a = np.exp(b - b.max())
        a /= a.sum()
        data = model.P / (2 * V) * (1 / (1 + t) + (V - 1) * (1 - t * a[1] ** 2 / (1 + t * (a**2).sum())))
        return data + (b**2).sum() / 2

    ends = [minimize(energy, random.normal(size=L) * scale, tol=1e-12).fun for scale in (0.01, 1, 3) for _ in range(8)]
    raised = minimize(energy, 4.0 * (np.arange(L) == 1), tol=1e-12).fun
    assert min(*ends, raised) == pytest.approx(find_minima(model).action[0], rel=1e-6)


def test_the_posterior_is_refused():
    with pytest.raises(InputError, match="share their logits"):
        action_for(Model(V=8, L=16, encoding="relative"), "posterior")
