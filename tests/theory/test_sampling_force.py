"""Sparsemax on drawn data: against exact minimisation of rows, the limit of infinite data, and networks."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, train
from phasekit.heads.moments import pair_counts
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset
from phasekit.theory.corrections.sampling_force import _fields, rows_at, sparsemax_on_drawn_data
from phasekit.theory.minima import find_minima

HEAD = Model(V=8, L=32, P=16, score="sparsemax")


def simplex(z):
    """Project rows on the simplex by sorting (A. Martins, R. Astudillo, arXiv:1602.02068), in NumPy."""
    ordered = -np.sort(-z, axis=1)
    sums = ordered.cumsum(1) - 1
    size = (ordered * np.arange(1, z.shape[1] + 1) > sums).sum(1)
    return np.maximum(z - (sums[np.arange(len(z)), size - 1] / size)[:, None], 0)


def best_rows(model, seed, w):
    """Minimise the energy of all rows on one data set at W = w(1 − Π) + Π w₁, w₁ = 1, by projected gradient steps.

    Returns the mean of a row's energy (without what Π costs), of its copy weight and of its squared norm.
    """
    V, L, c = model.V, model.L, 1 / (model.kappa * model.L)
    bulk = np.eye(V) - 1 / V
    pairs = pair_counts(draw_dataset(model, seed).tokens, V).numpy()
    K = w**2 * np.einsum("jkab,ab->jk", pairs, bulk)
    T = w * np.einsum("jkab,ab->kj", pairs, bulk)[np.arange(L) - 1]  # T[i, j] = Σ_μ x_jᵀ W x_{i−1}
    hessian = c * K + np.eye(L) / model.sigma_g**2
    step = 1 / np.linalg.eigvalsh(hessian)[-1]
    a = before = np.full((L, L), 1 / L)
    for k in range(1, 400):
        ahead = a + (k - 1) / (k + 2) * (a - before)
        a, before = simplex(ahead - step * (ahead @ hessian - c * T)), a
    target = model.P * (V - 1) / V
    energy = c / 2 * (target + np.einsum("ij,jk,ik->i", a, K, a) - 2 * (a * T).sum(1))
    energy += ((a**2).sum(1) - 1 / L) / (2 * model.sigma_g**2)
    return energy.mean(), np.roll(a, -1, axis=0).diagonal().mean(), (a**2).sum(1).mean()


@pytest.mark.parametrize(
    ("model", "w"),
    [(HEAD, 0.4), (HEAD.at(P=64, kappa=2.0, sigma_g=2.0), 0.8), (HEAD.at(V=4, L=48, P=20, sigma_g=0.7), 0.9)],
)
def test_rows_are_those_of_drawn_data(model, w):
    """At a fixed readout, against 12 data sets. Tolerance: 4 standard errors, and 1 % for finite L and V."""
    drawn = np.array([best_rows(model, seed, w) for seed in range(12)])
    expected = rows_at(w, model, _fields(4096, model.L, 0))
    for k, value in enumerate(expected[:3]):
        error = 4 * drawn[:, k].std(ddof=1) / np.sqrt(len(drawn))
        assert value == pytest.approx(drawn[:, k].mean(), abs=error + 0.01 * value)
    without = rows_at(w, model.at(P=model.P * 10**6, kappa=model.kappa * 10**6), _fields(16, model.L, 0))
    assert abs(without.g / drawn[:, 1].mean() - 1) > 0.05 or abs(without.energy / drawn[:, 0].mean() - 1) > 0.01


def test_much_data_at_a_high_temperature_are_infinitely_many():
    """At fixed P/κ the noise falls as 1/κ: the two-level theory remains."""
    minima = find_minima(HEAD)
    deviations = []
    for k in (10, 1000, 10**5):
        found = sparsemax_on_drawn_data(HEAD.at(P=16.0 * k, kappa=float(k)), rows=512)
        deviations.append(found.aG / minima.order_parameters["aG"][0] - 1)
    assert abs(found.U / minima.action[0] - 1) < 1e-5
    assert deviations[-1] == pytest.approx(0, abs=2e-4)
    assert deviations[1] / deviations[2] == pytest.approx(100, rel=0.05)
    assert deviations[0] > 0.02


@pytest.mark.slow
def test_heads_trained_on_drawn_data():
    """Twice the copying of infinite data, and a lower energy: both are the sampling force's."""
    model = HEAD.at(L=64, P=23.0)
    heads = train(model, data_seeds=range(6), starts=("copy",), members=1, settings=Adam(steps=300)).data
    found = sparsemax_on_drawn_data(model)
    minima = find_minima(model)
    assert found.aG == pytest.approx(heads.aG.mean().item(), rel=0.03)
    assert found.q == pytest.approx(heads.q.mean().item(), rel=0.04)
    assert abs(found.U / heads.U.mean().item() - 1) < 0.002
    assert heads.aG.min() > 1.7 * minima.order_parameters["aG"][0]
    assert heads.U.max() < 0.99 * minima.action[0]
    support = (torch.from_numpy(heads.A.values) > 1e-3).sum(-1).double().mean().item()
    assert found.support == pytest.approx(support, rel=0.03)


def test_what_isnt_covered_is_refused():
    with pytest.raises(InputError, match="score = 'softmax'"):
        sparsemax_on_drawn_data(HEAD.at(score="softmax"))
    with pytest.raises(InputError, match=r"inputs = 'token\+position'"):
        sparsemax_on_drawn_data(HEAD.at(inputs="token+position"))
    with pytest.raises(InputError, match=r"^P = None"):
        sparsemax_on_drawn_data(HEAD.at(P=None))
