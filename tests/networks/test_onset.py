import numpy as np
import pytest

from phasekit.errors import InputError
from phasekit.model import Model
from phasekit.networks import Adam, draw_dataset, onset_ratio, train

MODEL = Model(V=3, L=6, P=30, score="linear")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_networks_leave_zero_at_the_onset_of_their_own_data(seed):
    """The ratio is proportional to σ_w σ_g: just below 1 training ends at zero, just above it does not."""
    ratio = onset_ratio(draw_dataset(MODEL, seed))
    for target, learns in ((0.97, False), (1.03, True)):
        model = MODEL.at(sigma_w=target / ratio / 0.5, sigma_g=0.5)
        assert onset_ratio(draw_dataset(model, seed)) == pytest.approx(target)
        data = train(model, data_seeds=[seed], starts=["random"], members=2, settings=Adam(steps=2000)).data
        assert data.converged.values.all()
        assert (data.s.values > 0.02).all() if learns else (data.s.values < 1e-4).all()


def test_the_onset_shifts_as_predicted():
    """V = 8, L = 16: P₁ = 125.2 on infinite data (docs/theory.md, section 4); fluctuations raise the ratio."""
    ratios = [onset_ratio(draw_dataset(Model(V=8, L=16, P=128, score="linear"), seed)) for seed in range(20)]
    predicted = 128 / 125.2 * (1 + (1 + 64 / 256) / (2 * 128))
    # the formula is the first order in 1/P, for independent counts: good to a quarter of the shift of 0.5 %
    assert np.mean(ratios) == pytest.approx(predicted, abs=0.00125 + 3 * np.std(ratios) / np.sqrt(20))


def test_other_heads_have_none():
    with pytest.raises(InputError, match=r"^score = 'softmax'"):
        onset_ratio(draw_dataset(MODEL.at(score="softmax"), 0))
    with pytest.raises(InputError, match=r"^inputs = "):
        onset_ratio(draw_dataset(MODEL.at(inputs="token+position"), 0))
