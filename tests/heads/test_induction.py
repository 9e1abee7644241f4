"""Two-layer networks: their gradient against autograd, their energies against the theory's minima."""

import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, train
from phasekit.heads.induction import WEIGHTS, InductionEnergy, draw_induction_start, first_score
from phasekit.model import Model
from phasekit.samplers import sample
from phasekit.tasks import draw
from phasekit.theory.corrections.questions import questions_correction
from phasekit.theory.minima import find_minima
from phasekit.theory.transitions import find_transitions


def plain_energy(model, data, W, G1, G2):
    """Return U of one network as one would write it, for autograd."""
    P, V = len(data.tokens), model.V
    X = torch.eye(V, dtype=W.dtype)[torch.from_numpy(data.tokens.astype(np.int64))]
    rows = torch.arange(P)
    query, target = X[rows, data.query], X[rows, (data.query + 1) % model.L]
    keys = first_score(model).rows(G1) @ X
    attention = model.score.rows(torch.einsum("pv,vw,pjw->pj", query, G2, keys)[:, None])[:, 0]
    output = torch.einsum("pj,pjv->pv", attention, X) @ W
    priors = (W**2).sum() / (2 * model.sigma_w**2) + ((G1**2).sum() + (G2**2).sum()) / (2 * model.sigma_g**2)
    return ((target - output) ** 2).sum() / (2 * model.kappa) + priors


@pytest.mark.parametrize(
    ("V", "score", "first"),
    [(6, "softmax", None), (9, "softmax", "ssa"), (9, "ssa", "linear"), (6, "linear", "softmax"), (8, "entmax", None)],
)
def test_gradient_is_that_of_autograd(V, score, first):
    task = {"name": "induction", "first": first}
    model = Model(V=V, L=6, P=40, score=score, sigma_w=0.8, sigma_g=1.2, kappa=0.7, task=task)
    data = [draw(model.at(P=P), seed) for P, seed in ((40, 0), (25, 3))]
    energy = InductionEnergy(data, torch.device("cpu"), torch.float64)
    shapes = {"W": (V, V), "G1": (6, 6), "G2": (V, V)}
    torch.manual_seed(0)
    at = {name: torch.randn(2, 3, *shape, dtype=torch.float64) for name, shape in shapes.items()}
    gradient = {name: torch.empty_like(value) for name, value in at.items()}
    energy.bind(at, gradient)()
    found = energy.evaluate(at, 1e-7)
    for d in range(2):
        for member in range(3):
            weights = [at[name][d, member].clone().requires_grad_() for name in WEIGHTS]
            U = plain_energy(model, data[d], *weights)
            U.backward()
            assert float(found["U"][d, member]) == pytest.approx(float(U.detach()), rel=1e-12)
            for name, weight in zip(WEIGHTS, weights, strict=True):
                assert torch.allclose(gradient[name][d, member], weight.grad, rtol=1e-9, atol=1e-10)


def test_data_are_questions():
    model = Model(V=12, L=5, P=4000, task="induction")
    data = draw(model, 1)
    assert data.tokens.shape == (4000, 5)
    assert all(len(set(row)) == 5 for row in data.tokens[:200].tolist())
    counts = np.bincount(data.query, minlength=5)
    assert np.all(np.abs(counts - 800) < 5 * np.sqrt(640))
    seen = np.bincount(data.tokens.ravel(), minlength=12)
    assert np.all(np.abs(seen - 4000 * 5 / 12) < 5 * np.sqrt(4000 * 5 / 12))
    assert np.array_equal(
        data.targets[:5], [row[(m + 1) % 5] for row, m in zip(data.tokens, data.query, strict=True)][:5]
    )
    assert np.array_equal(draw(model, 1).tokens, data.tokens)


