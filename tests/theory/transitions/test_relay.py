"""Questions of two kinds: a scan over (Δ, β), and free weights on all sequences, say what the theory says."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.tasks import draw
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions

GAPS, MATCHES = np.linspace(-12, 14, 521), np.linspace(-14, 14, 561)


def mixed(V, L, weight, **others):
    return Model(V=V, L=L, task={"name": "induction", "weight": weight}, **others)


def action(x, model):
    """Return S(Δ, β), written down here."""
    V, L, w = model.V, model.L, model.task.weight
    gap, match = x

    def data(alpha, P):
        t = P * model.sigma_w**2 / (model.kappa * V)
        g, q = ((V * y - 1) / (V - 1) for y in (alpha, alpha**2 + (1 - alpha) ** 2 / (L - 1)))
        return P / (2 * model.kappa * V) * (1 / (1 + t) + (V - 1) * (1 - t * g**2 / (1 + t * q)))

    first = 1 / (1 + (L - 1) * np.exp(-gap))
    second = 1 / (1 + (L - 1) * np.exp(-match * (L * first - 1) / (L - 1)))
    prior = ((L - 1) * gap**2 + (V - 1) * match**2) / (2 * model.sigma_g**2)
    return data(second, (1 - w) * model.P) + data(first, w * model.P) + prior


def dips(model):
    """Return the actions of all minima that descents from a scan's dips end at."""
    values = action((GAPS[:, None], MATCHES), model)
    inner, lowest = values[1:-1, 1:-1], np.ones((GAPS.size - 2, MATCHES.size - 2), dtype=bool)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            lowest &= inner <= values[1 + i : GAPS.size - 1 + i, 1 + j : MATCHES.size - 1 + j]
    ends = [
        minimize(action, (GAPS[i + 1], MATCHES[j + 1]), args=(model,), method="BFGS", options={"gtol": 1e-9})
        for i, j in zip(*np.nonzero(lowest), strict=True)
    ]
    return np.unique(np.round([end.fun for end in ends], 6))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8, 18, 19, 28, 30, 37, 39])
def test_minima_are_all_that_a_scan_finds(seed):
    random = np.random.default_rng(seed)
    L = int(random.integers(4, 14))
    scales = dict(zip(("sigma_w", "sigma_g", "kappa"), np.exp(random.uniform(-0.5, 0.5, 3)), strict=True))
    P = float(10 ** random.uniform(1, 4) * scales["kappa"] / scales["sigma_g"] ** 2)
    model = mixed(L + (0, 1, 7, 60)[seed % 4], L, float(random.uniform(0.02, 0.7)), P=P, **scales)
    found = find_minima(model)
    count = int(found.count)
    assert found.converged[:count].all()
    assert found.action[:count] == pytest.approx(dips(model), rel=1e-6)


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize(("V", "L", "P", "weight"), [(4, 4, 120.0, 0.3), (5, 4, 200.0, 0.15)])
def test_no_weights_lie_lower_on_all_sequences(V, L, P, weight):
    model = mixed(V, L, weight, P=P)
    x = np.eye(V)[np.array(list(permutations(range(V), L)))]

    def after_readout(collected, targets, P):
        phi, y = collected.reshape(-1, V), targets.reshape(-1, V)
        M, N = phi.T @ phi / len(phi), phi.T @ y / len(phi)
        return P / 2 * (1 - np.trace(N.T @ np.linalg.solve(M + np.eye(V) / P, N)))

    def energy(flat):
        first, second = flat[: L * L].reshape(L, L), flat[L * L :].reshape(V, V)
        keys = softmax(first) @ x
        collected = softmax(x @ second @ keys.transpose(0, 2, 1)) @ x
        both = after_readout(collected, np.roll(x, -1, axis=1), (1 - weight) * P)
        return both + after_readout(keys, np.roll(x, 1, axis=1), weight * P) + (flat**2).sum() / 2

    def pattern(k):
        gap, match = found.coordinates["gap"][k], found.coordinates["match"][k]
        return np.r_[(gap * (np.roll(np.eye(L), -1, 1) - 1 / L)).ravel(), (match * (np.eye(V) - 1 / V)).ravel()]

    found = find_minima(model)
    for k in range(int(found.count)):
        assert energy(pattern(k)) == pytest.approx(found.action[k], rel=1e-11)
    random = np.random.default_rng(0)
    starts = [*(size * random.standard_normal(L * L + V * V) for size in (0.3, 1.5)), pattern(0) + 0.1]
    ends = [minimize(energy, start, method="L-BFGS-B", options={"maxiter": 60}).fun for start in starts]
    assert min(ends) > found.action[0] * (1 - 1e-7)
    assert ends[-1] == pytest.approx(found.action[0], rel=1e-4)


def test_layers_form_together_or_one_after_the_other():
    alone = find_transitions(Model(V=8, L=8, task="induction")).describe()["P_star"]
    joint = find_transitions(mixed(8, 8, 0.01)).describe()
    assert joint["P_star"] == pytest.approx(alone / 0.99, rel=1e-3)  # layer 1's own questions teach nothing yet
    equal = find_minima(mixed(8, 8, 0.01, P=joint["P_star"]))
    assert equal.action[0] == pytest.approx(equal.action[1], rel=1e-8)
    apart = find_transitions(mixed(8, 8, 0.5)).describe()
    assert apart["P_star"] is None
    assert apart["P_layer1"] < apart["P_layer2"]
    equal = find_minima(mixed(8, 8, 0.5, P=apart["P_layer1"]))
    assert equal.action[0] == pytest.approx(equal.action[1], rel=1e-8)


def test_what_has_no_theory_or_no_network_is_refused_in_a_line():
    with pytest.raises(InputError, match="weight"):
        mixed(8, 8, 1.0)
    with pytest.raises(InputError, match="networks"):
        draw(mixed(8, 8, 0.5, P=20), 0)
