import numpy as np
import pytest
import torch

from phasekit.errors import InputError
from phasekit.heads import Adam, onset_ratio, train
from phasekit.model import Model
from phasekit.tasks.copy import draw_dataset

MODEL = Model(V=3, L=6, P=30, score="linear")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_networks_leave_zero_at_the_onset_of_their_own_data(inputs, seed):
    """The ratio is proportional to σ_w σ_g: just below 1 training ends at zero, just above it does not."""
    base = MODEL.at(inputs=inputs)
    ratio = onset_ratio(draw_dataset(base, seed))
    for target, learns in ((0.97, False), (1.03, True)):
        model = base.at(sigma_w=target / ratio / 0.5, sigma_g=0.5)
        assert onset_ratio(draw_dataset(model, seed)) == pytest.approx(target)
        data = train(model, data_seeds=[seed], starts=["random"], members=2, settings=Adam(steps=1200)).data
        assert data.converged.values.all()
        assert (data.s.values > 0.02).all() if learns else (data.s.values < 1e-4).all()


def test_the_onset_shifts_as_predicted():
    """V = 8, L = 16: P₁ = 125.2 on infinite data (docs/theory.md, section 4); fluctuations raise the ratio."""
    ratios = [onset_ratio(draw_dataset(Model(V=8, L=16, P=128, score="linear"), seed)) for seed in range(20)]
    predicted = 128 / 125.2 * (1 + (1 + 64 / 256) / (2 * 128))
    # the formula is the first order in 1/P, for independent counts: good to a quarter of the shift of 0.5 %
    assert np.mean(ratios) == pytest.approx(predicted, abs=0.00125 + 3 * np.std(ratios) / np.sqrt(20))


@pytest.mark.parametrize("inputs", ["positional", "token+position"])
def test_it_is_the_curvature_of_the_energy_at_zero(inputs, monkeypatch):
    """Against the Hessian of U at W = G = 0 by automatic differentiation: its smallest eigenvalue is 1 - ratio."""
    monkeypatch.setattr("phasekit.heads.onset._CHUNK_NUMBERS", 200)
    model = Model(V=2, L=3, P=20, score="linear", inputs=inputs)
    dataset = draw_dataset(model, 0)
    X = torch.nn.functional.one_hot(torch.from_numpy(dataset.tokens.astype("int64")), 2).double()
    seen = torch.eye(3, dtype=torch.float64).expand(20, 3, 3)
    seen = seen if inputs == "positional" else torch.cat([X, seen], 2)
    n = seen.shape[2]

    def energy(weights):
        W, G = weights[:4].view(2, 2), weights[4:].view(n, n)
        output = (seen @ G @ seen.mT / 3) @ X @ W
        return (X.roll(1, 1) - output).square().sum() / 6 + weights.square().sum() / 2

    hessian = torch.autograd.functional.hessian(energy, torch.zeros(4 + n * n, dtype=torch.float64))
    assert 1 - onset_ratio(dataset) == pytest.approx(float(torch.linalg.eigvalsh(hessian)[0]), abs=1e-10)


def test_other_heads_have_none():
    with pytest.raises(InputError, match=r"^score = 'softmax'"):
        onset_ratio(draw_dataset(MODEL.at(score="softmax"), 0))
