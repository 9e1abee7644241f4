import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from phasekit.errors import InputError
from phasekit.heads import draw_start, draw_starts
from phasekit.heads.starts import best_readout, copy_logits, uniform_logits
from phasekit.model import Model

MODEL = Model(V=8, L=16, P=256)


def attention(model, G):
    if model.inputs == "token+position":
        G = G[model.V :, model.V :] + G[: model.V, : model.V].mean() + G[model.V :, : model.V].mean() * 2
    return np.asarray(model.score.rows(torch.from_numpy(G)))


def test_random_starts_are_prior_draws():
    model = MODEL.at(sigma_w=0.5, sigma_g=2.0)
    draws = [draw_start(model, "random", 0, member) for member in range(200)]
    for k, sigma in ((0, 0.5), (1, 2.0)):
        numbers = np.stack([draw[k] for draw in draws]).ravel()
        assert numbers.mean() == pytest.approx(0, abs=5 * sigma / np.sqrt(numbers.size))
        assert numbers.std() == pytest.approx(sigma, abs=5 * sigma / np.sqrt(2 * numbers.size))


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_softmax_starts_lie_on_their_branches(inputs):
    model = MODEL.at(inputs=inputs)
    np.testing.assert_allclose(attention(model, draw_start(model, "uniform", 0, 0)[1]), 1 / 16, rtol=0.2)
    A = attention(model, draw_start(model, "copy", 0, 0)[1])
    assert np.mean([A[i, i - 1] for i in range(16)]) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_linear_starts_cost_a_tenth_of_nothing_learned(inputs):
    """Their prior cost is P/(20κ), their attention is the pattern asked for."""
    model = MODEL.at(score="linear", inputs=inputs, sigma_g=2.0, kappa=0.5)
    for start, pattern in (("uniform", np.ones((16, 16))), ("copy", np.roll(np.eye(16), 1, axis=0))):
        G = np.mean([draw_start(model, start, 0, member)[1] for member in range(400)], axis=0)
        assert (G**2).sum() / (2 * 2.0**2) == pytest.approx(256 / (20 * 0.5), rel=0.02)
        A = attention(model, G)
        assert (A * pattern).sum() / np.sqrt((A**2).sum() * (pattern**2).sum()) > 0.99


@pytest.mark.parametrize(("P", "share"), [(100, 1.0), (10**8, None)])
def test_copy_starts_of_slow_scores_are_affordable(P, share):
    """SSA with n = 1 needs logits of L for half of the weight: far above what any head pays unless data are plenty."""
    model = Model(V=8, L=64, P=P, score={"name": "ssa", "n": 1.0, "b": 1.0}, sigma_g=2.0, kappa=0.5)
    logits = copy_logits(model)
    if share is None:
        assert np.roll(attention(model, logits), -1, axis=0).diagonal() == pytest.approx(0.5)
    else:
        assert (logits**2).sum() / (2 * 2.0**2) == pytest.approx(share * P / (2 * 0.5))
    assert np.count_nonzero(logits) == 64
    assert np.roll(logits, -1, axis=0).diagonal() == pytest.approx(logits.max())


def test_the_readout_is_best_for_its_attention():
    """Compare with numerical minimisation on (nearly) infinite data: the exact expectation over pairs of tokens."""
    model = Model(V=3, L=4, P=50, sigma_w=0.8, kappa=0.5)
    logits = copy_logits(model)
    A = attention(model, logits)
    sequences = np.stack(np.meshgrid(*[np.arange(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
    X = np.eye(3)[sequences]
    attended, target = A @ X, np.roll(X, 1, axis=1)

    def energy(w):
        error = ((target - attended @ w.reshape(3, 3)) ** 2).sum() / len(sequences)
        return 50 * error / (2 * 0.5 * 4) + (w**2).sum() / (2 * 0.8**2)

    found = minimize(energy, np.zeros(9), options={"gtol": 1e-9}).x.reshape(3, 3)
    np.testing.assert_allclose(best_readout(model, logits), found, atol=1e-6)


def test_a_start_belongs_to_its_member():
    W, G = draw_starts([MODEL], [("copy", 3), ("random", 1)], 7, torch.float64, torch.device("cpu")).values()
    for m, (start, member) in enumerate((("copy", 3), ("random", 1))):
        w, g = draw_start(MODEL, start, 7, member)
        assert np.array_equal(W[0, m].numpy(), w)
        assert np.array_equal(G[0, m].numpy(), g)
    others = [draw_start(MODEL, *key)[0] for key in (("copy", 7, 4), ("copy", 8, 3), ("uniform", 7, 3))]
    assert not any(np.array_equal(other, W[0, 0].numpy()) for other in others)


def test_uniform_rows_sum_to_one_without_a_cost():
    assert not uniform_logits(MODEL).any()


def test_unknown_starts_are_refused():
    with pytest.raises(InputError, match=r"^start = 'warm'"):
        draw_start(MODEL, "warm", 0, 0)
    with pytest.raises(InputError, match="seed = -1"):
        draw_start(MODEL, "copy", 0, -1)