def test_starts_lie_on_their_branches():
    model = Model(V=10, L=10, P=500, task="induction")
    planted, nothing = (draw_induction_start(model, start, 0, 0) for start in ("copy", "uniform"))
    energy = InductionEnergy([draw(model, 0)], torch.device("cpu"), torch.float64)

    def order(start):
        at = {name: torch.from_numpy(value)[None, None] for name, value in start.items()}
        found = energy.evaluate(at, 1e-7)
        return float(found["alpha1"]), float(found["alpha2"])

    assert min(order(planted)) > 0.6
    assert order(nothing) == pytest.approx((0.1, 0.1), abs=0.01)
    small, large = (draw_induction_start(model, start, 0, 0)["G2"].std() for start in ("random:0.1", "random"))
    assert small < 0.2 < 0.5 < large
    for wrong in ("copy:3", "random:0", "random:x", "planted"):
        with pytest.raises(InputError) as refused:
            train(model, starts=(wrong,), settings=Adam(steps=1))
        assert refused.value.field == "start"


def test_samplers_say_that_they_know_one_head_only():
    with pytest.raises(InputError, match="must be one of copy"):
        sample(Model(V=8, L=8, P=20, task="induction"), method="sgld", draws=2)


@pytest.mark.slow
def test_networks_end_in_the_theory_s_minima():
    """From both ends, on four data sets: energies to 0.3 % once the readout's finite data are accounted for."""
    for V, L, P in ((8, 8, 400), (16, 16, 600)):
        model = Model(V=V, L=L, P=P, task="induction")
        theory = find_minima(model)
        correction = questions_correction(theory)
        data = train(model, data_seeds=range(4), starts=("copy", "uniform"), members=1, settings=Adam(steps=500)).data
        assert data.converged.all()
        for number, branch in ((0, 0), (1, int(np.argmin(np.abs(theory.order_parameters["alpha1"] - 1 / L))))):
            U = data.U.values[:, number]
            error = U.std(ddof=1) / 2
            predicted = theory.action[branch] + correction.readout[branch]
            assert predicted + correction.rest[branch] - 4 * error <= U.mean() <= predicted + 4 * error
            assert U.mean() == pytest.approx(predicted, rel=4e-3)
            for name in ("alpha1", "alpha2"):
                measured = data[name].values[:, number].mean()
                assert measured == pytest.approx(theory.order_parameters[name][branch], rel=0.02)


@pytest.mark.slow
def test_more_data_at_a_higher_temperature_come_closer():
    """κ times the data: the theory is the same, and what finite data change falls as 1/κ."""
    off = []
    for kappa in (1, 5):
        model = Model(V=8, L=8, P=200 * kappa, kappa=kappa, task="induction")
        data = train(model, data_seeds=range(5), starts=("copy",), members=1, settings=Adam(steps=500)).data
        theory = find_minima(model)
        off.append(data.U.values.mean() - theory.action[0])
        correction = questions_correction(theory)
        assert correction.readout[0] + correction.rest[0] < off[-1] < 0
    assert off[1] == pytest.approx(off[0] / 5, rel=0.4)
    assert abs(off[1]) < 0.003 * 71.66


@pytest.mark.slow
def test_small_weights_leave_the_unstructured_state_at_its_spinodal():
    """V = 12, L = 4: P* = 109, P_sp = 170. Beyond it they slide into the induction state, or into that with Δ < 0."""
    spinodal = find_transitions(Model(V=12, L=4, task="induction")).passages[0].spinodals[1]
    for times, leave in ((0.8, False), (1.4, True)):
        model = Model(V=12, L=4, P=round(times * spinodal), task="induction")
        data = train(model, starts=("random:0.1",), members=8, settings=Adam(steps=1500, rate=0.05)).data
        stay = np.isclose(data.alpha1.values, 1 / 4, atol=0.02)
        assert np.all(stay != leave)
        if leave:
            theory = find_minima(model).order_parameters["alpha1"]
            ends = np.abs(data.alpha1.values[0][:, None] - theory).argmin(1)
            assert set(theory[ends] > 1 / 4) == {True, False}  # either side of the state that was left
            assert data.alpha1.values[0] == pytest.approx(theory[ends], abs=0.03)
